// SPDX-License-Identifier: Apache-2.0
#include "attempt/cut_short.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace shardsweep {
namespace {

constexpr std::size_t fewest_steps = 2;

struct StepTimes {
  double fastest = 0;
  double median = 0;
  double slow = 0;  // 95 % are not slower
};

StepTimes step_times(std::vector<double> sorted) {
  std::sort(sorted.begin(), sorted.end());
  const auto count = sorted.size();
  const double upper = sorted[count / 2];
  return {sorted.front(), count % 2 == 1 ? upper : (sorted[count / 2 - 1] + upper) / 2,
      sorted[(count * 95 + 99) / 100 - 1]};
}

}  // namespace

bool is_hopeless(std::span<const double> step_ms, double above_ms) {
  if (above_ms <= 0 || step_ms.size() < fewest_steps) return false;
  const auto times = step_times({step_ms.begin(), step_ms.end()});
  return times.fastest - (times.median - times.fastest) > above_ms;
}

bool is_hopeless_warming_up(std::span<const double> step_ms, double above_ms) {
  constexpr double shortest_ms = 10e3;
  constexpr double factor = 2;
  return std::all_of(
             step_ms.begin(), step_ms.end(), [](double one) { return one >= shortest_ms; }) &&
      is_hopeless(step_ms, factor * above_ms);
}

CutShort::CutShort(const AttemptSpec& spec)
    : nonce_(spec.nonce),
      world_(std::max(spec.world, 1)),
      above_ms_(spec.give_up_above_ms),
      warmup_(spec.warmup),
      tokens_per_step_(spec.tokens_per_step) {}

bool CutShort::see(const Record& record) {
  if (above_ms_ <= 0 || tokens_per_step_ <= 0 || record.type != RecordType::train_step)
    return false;
  // Records without `timed` come from a runner that records all steps.
  const bool timed = record.timed.value_or(seen_ >= warmup_);
  ++seen_;
  if (!(record.step_ms > 0)) return false;
  if (timed && !warm_) step_ms_.clear();
  warm_ = timed;
  step_ms_.push_back(record.step_ms);
  return timed ? is_hopeless(step_ms_, above_ms_) : is_hopeless_warming_up(step_ms_, above_ms_);
}

std::string CutShort::result_line() const {
  constexpr double milliseconds = 1e3;
  const auto times = step_times(step_ms_);
  const double tokens_per_s = milliseconds * static_cast<double>(tokens_per_step_) / times.median;
  return fmt::format(
      R"({{"type":"result","run_id":"{}","by":"agent","tokens_per_s":{},)"
      R"("tokens_per_s_per_gpu":{},"train_step_ms":{},"train_step_ms_min":{},)"
      R"("train_step_ms_p95":{},"train_step_ms_spread":{},"tokens_per_step":{},"steps":{},)"
      R"("warmup":{},"gave_up_above_ms":{}}})",
      nonce_, tokens_per_s, tokens_per_s / world_, times.median, times.fastest, times.slow,
      (times.slow - times.fastest) / times.median, tokens_per_step_, step_ms_.size(),
      seen_ - static_cast<std::int64_t>(step_ms_.size()), above_ms_);
}

}  // namespace shardsweep
