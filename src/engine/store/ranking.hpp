// SPDX-License-Identifier: Apache-2.0
// What `best` and heatmaps have in common: which runner counts, and the value of a layout that
// was measured several times.
#pragma once

#include "store/finals.hpp"
#include "store/reader.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardsweep::sqlite {

/// One measured run of a layout.
struct Run {
  double tokens_per_s_per_gpu = 0;
  std::optional<double> value;
  std::int64_t trial = 0;
};

/// Whether two trials are the same layout, measured in two sweeps. It is asked of runs that
/// beat the second best alone, which are few.
class SameLayout {
 public:
  explicit SameLayout(Database& database);
  bool operator()(const Run& a, const Run& b) { return select_.use(a.trial, b.trial).next(); }

 private:
  Statement select_;
};

/// The two fastest layouts of a cell.
struct BestOfCell {
  std::optional<Run> run;
  std::optional<Run> runner_up;
  std::int64_t repeats = 0;
  std::int64_t measured = 0;
  std::optional<double> spread;  ///< of the best one's repeats: (most - least) / median
  std::int64_t runner_up_repeats = 0;
  std::optional<double> runner_up_spread;
  /// A layout by the median of its runs.
  void offer(std::vector<Run>& runs, SameLayout& same_layout);
  void offer(const Run& alone, SameLayout& same_layout);
  /// Where finals were held, they say which two are the fastest, by the runs in them alone.
  /// `repeated`: by trial, those among what was asked for.
  void settle(FinalStandings& standings, const std::unordered_map<std::int64_t, Run>& repeated);
  const FinalStanding* standing = nullptr;  ///< of both; null: none

 private:
  void take(const Run& offered, std::int64_t runs, std::optional<double> its_spread,
            SameLayout& same_layout);
};

/// By tokens_per_s_per_gpu; of an even number the lower of the middle two, so that all numbers
/// that are shown together are of one run.
[[nodiscard]] const Run& median(std::vector<Run>& runs);
/// (most - least) / median of several runs. Sorts them.
[[nodiscard]] std::optional<double> spread_of(std::vector<Run>& runs);

/// What a person asked to see side by side. A selection that names `runner` or
/// `runner_version` has asked; so has a heatmap with that column as its rows or columns.
struct Mixing {
  bool runners = false;
  bool versions = false;
  bool codes = false;
};
[[nodiscard]] Mixing mixing_of(const Selection& selection);

/// What has measured a row, or was to.
struct RunnerOfRow {
  std::string_view model;
  std::string_view runner;
  std::string_view version;
  std::string_view code;  ///< hash of the user's own programs; may be empty
};

/// Runners (by name, version and code) of one model are not mixed unasked: the newest that has
/// measured something counts ("newest": submitted last), or the newest of all where none has.
class Runners {
 public:
  explicit Runners(Mixing mixing) : mixing_(mixing) {}
  /// A number for it; `measured` and the trial's id tell how new it is.
  std::size_t see(const RunnerOfRow& row, bool measured, std::int64_t trial);
  [[nodiscard]] bool counts(std::size_t number) const;
  [[nodiscard]] std::size_t size() const { return seen_.size(); }
  /// "mine 1.2".
  [[nodiscard]] std::string name(std::size_t number) const;
  /// Those that count, by their names.
  [[nodiscard]] std::vector<std::string> shown() const;
  /// Says which runner is shown and how to see the others; empty where all are shown.
  /// `version_column`: where the versions stand.
  [[nodiscard]] std::string note(std::string_view version_column) const;

 private:
  using Newness = std::pair<bool, std::int64_t>;
  struct Seen {
    std::string model;
    std::string runner;
    std::string version;
    std::string code;
    Newness newness;
    std::int64_t trials = 0;
    std::int64_t oldest = 0;  ///< id of a trial
  };
  [[nodiscard]] std::size_t find(const RunnerOfRow& row, bool measured) const;
  [[nodiscard]] bool has_codes(const Seen& one) const;
  [[nodiscard]] std::string name_of(const Seen& one) const;
  [[nodiscard]] std::vector<std::size_t> by_age() const;
  [[nodiscard]] std::string way_to(const Seen& hidden, std::string_view version_column) const;
  [[nodiscard]] bool is_rival(const Seen& one, const Seen& other) const;
  [[nodiscard]] Newness newness_of(const Seen& one) const;
  Mixing mixing_;
  std::vector<Seen> seen_;
  std::size_t last_ = 0;  ///< number that was told last
};

/// The vars of sweeps that were run. Those of imported tables are labels: they set nothing.
[[nodiscard]] std::vector<std::string> vars_of_cells(Database& database, const Source& source);

/// `software_version` where the rows have such a column (imported tables), else
/// `runner_version`.
[[nodiscard]] std::string_view version_column(const Source& source);

/// An expression that is the same for repeats of one layout; NULL where nothing is repeated,
/// because it costs.
[[nodiscard]] std::string group_expression(Database& database);

}  // namespace shardsweep::sqlite
