// SPDX-License-Identifier: Apache-2.0
// The one table of verdicts, and the noise that they rest on. Two layouts are compared by pairs
// of their finals if there are some, else by the medians of their runs. Noise comes from runs
// of one layout; the train steps within a run are its floor, because a run whose steps vary
// can't be repeated more exactly than they allow. Pure.
#pragma once

#include "search/finals.hpp"

#include <shardsweep/answer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// A layout as far as its speed goes: the median of its runs, or their mean.
struct LayoutSpeed {
  double value = 0;  ///< higher is faster
  std::int64_t runs = 0;
  std::optional<double> spread{};  ///< (most - least) / median of these runs
  double resolution = 0;           ///< share of the value that its log rounds away
  double sm_clock_mhz = 0;         ///< clock while it trained; 0: not known
  double step_noise = 0;           ///< step_noise_of() of its median run; 0: not known
  double others_cpu = 0;           ///< share of the CPUs that others used while it ran
  bool mean = false;               ///< `value` is the mean of its runs
};

/// Noise of a single run, from the runs of one cell or of one comparison.
struct Noise {
  double of_run = 0;         ///< standard deviation as a share; a layout's own may be larger
  std::int64_t freedom = 0;  ///< degrees of freedom: runs beyond the first of each layout
  [[nodiscard]] bool known() const { return freedom > 0; }
};

/// True if others used enough of the CPUs to explain a difference in speed.
[[nodiscard]] bool is_loaded(double others_cpu);

/// Standard deviation of a single run, as a share of its value, from the spread of several.
[[nodiscard]] std::optional<double> noise_of_run(const LayoutSpeed& layout);

/// Noise that the layouts have in common: the median over those that ran more than once. One odd
/// layout does not blur the others.
[[nodiscard]] Noise common_noise(const std::vector<LayoutSpeed>& layouts);

/// Standard deviation of the median of a run's train steps, as a share, from `spread`:
/// (p95 - min) / median of `steps`. Neighbouring steps are slow together: more than four count
/// as four. 0: not known.
[[nodiscard]] double step_noise_of(double spread, std::int64_t steps);

/// Default difference below which two layouts count as equally fast.
inline constexpr double usual_resolve = 0.01;

/// Compares the first to the second over single runs. A difference below `resolve` does not matter.
/// A decision needs a known noise, from layouts that ran more than once. If others used the CPUs,
/// it is UNDECIDED by load.
[[nodiscard]] SpeedVerdict compared(
    const LayoutSpeed& first, const LayoutSpeed& second, const Noise& noise, double resolve);

/// Verdict on the winner of finals, compared to another finalist.
[[nodiscard]] SpeedVerdict verdict_of_finals(
    const FinalVerdict& held, const FinalsSettings& settings);

/// The same verdict with the two sides exchanged.
[[nodiscard]] SpeedVerdict reversed(SpeedVerdict verdict);

/// `faster by 3.0 % +/- 1.0 % (12 pairs)`, `slower by …`, `tie: within 1.0 % (12 pairs)`,
/// `tie: 2.0 % +/- 3.0 % (5 runs each)`, `17.2 % ahead (1 run each)`, `open: 3.0 % ahead by its
/// clock alone (8 pairs)`.
[[nodiscard]] std::string verdict_text(const SpeedVerdict& verdict);

/// True if it is FASTER or SLOWER.
[[nodiscard]] bool is_sure(const SpeedVerdict& verdict);

/// The verdict in short, for tables: `faster`, `slower`, `tie`, `1 run`, `open`.
[[nodiscard]] std::string_view short_form(const SpeedVerdict& verdict);

/// `the 0.8 % that their logs round away`
[[nodiscard]] std::string rounding_text(double share);

}  // namespace shardsweep
