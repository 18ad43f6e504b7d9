// SPDX-License-Identifier: Apache-2.0
// What `best`, heatmaps and followers have in common: which software counts together, which
// runs are repeats of each other, and the answer of each cell.
#pragma once

#include "store/answers.hpp"
#include "store/reader.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardsweep::sqlite {

/// Software that a person asked to see side by side. A selection asks by `--all-versions` or by
/// naming a column, and a heatmap by its rows or columns.
struct SoftwareMix {
  bool runners = false;
  bool versions = false;
  bool codes = false;
};
[[nodiscard]] SoftwareMix software_mix_of(const Selection& selection);

/// Software that has measured a row, or was to.
struct RunnerOfRow {
  std::string_view model;
  std::string_view runner;
  std::string_view version;
  std::string_view code;  ///< hash of the user's own programs; may be empty
  std::size_t hardware = 0;
};

/// Software of rows, and which of it counts. On one cluster and for one model, runners (by name,
/// version and code) are not mixed unasked: the newest counts. It is the one submitted last among
/// those that have measured something, or among all if none has.
class Runners {
 public:
  explicit Runners(SoftwareMix mixing) : mixing_(mixing) {}
  /// A number for it; `measured` and the trial's id tell how new it is.
  std::size_t see(const RunnerOfRow& row, bool measured, std::int64_t trial);
  [[nodiscard]] bool counts(std::size_t number) const;
  [[nodiscard]] std::size_t size() const { return seen_.size(); }
  /// "mine 1.2".
  [[nodiscard]] std::string name(std::size_t number) const;
  /// Names of the software that counts.
  [[nodiscard]] std::vector<std::string> shown() const;
  /// The number of one that was seen; size(): it was not.
  [[nodiscard]] std::size_t find(const RunnerOfRow& row, bool measured) const;
  /// "nightly-9, nightly-8, nightly-7 and 990 more": the newest of these, by their names.
  [[nodiscard]] std::string names(const std::set<std::size_t>& numbers) const;
  /// Says that the ranking is one of some runs alone, of which, and how to rank all; empty: it
  /// is of all.
  [[nodiscard]] std::string note() const;

 private:
  using Newness = std::pair<bool, std::int64_t>;
  struct SoftwareRuns {
    std::string model;
    std::string runner;
    std::string version;
    std::string code;
    std::size_t hardware = 0;
    Newness newness;
    std::int64_t runs = 0;  ///< measured
  };
  /// The newest of several.
  struct Group {
    Newness newness{};
    std::size_t newest = 0;
  };
  /// Parts of a group's key: all runners of a model on one hardware, all versions of one runner,
  /// all codes of one version.
  static constexpr std::size_t all_runners = 2, all_versions = 3, all_codes = 4;
  [[nodiscard]] static std::string group_key(const RunnerOfRow& row, std::size_t parts);
  [[nodiscard]] const Group& group_of(const SoftwareRuns& one, std::size_t parts) const;
  [[nodiscard]] std::size_t number_of(const RunnerOfRow& row) const;
  SoftwareMix mixing_;
  std::vector<SoftwareRuns> seen_;
  std::unordered_map<std::string, std::size_t> numbers_;  ///< numbers of software, by its full key
  std::unordered_map<std::string, Group> groups_;
  std::map<std::string, std::set<std::string>> codes_;  ///< codes by name and version
  std::size_t last_ = 0;                                ///< number that was told last
};

/// A cell of `best`: model, sequence length, size, vars, hardware, and software.
struct AnsweredCell {
  CellAnswer answer;
  CellKey cell;
  std::size_t runner = 0;
  std::size_t hardware = 0;  ///< number of its cluster
};
/// All cells of a source, in no order. `runners` sees the software of each run.
[[nodiscard]] std::vector<AnsweredCell> answered_cells(
    Database& database, const Source& source, RankedAt at, Runners& runners, AnswerMaker& maker);

/// " AND …": of a selection's rows those of the time that it ranks; empty if all are of one. A
/// fault if they are to be of now and nothing was measured again.
[[nodiscard]] std::string only_ranked(Database& database, RankedAt at);
/// "Not measured again, so not ranked: …"; empty if the ranking is of the sweeps' own runs.
[[nodiscard]] std::string not_ranked_now(Database& database, const Source& source, RankedAt at);

/// The vars of sweeps that were run. Those of imported tables are labels: they set nothing.
[[nodiscard]] std::vector<std::string> vars_of_cells(Database& database, const Source& source);

/// `software_version` where the rows have such a column (imported tables), else
/// `runner_version`.
[[nodiscard]] std::string_view version_column(const Source& source);

/// An expression that is the same for repeats of one layout; NULL where nothing is repeated,
/// because it costs.
[[nodiscard]] std::string group_expression(Database& database);

}  // namespace shardsweep::sqlite
