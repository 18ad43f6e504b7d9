// SPDX-License-Identifier: Apache-2.0
// The parts of the reader: each answers one kind of question from a connection that can't
// write.
#pragma once

#include "store/selection.hpp"
#include "store/sqlite.hpp"

#include <shardsweep/results.hpp>

#include <map>
#include <string>
#include <vector>

namespace shardsweep::sqlite {

[[nodiscard]] Table query(Database& database, const std::string& text);
[[nodiscard]] Table list(Database& database, Listing listing, const std::vector<Value>& bound);
[[nodiscard]] Table results(Database& database, const ResultsRequest& request);
void each_result(Database& database, const ResultsRequest& request, const RowSink& sink);
[[nodiscard]] std::int64_t count(Database& database, const Selection& selection);
[[nodiscard]] Table best(Database& database, const Selection& selection);
[[nodiscard]] Table layouts(Database& database, const Selection& selection);
[[nodiscard]] Cells cells(Database& database, const HeatmapRequest& request);
[[nodiscard]] std::vector<ReportedTrial> trials(Database& database, const Selection& selection);
[[nodiscard]] ReportFacts facts(Database& database, const Selection& selection);
[[nodiscard]] ReportSources sources(Database& database, const Selection& selection);
[[nodiscard]] std::vector<Value> values(
    Database& database, const Selection& selection, const std::string& column);
[[nodiscard]] std::vector<SweepStatus> status(
    Database& database, const std::vector<std::string>& sweeps);
/// Regressions of a sweep's layouts, by the trials that brought the layouts; `name` is the sweep's.
[[nodiscard]] std::map<TrialId, Regression> regressions_of(
    Database& database, SweepId sweep, const std::string& name);
[[nodiscard]] std::vector<Regression> regressions(
    Database& database, const std::vector<std::string>& names);
[[nodiscard]] std::int64_t first_event(
    Database& database, const std::vector<SweepId>& sweeps, FollowFrom from);
[[nodiscard]] FinishedBatch finished(
    Database& database, const std::vector<SweepId>& sweeps, std::int64_t after_event);
[[nodiscard]] std::vector<AllocationProgress> allocations(
    Database& database, const std::vector<SweepId>& sweeps);
[[nodiscard]] std::vector<CellBest> best_of_cells(
    Database& database, const std::vector<SweepId>& sweeps);
[[nodiscard]] VerbScope meant(
    Database& database, const std::vector<std::string>& names, const std::string& where);
[[nodiscard]] NamedAttempts attempts(Database& database, const std::string& name);
[[nodiscard]] std::vector<Reader::Section> show(Database& database, const std::string& name);
[[nodiscard]] Table events(Database& database, const std::vector<std::string>& sweeps,
    std::int64_t after_id, std::int64_t limit);
[[nodiscard]] SweepLines sweep_lines(Database& database, const std::string& name);
void export_to(const std::filesystem::path& from, const std::filesystem::path& to);

/// Meaning of a Selection, ready to stand in a statement. `rows` is a sub-query with the columns of
/// `results` and the vars, and `where` a condition on it. Chosen's ids are parameters 1 and 2.
/// `trial_rows` has the columns of `trial_results` at least, and is to be counted over.
struct Source {
  ResolvedNames chosen;
  std::vector<std::string> columns;  ///< columns of results, then vars, then keys of records
  std::vector<std::string> vars;
  std::string rows;
  std::string trial_rows;
  std::string where;
};
/// `asked`: columns that the caller will name; with those of the expression they may be keys of
/// result records (results.cpp).
[[nodiscard]] Source source_of(
    Database& database, const Selection& selection, std::vector<std::string> asked = {});

/// Throws where `column` is none of the source's.
void require_column(const Source& source, const std::string& column);

}  // namespace shardsweep::sqlite
