// SPDX-License-Identifier: Apache-2.0
// Measurements of one thing over time, and where they change. A series is fitted by levels that
// are constant between changes, with a drift and an effect of its nodes if these explain more
// than they cost. An information criterion counts the changes; the one table of verdicts
// (verdict.hpp) says what each of them is. Pure.
#pragma once

#include "answer/verdict.hpp"

#include <shardsweep/answer.hpp>
#include <shardsweep/described.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace shardsweep {

/// One measurement; those of a series stand in the order of `at`.
struct SeriesPoint {
  double speed = 0;  ///< higher is faster; above 0
  double at = 0;     ///< time, in any unit
  /// Runs of one time were measured to be compared with each other: those of one sweep, or
  /// those of one remeasurement. Empty: not known.
  std::string time{};
  std::string nodes{};      ///< nodes on which it ran; empty: not known
  double resolution = 0;    ///< share of the speed that its log rounds away
  double step_noise = 0;    ///< step_noise_of(); 0: not known
  double sm_clock_mhz = 0;  ///< 0: not known
  double others_cpu = 0;    ///< share of the CPUs that others used
};

/// Fields that a column of `results` holds; the others follow from several columns.
template <>
inline constexpr auto described<SeriesPoint> = Entries{
    Field{"tokens_per_s_per_gpu", &SeriesPoint::speed},
    SHARDSWEEP_FIELDS(SeriesPoint, resolution, sm_clock_mhz, others_cpu),
};

struct SeriesSettings {
  double resolve = usual_resolve;  ///< a change that is surely smaller is SAME
  /// Noise of other runs, used if a series is too short to tell its own.
  Noise elsewhere{};
};

/// The level changed between the points `first - 1` and `first`.
struct SeriesChange {
  std::size_t first = 0;   ///< point with which the new level begins
  std::size_t from = 0;    ///< point with which the level before it began
  std::size_t end = 0;     ///< point behind the new level's last one
  SpeedVerdict verdict{};  ///< new level compared to the one before
};

struct SeriesAnswer {
  /// Verdict of each point compared to its level before it, or to the point before it if there
  /// is no level. The first point of a level has the verdict of the change. The very first one
  /// has nothing before it.
  std::vector<SpeedVerdict> points{};
  std::vector<double> levels{};  ///< the fitted speed at each point, on its nodes
  std::vector<SeriesChange> changes{};
  Noise noise{};          ///< noise of one measurement of this series
  double drift = 0;       ///< share by which the speed grows per unit of `at`; 0: none
  bool by_nodes = false;  ///< nodes differ in speed, and the levels allow for it
  /// False: no change was found, and the points differ too much for a level or have no known
  /// noise. Each point is then its own level.
  bool levelled = true;
  double resolve = usual_resolve;  ///< share above which a change matters

  /// The last change that is FASTER or SLOWER; null: there is none.
  [[nodiscard]] const SeriesChange* last_sure() const;
  /// The change that says how the series stands now: the last certain one, unless that was an
  /// improvement and a later drop in doubt may have undone it. A change stays until one the other
  /// way; a smaller change in doubt does not hide a certain one. Null: nothing changed.
  [[nodiscard]] const SeriesChange* standing() const;
  /// Share by which the series is now slower than it certainly was at its best; 0: it is not.
  [[nodiscard]] double loss() const;
};

/// `points` in the order of `at`. A change needs two points on each side if there are four or
/// more: one run that is off is no change, however far off it is. The first point may stand
/// alone if it was the only run of its time and the next time has three or more.
[[nodiscard]] SeriesAnswer answer_of_series(
    const std::vector<SeriesPoint>& points, const SeriesSettings& settings = {});

/// Number of points from which on a series tells its own noise.
inline constexpr std::size_t enough_points = 6;

/// Noise of one measurement, for series that are too short to tell their own: the median over the
/// longer ones; without one, that of `runs` of one layout at one time.
[[nodiscard]] Noise noise_of_others(const std::vector<std::vector<SeriesPoint>>& series,
    const std::vector<std::vector<SeriesPoint>>& runs);

}  // namespace shardsweep
