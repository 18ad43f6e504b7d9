// SPDX-License-Identifier: Apache-2.0
// What the first rank of an attempt found in its environment: read back, kept, and compared
// with what it was given.
#include "agent/reap.hpp"
#include "agent/running_attempt.hpp"

#include <utility>

namespace shardsweep::agent {

/// `pid`: 0 for a step, whose ranks are slurmstepd's: the first one may be on another host.
void RunningAttempt::follow_environment(pid_t pid, RankStart inside) {
  environment_since_ = clock_.now();
  environment_.emplace(spec_,
                       FirstRank{pid, 0, std::move(inside.argv), std::move(inside.environment),
                                 paths_.environment()},
                       seconds_of(clock_));
}

void RunningAttempt::read_environment() {
  if (!environment_ || stage_ != Stage::running) return;
  environment_->look(watch_.step() > 0, seconds_of(clock_));
  if (judge_environment()) begin_ending();
}

/// The same on every node, and at every try: whatever the ranks made of it, it was so before.
/// True where that is new.
bool RunningAttempt::judge_environment() {
  if (environment_->fault().empty() || is_overridden_) return false;
  is_overridden_ = true;
  evidence_.push_back(
      {environment_since_, Outcome::rejected, environment_->fault(), SaidBy::agent});
  return true;
}

/// Records beside those of the runner: whoever reads the result reads them too.
void RunningAttempt::write_environment() {
  if (!environment_) return;
  environment_->finish();
  (void)judge_environment();
  if (environment_->found().empty() && !spec_.container) return;
  WrittenRecord record{"environment", {}, {}};
  for (const auto& [name, value] : environment_->kept())
    record.texts.emplace("env." + name, value);
  if (spec_.container) record.texts.emplace("image_digest", image_digest_);
  write_record(record);
  if (is_overridden_)
    write_record({"refusal", {{"class", "usage"}, {"message", environment_->fault()}}, {}});
}

void RunningAttempt::write_record(const WrittenRecord& record) {
  auto writer = LineWriter::open(paths_.records());
  if (!writer) return log_.line(writer.error().what);
  const auto line = encode_record(record, spec_.nonce, clock_.now());
  if (const auto written = writer->append(line, true); !written)
    log_.line(written.error().what);
}

}  // namespace shardsweep::agent
