// SPDX-License-Identifier: Apache-2.0
#include "agent/environment_record.hpp"

#include <utility>

namespace shardsweep::agent {

EnvironmentRecord::EnvironmentRecord(const AttemptHere& here, pid_t pid, RankStart inside)
    : here_(here),
      reading_(here.spec,
          FirstRank{pid, 0, std::move(inside.argv), std::move(inside.environment),
              here.paths.environment()},
          here.now_s()),
      since_(here.clock.now()) {}

std::optional<Evidence> EnvironmentRecord::look(bool is_training) {
  reading_.look(is_training, here_.now_s());
  return judge();
}

std::optional<Evidence> EnvironmentRecord::judge() {
  if (reading_.fault().empty() || is_judged_) return std::nullopt;
  is_judged_ = true;
  return Evidence{since_, {Outcome::rejected, reading_.fault(), SaidBy::agent}};
}

std::optional<Evidence> EnvironmentRecord::finish(const std::string& image_digest) {
  reading_.finish();
  auto evidence = judge();
  if (reading_.found().empty() && !here_.spec.container) return evidence;
  WrittenRecord record{"environment", {}, {}};
  for (const auto& [name, value] : reading_.kept())
    record.texts.emplace("env." + name, value);
  if (here_.spec.container) record.texts.emplace("image_digest", image_digest);
  write(record);
  if (is_judged_) write({"refusal", {{"class", "usage"}, {"message", reading_.fault()}}, {}});
  return evidence;
}

void EnvironmentRecord::write(const WrittenRecord& record) const {
  auto writer = LineWriter::open(here_.paths.records());
  if (!writer) return here_.log.line(writer.error().what);
  const auto line = encode_record(record, here_.spec.nonce, here_.clock.now());
  if (const auto written = writer->append(line, true); !written)
    here_.log.line(written.error().what);
}

}  // namespace shardsweep::agent
