// SPDX-License-Identifier: Apache-2.0
// Measurements over time: series of one layout, or of each cell's best, where they change, and
// what else changed there. The changes are found and named by answer/series.hpp.
#pragma once

#include "answer/series.hpp"

#include <shardsweep/cell_key.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/table.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Subject of a series.
enum class HistoryOf : std::uint8_t {
  cell,   ///< the best of a cell: a point for each sweep and software that measured it
  layout  ///< one layout of a cell: a point for each run
};
SHARDSWEEP_WORDS(HistoryOf, "cell", "layout");

/// Facts known of a run, by the names that people see: version, image, code, nccl, …
using HistoryFacts = std::map<std::string, std::string>;

/// A run that is ranked.
struct HistoryRun {
  CellKey cell{};  ///< vars as words: "nvls 1"
  std::string cluster{};
  std::string runner{};
  std::string layout{};
  std::string sweep{};
  std::string trial{};
  std::int64_t remeasured = 0;  ///< number of the remeasurement after its sweep's end
                                ///< (remeasure.hpp); 0: a run of the sweep itself
  std::int64_t id = 0;          ///< id of its trial: later ones were submitted later
  Timestamp ended_at = 0;       ///< 0: not known
  SeriesPoint measured{};       ///< `at` and `time` are set by history_of()
  HistoryFacts software{};
  double replaced = 0;  ///< speed that `rerun` has replaced by this one; 0: it has replaced none
};

/// Fields that a column of `results` holds; the others follow from several columns.
template <>
inline constexpr auto described<HistoryRun> = Entries{
    Part{&HistoryRun::cell},
    Part{&HistoryRun::measured},
    SHARDSWEEP_FIELDS(HistoryRun, cluster, runner, layout, sweep, trial, remeasured),
    Field{"trial_id", &HistoryRun::id},
    Field{"ended_at", &HistoryRun::ended_at},
};

struct HistoryPoint {
  HistoryRun run{};                 ///< the median one of its layout's
  std::int64_t runs = 1;            ///< runs of that layout, in this point
  std::set<std::string> layouts{};  ///< layouts of a cell among which it is the best
};

struct HistorySeries {
  HistoryOf of = HistoryOf::cell;
  std::string title{};                 ///< "tiny, 2 GPUs"; with the layout if it is of one
  std::vector<HistoryPoint> points{};  ///< the oldest first; one at least
  SeriesAnswer answer{};
  /// Reason of each change: what else changed at its point, "version 1.4 -> 1.5, image a -> b".
  std::vector<std::string> reasons{};
  std::string newest_reason{};       ///< reason of the newest point, likewise; empty: nothing
  std::string unit{"tokens/s/GPU"};  ///< unit of the speeds
  double loss = 0;  ///< share by which it is now slower than it surely was at its best

  /// Verdict of the change by which it stands as it does, sure or in doubt
  /// (SeriesAnswer::standing); else of the newest point.
  [[nodiscard]] const SpeedVerdict& verdict() const;
  /// Point of that change; points.size(): nothing changed.
  [[nodiscard]] std::size_t since() const;
  /// Reason of that change, or of the newest point; empty if nothing known changed.
  [[nodiscard]] std::string reason() const;
};

struct History {
  HistoryOf of = HistoryOf::cell;
  bool by_time = false;                 ///< all runs have a time
  std::vector<HistorySeries> series{};  ///< the largest loss first; then what looks slower
};

/// A cell of which layouts were measured again has a series for each of these, as of layouts.
[[nodiscard]] History history_of(std::vector<HistoryRun> runs, HistoryOf of, double resolve);

/// A row for each series, with a line of its speeds.
[[nodiscard]] Table history_table(const History& history, bool utf8);
/// A row for each point, with its verdict.
[[nodiscard]] Table history_points(const History& history);

/// "15 series: 3 SLOWER, 12 UNDECIDED."
[[nodiscard]] std::string history_summary(const History& history);

/// A line for each of the series, three at most, that look slower since a change in doubt: what
/// history_sentence() says of it. Empty: none does.
[[nodiscard]] std::string history_doubts(const History& history);

/// Speeds as characters of eight heights, the last `width` of them: "▆▇▇▂▁".
[[nodiscard]] std::string spark_text(
    const std::vector<double>& values, std::size_t width, bool utf8);

/// "SLOWER by 4.2 % since 2026-11-21 03:33:58 (version 1.4 -> 1.5)"; of a change in doubt "looks
/// slower by …" with the doubt; of a series without a change what its newest point says.
[[nodiscard]] std::string history_sentence(const HistorySeries& series);

/// "SLOWER", or of an UNDECIDED verdict that matters "looks slower".
[[nodiscard]] std::string verdict_words(const SpeedVerdict& verdict);

/// Sentence on one point: "2026-11-21 03:33:58: 8,012 tokens/s/GPU, version 1.4, SLOWER: …".
[[nodiscard]] std::string point_sentence(const HistorySeries& series, std::size_t point);

}  // namespace shardsweep
