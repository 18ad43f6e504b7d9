// SPDX-License-Identifier: Apache-2.0
// What other people's trainers print, and their configurations: each reader takes any bytes. A
// result has finite numbers and no fault; facts told to another node come back the same.
#include "fuzzing.hpp"
#include "trainer/configuration.hpp"
#include "trainer/log_records.hpp"
#include "trainer/version.hpp"

#include <cmath>
#include <cstdlib>

namespace {

using namespace shardsweep;

void require(bool holds) {
  if (!holds) std::abort();
}

void read_log(const Trainer& trainer, std::string_view text, bool alone) {
  const TrainerRun run{.log = std::string(trainer.name),
      .warmup = 1,
      .steps = 2,
      .seq_len = 4096,
      .tokens_per_step = 1048576,
      .fake_world = alone ? 16 : 0};
  auto log = LogRecords::make(run, 16);
  auto other = LogRecords::make(run, 16);
  require(log && other);
  double now_s = 0;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    (void)log->see_version(line);
    for (const auto& record : log->read(line, now_s += 0.25))
      for (const auto& [key, value] : record.numbers)
        require(std::isfinite(value));
  }
  (void)other->add_facts(log->facts_text());
  require(other->facts_text() == log->facts_text());
  const WrittenRecord last = log->finish(0.01);
  require(last.type == "result" || (last.type == "error" && last.numbers.empty()));
  for (const auto& [key, value] : last.numbers)
    require(std::isfinite(value));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  for (const Trainer& trainer : trainers()) {
    read_log(trainer, text, false);
    read_log(trainer, text, true);
  }
  for (const auto trainer : configurable_trainers()) {
    const auto layout = layout_of(trainer, text, 16);
    if (layout) (void)configuration_of(trainer, *layout);
  }
  if (const auto own = CapturePattern::parse(text)) (void)own->capture(text);
  return 0;
}
