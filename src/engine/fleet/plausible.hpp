// SPDX-License-Identifier: Apache-2.0
// Results that cannot be true: they are kept, marked, repeated and never ranked.
#pragma once

#include <shardsweep/capabilities.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Values that a result has to agree with; unknown values are not checked.
struct ExpectedValues {
  std::optional<std::int64_t> n_params;
  std::optional<std::int64_t> tokens_per_step;
  std::int32_t gpus = 0;  ///< 0: not known
  /// Losses of other layouts after the same train step: same weights, same samples, so the same
  /// loss but for rounding.
  std::vector<double> losses{};
};

/// Why a result comes from another runner than the trial's; empty if it does not, or if one of the
/// two is unknown. A runner with another name is a trainer that the runner has started.
[[nodiscard]] std::string why_other_runner(const RunnerName& trials, const RunnerName& said);

/// Tokens per train step that this speed of all GPUs and `step_ms` give together, if they differ
/// from `tokens` by more than the share `rounding`; none if they agree, or if one of the three is
/// unknown (0).
[[nodiscard]] std::optional<double> other_tokens(
    double tokens_per_s, double step_ms, double tokens, double rounding);

/// Why the metrics of a result (metric.hpp, by name) can't be true; empty if they can. A
/// model FLOPs utilisation above 1 is faster than the hardware; parameters and tokens of a
/// train step are exact; speed and time of a train step have to give these tokens, but for a
/// tenth, since means and medians differ; a loss is held against the median of at least two others
/// that agree.
[[nodiscard]] std::string why_implausible(
    const std::map<std::string, double, std::less<>>& metrics, const ExpectedValues& expected);

}  // namespace shardsweep
