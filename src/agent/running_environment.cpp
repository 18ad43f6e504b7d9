// SPDX-License-Identifier: Apache-2.0
// What the first rank of an attempt found in its environment: read back, kept, and compared
// with what it was given.
#include "agent/reap.hpp"
#include "agent/running_attempt.hpp"

#include <utility>

namespace shardsweep::agent {

/// Ranks of a step are slurmstepd's: the first one may be on another host.
void RunningAttempt::follow_environment(pid_t pid, RankStart inside) {
  environment_.emplace(spec_, pid, 0, std::move(inside.argv), inside.environment,
                       seconds_of(clock_));
}

void RunningAttempt::read_environment() {
  if (!environment_ || stage_ != Stage::running) return;
  environment_->look(watch_.step() > 0, seconds_of(clock_));
  if (environment_->fault().empty() || is_overridden_) return;
  is_overridden_ = true;
  // The same on every node, and at every try.
  evidence_.push_back({clock_.now(), Outcome::rejected, environment_->fault(), SaidBy::agent});
  begin_ending();
}

/// A record beside those of the runner: whoever reads the result reads it too.
void RunningAttempt::write_environment() {
  if (!environment_ || (environment_->found().empty() && !spec_.container)) return;
  WrittenRecord record{"environment", {}, {}};
  for (const auto& [name, value] : environment_->kept())
    record.texts.emplace("env." + name, value);
  if (spec_.container) record.texts.emplace("image_digest", image_digest_);
  auto writer = LineWriter::open(paths_.records());
  if (!writer) return log_.line(writer.error().what);
  const auto line = encode_record(record, spec_.nonce, clock_.now());
  if (const auto written = writer->append(line, true); !written)
    log_.line(written.error().what);
}

}  // namespace shardsweep::agent
