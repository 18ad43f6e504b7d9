// SPDX-License-Identifier: Apache-2.0
// Port: the database, as its one writer sees it (store). Readers: results.hpp.
#pragma once

#include <shardsweep/capabilities.hpp>
#include <shardsweep/cell_key.hpp>
#include <shardsweep/change.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/progress.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/search_row.hpp>
#include <shardsweep/sweep.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace shardsweep {

/// Holder of a database: named in the refusal of a second daemon.
struct LeaseHolder {
  std::string host;
  std::string boot_id;
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;
  Timestamp since = 0;
  Timestamp renewed = 0;
  std::int64_t epoch = 0;  ///< grows with every takeover; 0: never held
  friend bool operator==(const LeaseHolder&, const LeaseHolder&) = default;
};

/// A sweep, expanded by the command that submits it. Written as a database file of its own
/// (the inbox), which the daemon takes over in bounded pieces.
struct SubmittedSweep {
  const SweepSpec* sweep = nullptr;
  const Plan* plan = nullptr;
  const Capabilities* capabilities = nullptr;
  std::string source;    ///< the user's file, as it was
  std::string resolved;  ///< explain_sweep()
  std::string resolved_hash;
  Backend backend = Backend::none;
  std::string site;  ///< explain_site(); empty if it is not needed
  std::string job_template;
};

/// Fills `file` (new) with the submission. `names` gives identity, slug and lane of a trial
/// (sweep/identity.hpp); it may keep what all points of the sweep share.
struct TrialNames {
  std::string identity;
  std::string slug;
  std::string lane;
};
using NameTrial = std::function<TrialNames(const Point&)>;
[[nodiscard]] Result<void> write_inbox(
    const std::filesystem::path& file, const SubmittedSweep& submission, const NameTrial& names);

/// Effects of a submission (DESIGN §5, Identity).
struct SubmitReport {
  SweepId sweep = 0;
  std::string name;
  bool resubmitted = false;
  std::int64_t trials = 0;     ///< trials in the sweep file now
  std::int64_t fresh = 0;      ///< new
  std::int64_t known = 0;      ///< were in the sweep before
  std::int64_t measured = 0;   ///< known trials that have an outcome already
  std::int64_t undecided = 0;  ///< measured trials without a final verdict (`resume` tries again)
  std::int64_t gone = 0;       ///< no longer in the file: kept, hidden
  std::int64_t left_out = 0;
};

/// A layout that its cell has measured, that may still be, or that has run out of memory; or
/// its run in the finals, or beside them.
struct FinalsRow {
  TrialId id = 0;
  TrialId final_of = 0;  ///< 0: the trial that may bring its layout into the finals
  SideRun side = SideRun::none;
  /// The time at which it was measured again (remeasure.hpp), from 1; 0: it is no such run.
  /// `final_round` is then a round of that time.
  std::int32_t again = 0;
  std::string software{};  ///< the snapshot that it runs from; empty: its sweep's
  std::int32_t final_round = 0;
  std::int32_t final_set = 0;
  CellKey cell;
  std::string layout{};  ///< key that all repeats of a layout share within a cell
  bool out_of_memory = false;
  bool open = false;
  bool cancelled = false;
  std::string skipped{};  ///< why it was not run; empty: it was, or may still be
  AttemptId attempt = 0;  ///< counted attempt; 0: none
  AllocationId allocation = 0;
  double tokens_per_s_per_gpu = 0;  ///< speed of its counted, unmarked measurement; 0: none
  double sm_clock_mhz = 0;          ///< SM clock of that measurement
  std::string throttled{};          ///< causes of a lower clock; empty: not known
  double resolution = 0;            ///< share of the speed that its log rounds away
  double step_spread = 0;           ///< (p95 - min) / median of its train steps
  std::int64_t steps = 0;
  double others_cpu = 0;   ///< share of the CPUs that others used
  std::string hosts{};     ///< JSON array; empty: not known
  Timestamp ended_at = 0;  ///< 0: not known
};
/// A run in the finals, a side run, or a run of a layout that is measured again, to be made.
struct NewFinal {
  TrialId of = 0;
  std::int32_t round = 1;
  double resolve = 0;            ///< measure.resolve
  std::int32_t set = 1;          ///< number of the set of nodes
  std::int32_t sets = 1;         ///< measure.node_sets
  std::string avoid{};           ///< nodes of the sets before, with commas
  SideRun side = SideRun::none;  ///< tool of a side run, which has no round and no set
  std::int32_t again = 0;        ///< number of the time (remeasure.hpp); 0: none
  std::string software{};        ///< snapshot that a remeasured run uses; empty: the sweep's
  bool before = false;           ///< true: a remeasured run uses the program as it was
  double longer = 1;             ///< limit of its duration, as a multiple of its layout's trial
};

/// An attempt that was handed out, by its nonce.
struct OutsideAttempt {
  AttemptId attempt = 0;
  TrialId trial = 0;
  SweepId sweep = 0;
  std::string slug;
  bool counted = false;
  bool revoked = false;            ///< the trial was asked for once more
  SaidBy source = SaidBy::nobody;  ///< source of its end
  std::string cause;
  std::string host;       ///< host of its allocation: the worker
  bool measured = false;  ///< a late result is kept beside
};

/// Sweeps and trials that a request names.
struct TrialSelection {
  std::vector<SweepId> sweeps;   ///< named as sweeps; all of them if nothing is named
  std::vector<TrialRow> trials;  ///< trials chosen by an expression, out of those sweeps and of
                                 ///< named trials
};

/// Rows that a sweep has in the database.
struct SweepContents {
  std::int64_t trials = 0;  ///< hidden ones too
  std::int64_t attempts = 0;
  std::int64_t measurements = 0;
  std::int64_t live = 0;  ///< attempts and allocations that have not ended
};

/// Rows that a verb is decided over: all sweeps, and those that a request names.
struct VerbScope {
  std::map<SweepId, SweepRow> sweeps;
  std::map<SweepId, bool> open;  ///< has trials that have not ended and that its file still has
  TrialSelection selected;
  std::map<SweepId, SweepContents> contents{};  ///< contents of the named sweeps, for a deletion
};

/// Event that holds a sweep apart, or gives it another try (fleet/stops.hpp).
struct StopEvent {
  SweepId sweep = 0;     ///< 0: not known
  bool resumed = false;  ///< the user wants another try; else a daemon has stopped
  std::string detail{};  ///< detail of a stop
};

/// File of another database's experience (plan/knowledge_file.hpp).
struct KnowledgeText {
  std::string name;  ///< name derived from its content
  std::string text;
};
SHARDSWEEP_DESCRIBE(KnowledgeText, name, text);

class Store {
 public:
  /// Creates the file with this version's schema. An older schema is brought to it when the
  /// lease is taken, a newer one is refused. WAL only on local file systems that are known, a
  /// rollback journal elsewhere.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const std::filesystem::path& file);
  virtual ~Store() = default;

  [[nodiscard]] virtual Result<std::optional<LeaseHolder>> lease_holder() = 0;
  /// Takes the lease: the greater of the database's epoch and the claim's, + 1. Whether that is
  /// right is the caller's to know.
  [[nodiscard]] virtual Result<LeaseHolder> take_lease(LeaseHolder claim) = 0;
  /// A fault of kind `rejected` if another epoch holds it: this process must write no more.
  [[nodiscard]] virtual Result<void> renew_lease(Timestamp now) = 0;
  [[nodiscard]] virtual Result<void> release_lease() = 0;

  /// All sweeps, with their unfinished trials, attempts and allocations, and trials that ended oom
  /// (their lanes' larger micro-batches are skipped). Cancelled sweeps and hidden trials, which an
  /// edited file no longer has, are loaded as far as they are still queued or running: they have to
  /// be ended.
  [[nodiscard]] virtual Result<WorldRows> load_world() = 0;
  /// One transaction; checks the epoch first (fault `rejected` if it is not ours). New rows
  /// may refer to each other in any order. `busy` and `unavailable`: nothing of it happened, to
  /// be committed again. `corrupt`: it breaks a rule of the schema.
  [[nodiscard]] virtual Result<void> commit(std::span<const Change> changes) = 0;
  /// The answer to a request that is done (ServedRequest); none: it is not.
  [[nodiscard]] virtual Result<std::optional<std::string>> answer_to(
      const std::string& request) = 0;

  /// Takes over about `rows` rows of an inbox per call, so that no tick blocks; `done` when
  /// the sweep is complete, before that the report has its name alone. Called again after a
  /// crash it goes on: no row is lost or there twice. Until the last call a new sweep is paused
  /// and says why; new trials of an older sweep are hidden. Called again after the last one it
  /// gives the same report.
  /// A folder of inboxes, all of them imports, is taken over by one call: all of it or nothing.
  /// A trial with an outcome keeps it; only what was skipped waits again if the file has
  /// changed, to be judged by its rules and its search. A cancelled sweep becomes active, a
  /// paused one stays so.
  struct InboxProgress {
    bool done = false;
    SubmitReport report;
  };
  [[nodiscard]] virtual Result<InboxProgress> accept_inbox(
      const std::filesystem::path& file, Timestamp now, std::int64_t rows) = 0;

  /// The files of knowledge from which a sweep learns that was submitted then, in the order of
  /// their import.
  [[nodiscard]] virtual Result<std::vector<KnowledgeText>> knowledge(Timestamp submitted) = 0;
  /// Layout, model and batch of a trial, to launch it.
  [[nodiscard]] virtual Result<Point> point_of(TrialId trial, const SweepSpec& sweep) = 0;
  /// All trials of a sweep that its file still has, in the plan's order.
  [[nodiscard]] virtual Result<std::vector<SearchRow>> search_rows(
      SweepId id, const SweepSpec& sweep) = 0;
  /// The answer of each cell of a sweep as `best` gives it, the one that was measured last
  /// first.
  [[nodiscard]] virtual Result<std::vector<CellBest>> best_of_cells(SweepId sweep) = 0;
  /// Trials of a sweep on so many nodes that have been measured or have not ended, in the
  /// plan's order; and their runs in the finals.
  [[nodiscard]] virtual Result<std::vector<FinalsRow>> finals_rows(
      SweepId sweep, std::int32_t nodes) = 0;
  /// Names of the nodes that these allocations had, each once.
  [[nodiscard]] virtual Result<std::vector<std::string>> nodes_of(
      const std::vector<AllocationId>& allocations) = 0;
  /// Node counts of the trials in a sweep's file; 1 for worlds smaller than a node.
  [[nodiscard]] virtual Result<std::vector<std::int32_t>> node_counts(SweepId sweep) = 0;
  /// Layouts that are slower than they were, by the trials that brought them.
  [[nodiscard]] virtual Result<std::set<TrialId>> slower_layouts(SweepId sweep) = 0;
  /// Makes trials that run behind all others, in this order. One that is there already is not
  /// made again: their rows come back all the same.
  [[nodiscard]] virtual Result<std::vector<TrialRow>> add_finals(
      SweepId sweep, const std::vector<NewFinal>& finals) = 0;
  /// Resolves names (sweeps, slugs, SWEEP/SLUG, attempts, jobs; none: everything) and chooses
  /// trials by an expression. A slug of several sweeps is a fault that lists them. Of hidden
  /// trials only those that are queued or running are chosen.
  [[nodiscard]] virtual Result<TrialSelection> select_trials(
      const std::vector<std::string>& names, const std::string& where) = 0;
  /// True while a trial waits or runs, or an allocation lives: a daemon has to be there.
  [[nodiscard]] virtual Result<bool> work_left() = 0;
  [[nodiscard]] virtual Result<SweepContents> contents_of(SweepId sweep) = 0;
  /// Deletes a sweep in pieces of at most `rows` attempts or trials, so that no tick blocks;
  /// true when the last piece is gone. `forget` is told each folder of an attempt or allocation
  /// before its rows go: after a crash the same folders are told again.
  enum class Folder : std::uint8_t { attempt, allocation };
  using ForgetFolder = std::function<void(Folder kind, const std::string& dir)>;
  [[nodiscard]] virtual Result<bool> delete_sweep(
      SweepId sweep, std::int64_t rows, const ForgetFolder& forget) = 0;
  /// Losses that a result of `trial` is compared with (fleet/plausible.hpp), measured and not
  /// marked. They are of other layouts after the same number of train steps. Model, batch, sequence
  /// length, dtype, vars and runner version are the same.
  [[nodiscard]] virtual Result<std::vector<double>> losses_of_others(
      TrialId trial, double steps) = 0;
  /// The runner that `trial` is to be measured by.
  [[nodiscard]] virtual Result<RunnerName> runner_of(TrialId trial) = 0;
  /// Empty: no attempt that was handed out has this nonce.
  [[nodiscard]] virtual Result<std::optional<OutsideAttempt>> outside_attempt(
      const std::string& nonce) = 0;
  /// Events `stopped` and `resume`, in their order.
  [[nodiscard]] virtual Result<std::vector<StopEvent>> stop_events() = 0;
  /// GPU-seconds that the attempts and controls of a sweep have used (limits.max_gpu_hours).
  [[nodiscard]] virtual Result<double> gpu_seconds(SweepId sweep) = 0;
};

}  // namespace shardsweep
