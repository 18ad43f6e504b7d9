// SPDX-License-Identifier: Apache-2.0
// Port: the database, as its many readers see it. Every answer is fetched whole before it is
// printed, in memory or in a file, so that a reader that pauses never holds the writer up.
#pragma once

#include <shardsweep/answer.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/listing.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/progress.hpp>
#include <shardsweep/report_facts.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/search_row.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/sweep_lines.hpp>
#include <shardsweep/table.hpp>
#include <shardsweep/typed_rows.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

/// The time whose runs a ranking compares: a machine changes, so all are of one.
enum class RankedAt : std::uint8_t {
  sweep,  ///< the sweep's own: its search, repeats and finals
  now     ///< the layouts that were measured again, when that was done last
};
SHARDSWEEP_WORDS(RankedAt, "sweep", "now");

/// Selection of rows. Names are sweeps, slugs, attempts (`slug.2`) or scheduler job ids.
struct Selection {
  std::vector<std::string> names;
  std::string where;    ///< an expression over the columns of `results`, as in `exclude`
  bool hidden = false;  ///< true: includes trials that an edited sweep file no longer has
  /// Runners, versions and programs of one model are ranked together; else the newest alone.
  bool all_versions = false;
  RankedAt at = RankedAt::sweep;
};

struct ResultsRequest {
  Selection selection;
  std::vector<std::string> columns;  ///< empty: the usual ones; {"all"}: every one
  std::string sort;                  ///< column, `-column` for descending
  std::int64_t limit = 0;            ///< 0: all
  bool measured_only = false;
};

/// Takes an answer row by row: first the names of its columns.
struct RowSink {
  std::function<void(const std::vector<std::string>& columns)> begin;
  std::function<void(const std::vector<Value>& row)> row;
};

/// Summary of a cell's layouts.
enum class Aggregate : std::uint8_t { best, median, p90, count };
SHARDSWEEP_WORDS(Aggregate, "best", "median", "p90", "count");

struct HeatmapRequest {
  Selection selection;
  std::string rows = "model";
  std::string columns;  ///< empty: nodes, or gpus if worlds are counted by them
  std::string value = "tokens_per_s_per_gpu";
  Aggregate aggregate = Aggregate::best;
  std::size_t layouts = 2;  ///< least number of layouts in the answer of a cell; 0: all
};

/// One trial as a pivot sees it, or several that differ in nothing that it shows.
struct CellCandidate {
  std::string row;
  std::string column;
  State state = State::planned;
  std::optional<Outcome> outcome;
  bool feasible = true;
  bool ranked = false;  ///< true: has measurements that count for the cell's answer
  /// Best imported trial of the cell, by the MFU that its table gives: MFU, layout, speed, and its
  /// runner if that is not shown otherwise.
  std::optional<double> published_mfu{};
  std::string published_layout{};
  double published_tokens_per_s_per_gpu = 0;
  std::string published_by{};
  std::int64_t trials = 1;  ///< how many it stands for
  bool spared = false;      ///< not run, since the search left it out
  /// Prediction of the layout with the best one, if nothing was measured.
  std::optional<double> predicted{};
  std::optional<double> predicted_tokens_per_s_per_gpu{};
  std::string predicted_layout{};
  std::string why{};             ///< the first cause, or the constraint with its reason
  std::vector<double> values{};  ///< values of all layouts, if the request is for their median or
                                 ///< p90
};

/// The answer of one cell of a pivot.
struct AnsweredPlace {
  std::string row;
  std::string column;
  CellAnswer answer;
  std::optional<double> value{};  ///< shown value of the winner
};

struct Cells {
  std::vector<CellCandidate> candidates;
  std::string note;                      ///< runners that were left out; often empty
  std::vector<std::string> runners{};    ///< runners that are shown: "mine 1.2"
  std::string columns{};                 ///< name of what gives the columns, if that was left open
  std::vector<AnsweredPlace> answers{};  ///< answers of the cells that rank a run
};

/// A layout that is slower than when its sweep measured it, as measuring it again has shown.
struct Regression {
  std::string sweep;
  Timestamp since = 0;  ///< time at which that was found
  std::string text;     ///< "dp2 tp1 …: slower by 5.0 % …", of the last time
};

/// How far a sweep is.
struct SweepStatus {
  SweepId id = 0;
  std::string name;
  std::string state;
  bool outside = false;  ///< measured by somebody else, and needs no daemon
  std::int64_t trials = 0;
  std::int64_t left_out = 0;
  std::map<std::string, std::int64_t> by_state;    ///< planned, queued, running, ended
  std::map<std::string, std::int64_t> by_outcome;  ///< ended trials by outcome
  std::int64_t undecided = 0;                      ///< ended without a final verdict
  std::int64_t marked = 0;  ///< measured, but not ranked: contaminated or implausible
  std::string doubt{};      ///< why one of these is: "implausible: …"
  std::string cause{};      ///< most frequent cause of ended trials, if none was measured
  /// Allocations whose last control is still to come: it may have trials measured again.
  std::int64_t last_controls = 0;
  double remaining_s = 0;  ///< predicted run time of unfinished trials, corrected by finished ones
  double measured_over_predicted = 1;
  bool corrected = false;  ///< an attempt has ended: `remaining_s` is no prediction alone
  std::string running;     ///< slug of a running trial
  /// Trials that still run, though an edit has taken their points out of the sweep file.
  std::int64_t removed_running = 0;
  std::string waiting;  ///< why nothing runs, in the scheduler's words or those of the daemon that
                        ///< paused
  /// Bounds by which its search has skipped trials, and rules by which others' refusals have, and
  /// how many; the most frequent first.
  std::vector<std::pair<std::string, std::int64_t>> spared;
  Timestamp submitted_at = 0;
  Timestamp last_event_at = 0;
  Timestamp last_end_at = 0;   ///< end of the last ended trial
  Timestamp remeasure_at = 0;  ///< time at which its best layouts are measured again; 0: never
  std::vector<Regression> regressions{};
};

class Reader {
 public:
  /// Opens for reading alone; a database that does not exist is a fault that says how to make
  /// one.
  [[nodiscard]] static Result<std::unique_ptr<Reader>> open(const std::filesystem::path& file);
  /// Holder of a database's lease, of an older version too; none: nobody.
  [[nodiscard]] static Result<std::optional<LeaseHolder>> holder_in(
      const std::filesystem::path& file);
  virtual ~Reader() = default;

  /// One SELECT of the user's; anything that writes, attaches or sets is refused by an
  /// authorizer.
  [[nodiscard]] virtual Result<Table> query(const std::string& sql) = 0;
  /// A list for a single command; `bound`: the parameters of its statement.
  [[nodiscard]] virtual Result<Table> list(
      Listing listing, const std::vector<Value>& bound = {}) = 0;
  template <class Row>
  [[nodiscard]] Result<std::vector<Row>> rows(
      Listing listing, const std::vector<Value>& bound = {}) {
    return list(listing, bound).map(&typed_rows<Row>);
  }
  /// Texts in the first column of a list.
  [[nodiscard]] Result<std::vector<std::string>> texts(
      Listing listing, const std::vector<Value>& bound = {}) {
    return list(listing, bound).map(&first_texts);
  }
  [[nodiscard]] virtual Result<Table> results(const ResultsRequest& request) = 0;
  /// Results as structs, whose fields are the columns that are asked for.
  template <class Row>
  [[nodiscard]] Result<std::vector<Row>> results_as(ResultsRequest request) {
    request.columns = columns_named<Row>();
    return results(request).map(&typed_rows<Row>);
  }
  /// Reads any number of rows. The sink must not wait for anybody: while it is given rows, a
  /// journal other than WAL holds the writer up.
  [[nodiscard]] virtual Result<void> each_result(
      const ResultsRequest& request, const RowSink& sink) = 0;
  /// How many trials are meant.
  [[nodiscard]] virtual Result<std::int64_t> count(const Selection& selection) = 0;
  /// All sweeps, in the order of their first submission.
  [[nodiscard]] virtual Result<std::vector<SweepRow>> sweeps() = 0;
  /// The best measured layout per cell (model x seq_len x nodes|gpus), by tokens_per_s_per_gpu.
  /// As in cells(), a layout's value is the median over its repeats, and marked measurements are
  /// not ranked. Of several runners of a model, or versions of a runner, only the newest counts,
  /// unless `where` names `runner` or `runner_version`.
  [[nodiscard]] virtual Result<Table> best(const Selection& selection) = 0;
  /// Rows that best() ranks: a row per layout of each cell, with its runs and their spread. Vars
  /// stand behind `runner_version`.
  [[nodiscard]] virtual Result<Table> layouts(const Selection& selection) = 0;
  [[nodiscard]] virtual Result<Cells> cells(const HeatmapRequest& request) = 0;
  /// Layouts of these sweeps that are slower than they were; each stands until it is as fast.
  [[nodiscard]] virtual Result<std::vector<Regression>> regressions(
      const std::vector<std::string>& names) = 0;
  /// The selected trials, each with its measurement and evidence.
  [[nodiscard]] virtual Result<std::vector<ReportedTrial>> trials(const Selection& selection) = 0;
  /// Facts of a report, read at one moment.
  [[nodiscard]] virtual Result<ReportFacts> facts(const Selection& selection) = 0;
  [[nodiscard]] virtual Result<ReportSources> sources(const Selection& selection) = 0;
  /// The values of a column in the selected rows, in the order of the database.
  [[nodiscard]] virtual Result<std::vector<Value>> values(
      const Selection& selection, const std::string& column) = 0;
  [[nodiscard]] virtual Result<std::vector<SweepStatus>> status(
      const std::vector<std::string>& sweeps) = 0;
  /// The event after which a follower of these sweeps begins.
  [[nodiscard]] virtual Result<std::int64_t> first_event(
      const std::vector<SweepId>& sweeps, FollowFrom from) = 0;
  /// Trials of these sweeps that ended after an event.
  [[nodiscard]] virtual Result<FinishedBatch> finished(
      const std::vector<SweepId>& sweeps, std::int64_t after_event) = 0;
  /// The jobs of these sweeps that have not ended, those that run first.
  [[nodiscard]] virtual Result<std::vector<AllocationProgress>> allocations(
      const std::vector<SweepId>& sweeps) = 0;
  /// The best ranked measurement of each cell of these sweeps, the latest one first.
  [[nodiscard]] virtual Result<std::vector<CellBest>> best_of_cells(
      const std::vector<SweepId>& sweeps) = 0;
  /// Rows that a verb would be decided over now; the names and the expression are those of
  /// Store::select_trials().
  [[nodiscard]] virtual Result<VerbScope> meant(
      const std::vector<std::string>& names, const std::string& where) = 0;
  /// The attempts of a trial, or the one attempt that `name` names.
  [[nodiscard]] virtual Result<NamedAttempts> attempts(const std::string& name) = 0;
  /// Tables that tell all about one trial or attempt: trial, attempts, measurements, events.
  struct Section {
    std::string title;
    Table table;
    std::string thing{};  ///< sweep or trial of the row ("grid/SLUG"): rows of one follow each
                          ///< other
  };
  [[nodiscard]] virtual Result<std::vector<Section>> show(const std::string& name) = 0;
  /// Events after `after_id`, oldest first: id, at, sweep, trial, attempt, kind, detail.
  [[nodiscard]] virtual Result<Table> events(
      const std::vector<std::string>& sweeps, std::int64_t after_id, std::int64_t limit) = 0;
  /// The resolved text of a sweep's last submission.
  [[nodiscard]] virtual Result<std::string> resolved(const std::string& sweep) = 0;
  /// Rows for a search: measurements of a sweep's trials; `spec` comes from resolved().
  [[nodiscard]] virtual Result<std::vector<SearchRow>> search_rows(
      const std::string& sweep, const SweepSpec& spec) = 0;
  [[nodiscard]] virtual Result<std::optional<LeaseHolder>> lease_holder() = 0;
  /// A sweep as lines for git; of trials without an outcome there is none.
  [[nodiscard]] virtual Result<SweepLines> sweep_lines(const std::string& sweep) = 0;
  /// A consistent copy in one file that a colleague can open (VACUUM INTO). Refuses to
  /// overwrite.
  [[nodiscard]] virtual Result<void> export_to(const std::filesystem::path& file) = 0;
};

}  // namespace shardsweep
