// SPDX-License-Identifier: Apache-2.0
// The database as its one writer sees it.
//
// Decision: Site file, job template and the resolved sweep file are stored with the sweep, so
// that a daemon on any login node submits the same job. A new database has mode 0600, because
// the sites in it hold values of `pass_env` and addresses of webhooks. An export has no sites.
// Values of secrets are in none of it (secrets_file.hpp).
// To give others access, change the mode, or make an empty file first.
#include "store/commit.hpp"
#include "store/deletion.hpp"
#include "store/finals.hpp"
#include "store/inbox.hpp"
#include "store/lease.hpp"
#include "store/ledger.hpp"
#include "store/reader.hpp"
#include "store/reading.hpp"
#include "store/row_sql.hpp"
#include "store/rows.hpp"
#include "store/schema.hpp"
#include "store/selection.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/store.hpp>

#include <fmt/format.h>
#include <sqlite3.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace shardsweep {
namespace sqlite {
namespace {

// Opening may have to wait for a migration; a tick may not wait for long: what finds the
// database busy is done again at the next one.
constexpr int open_wait_ms = 5000;
constexpr int write_wait_ms = 250;
// A user's expression is evaluated in the daemon, whose beat it must not stop.
constexpr std::chrono::seconds longest_choice{2};

std::string trials_that(std::string_view from) {
  return fmt::format("SELECT {} {}", trial_row_columns(), from);
}

/// Statements of the daemon, besides those of inbox.cpp, commit.cpp and lease.cpp.
struct StoreSql {
  // A trial is of the world when it may still run, when its oom tells about larger ones of its
  // lane, or when something of it is still alive, whatever was cancelled or edited away. Until
  // the last control of its allocation what was measured may have to be measured again. One
  // statement for each of these: of an old database none reads more than its index names.
  std::array<std::string, 5> trials{
      trials_that("FROM sweeps AS s CROSS JOIN trials AS t ON t.sweep = s.id AND t.hidden = 0 AND "
                  "t.state IN ('planned', 'queued', 'running') WHERE s.state <> 'cancelled'"),
      trials_that("FROM sweeps AS s CROSS JOIN trials AS t ON t.sweep = s.id AND t.hidden IN (0, "
                  "1) AND t.state IN ('queued', 'running')"),
      trials_that("FROM sweeps AS s CROSS JOIN trials AS t ON t.sweep = s.id AND t.hidden IN (0, "
                  "1) AND t.state IN ('planned', 'queued', 'running', 'ended') AND t.outcome = "
                  "'oom' WHERE s.state <> 'cancelled' AND (t.hidden = 0 OR (t.runner = s.runner "
                  "AND t.runner_version = s.runner_version))"),
      trials_that(
          "FROM trials AS t WHERE t.id IN (SELECT trial FROM attempts WHERE state <> 'ended')"),
      trials_that("FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE s.state <> "
                  "'cancelled' AND t.hidden = 0 AND t.id IN (SELECT a.trial FROM allocations AS l "
                  "CROSS JOIN controls AS c ON c.allocation = l.id AND c.time <> 'check' CROSS "
                  "JOIN attempts AS a ON a.allocation = l.id WHERE l.state <> 'ended')")};
  // All sweeps, also those that are over: they are few, and any of them can be resumed.
  std::string sweeps = fmt::format("SELECT {} FROM sweeps", columns_of<SweepRow>());
  std::array<std::string, 2> attempts{
      fmt::format("SELECT {} FROM attempts WHERE state <> 'ended'", columns_of<AttemptRow>()),
      fmt::format("SELECT {} FROM attempts WHERE allocation IN (SELECT id FROM allocations WHERE "
                  "state <> 'ended')",
          columns_of<AttemptRow>())};
  std::array<std::string, 2> allocations{
      fmt::format("SELECT {} FROM allocations WHERE state <> 'ended'", columns_of<AllocationRow>()),
      fmt::format("SELECT {} FROM allocations WHERE id IN (SELECT allocation FROM attempts WHERE "
                  "state <> 'ended')",
          columns_of<AllocationRow>())};
  std::string next_attempt = "SELECT ifnull(max(id), 0) + 1 FROM attempts";
  std::string next_allocation = "SELECT ifnull(max(id), 0) + 1 FROM allocations";
  std::string point = fmt::format("SELECT {} FROM trials WHERE id = ?", list(point_columns()));
  // Losses of trials that must agree, by the index of what was measured. A trial that is measured
  // anew is not among them meanwhile.
  std::string losses =
      "SELECT m.loss FROM trials AS t CROSS JOIN trials AS o ON o.outcome = 'completed' AND "
      "o.sweep = t.sweep AND o.id <> t.id AND o.model = t.model AND o.seq_len = t.seq_len AND "
      "o.dtype = t.dtype AND o.global_batch = t.global_batch AND o.vars = t.vars AND o.runner = "
      "t.runner AND o.runner_version = t.runner_version CROSS JOIN attempts AS a ON a.trial = o.id "
      "AND a.counted = 1 CROSS JOIN measurements AS m ON m.attempt = a.id WHERE t.id = ? AND "
      "m.mark IS NULL AND m.loss IS NOT NULL AND m.steps + m.warmup = ? LIMIT 100";
  // Condition of anything_alive(), over everything that is stored instead of a world.
  std::string work_left =
      "SELECT EXISTS (SELECT 1 FROM allocations WHERE state <> 'ended' AND backend <> 'outside') "
      "OR EXISTS (SELECT 1 FROM sweeps AS s WHERE s.backend <> 'outside' AND (EXISTS (SELECT 1 "
      "FROM trials AS t WHERE t.sweep = s.id AND t.hidden IN (0, 1) AND t.state IN ('queued', "
      "'running')) OR (s.state = 'active' AND EXISTS (SELECT 1 FROM trials AS t WHERE t.sweep = "
      "s.id AND t.hidden = 0 AND t.state = 'planned'))))";
  std::string gpu_seconds =
      "SELECT ifnull(sum((a.ended_at - a.started_at) * 1e-6 * t.gpus), 0) + (SELECT "
      "ifnull(sum(gpu_seconds), 0) FROM controls WHERE sweep = ?1) FROM trials AS t JOIN attempts "
      "AS a ON a.trial = t.id WHERE t.sweep = ?1 AND a.started_at > 0 AND a.ended_at > "
      "a.started_at";
};

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(Database database) : database_(std::move(database)), lease_(database_) {}

  Result<std::optional<LeaseHolder>> lease_holder() override {
    return guarded([&] { return sqlite::lease_holder(database_); });
  }
  Result<LeaseHolder> take_lease(LeaseHolder claim) override {
    return guarded([&] {
      auto lease = lease_.take(std::move(claim));
      // Not before: a daemon of an older version writes what it knows until it has lost the
      // lease.
      migrate(database_);
      if (!committer_) committer_.emplace(database_);
      return lease;
    });
  }
  Result<void> renew_lease(Timestamp now) override {
    return guarded([&] { lease_.renew(now); });
  }
  Result<void> release_lease() override {
    return guarded([&] { lease_.release(); });
  }
  Result<WorldRows> load_world() override {
    return guarded([&] { return read_world(); });
  }
  Result<void> commit(std::span<const Change> changes) override {
    return guarded([&] {
      Transaction transaction(database_);
      lease_.check();
      const Conservation conservation(database_, changes, commits_++);
      for (const auto& change : changes)
        committer_->apply(change);
      check_completed(database_, changes);
      conservation.check();
      fail_by_errno(fail_point_error("store.commit"), database_);
      transaction.commit();
    });
  }
  Result<std::optional<std::string>> answer_to(const std::string& request) override {
    return guarded([&] {
      Statement select(database_, "SELECT answer FROM served_requests WHERE id = ?");
      auto row = select.use(request);
      return row.next() ? std::optional(row.text(0)) : std::nullopt;
    });
  }
  Result<InboxProgress> accept_inbox(
      const std::filesystem::path& file, Timestamp now, std::int64_t rows) override {
    return guarded([&] { return accept(database_, file, now, rows, [&] { lease_.check(); }); });
  }
  Result<Point> point_of(TrialId trial, const SweepSpec& sweep) override {
    return guarded([&] {
      Statement select(database_, sql_.point);
      auto row = select.use(trial);
      if (!row.next()) fail(FaultKind::corrupt, "there is no trial {}", trial);
      return read_point(row, sweep);
    });
  }
  Result<std::vector<SearchRow>> search_rows(SweepId id, const SweepSpec& sweep) override {
    return guarded([&] { return sqlite::search_rows(database_, id, sweep); });
  }
  Result<std::vector<CellBest>> best_of_cells(SweepId sweep) override {
    return guarded([&] {
      const Deadline deadline(database_, longest_choice);
      return sqlite::best_of_cells(database_, {sweep});
    });
  }
  Result<std::vector<std::string>> nodes_of(const std::vector<AllocationId>& allocations) override {
    return guarded([&] { return nodes_of_allocations(database_, allocations); });
  }
  Result<std::vector<FinalsRow>> finals_rows(SweepId sweep, std::int32_t nodes) override {
    return guarded([&] { return read_finals(database_, sweep, nodes); });
  }
  Result<std::set<TrialId>> slower_layouts(SweepId sweep) override {
    return guarded([&] {
      std::set<TrialId> slower;
      for (const auto& [trial, one] : regressions_of(database_, sweep, ""))
        slower.insert(trial);
      return slower;
    });
  }
  Result<std::vector<std::int32_t>> node_counts(SweepId sweep) override {
    return guarded([&] { return node_counts_of(database_, sweep); });
  }
  Result<std::vector<TrialRow>> add_finals(
      SweepId sweep, const std::vector<NewFinal>& finals) override {
    return guarded([&] {
      Transaction transaction(database_);
      lease_.check();
      auto rows = put_finals(database_, sweep, finals);
      transaction.commit();
      return rows;
    });
  }
  Result<std::vector<KnowledgeText>> knowledge(Timestamp submitted) override {
    return guarded([&] { return knowledge_at(database_, submitted); });
  }
  Result<bool> work_left() override {
    return guarded([&] { return database_.integer(sql_.work_left) != 0; });
  }
  Result<SweepContents> contents_of(SweepId sweep) override {
    return guarded([&] { return contents(database_, sweep); });
  }
  Result<bool> delete_sweep(SweepId sweep, std::int64_t rows, const ForgetFolder& forget) override {
    return guarded(
        [&] { return delete_piece(database_, sweep, rows, forget, [&] { lease_.check(); }); });
  }
  Result<TrialSelection> select_trials(
      const std::vector<std::string>& names, const std::string& where) override {
    return guarded([&] {
      const Deadline deadline(database_, longest_choice);
      return selected(database_, names, where);
    });
  }
  Result<std::vector<double>> losses_of_others(TrialId trial, double steps) override {
    return guarded([&] {
      Statement select(database_, sql_.losses);
      auto row = select.use(trial, steps);
      std::vector<double> losses;
      while (row.next())
        losses.push_back(row.real(0));
      return losses;
    });
  }
  Result<RunnerName> runner_of(TrialId trial) override {
    return guarded([&] {
      Statement select(database_, "SELECT runner, runner_version FROM trials WHERE id = ?");
      auto row = select.use(trial);
      return row.next() ? RunnerName{row.text(0), row.text(1)} : RunnerName{};
    });
  }
  Result<std::optional<OutsideAttempt>> outside_attempt(const std::string& nonce) override {
    return guarded([&]() -> std::optional<OutsideAttempt> {
      Statement select(database_,
          "SELECT a.id, a.trial, t.sweep, t.slug, a.counted, a.revoked, a.source, a.cause, l.host, "
          "EXISTS (SELECT 1 FROM measurements WHERE attempt = a.id) FROM attempts AS a JOIN trials "
          "AS t ON t.id = a.trial JOIN allocations AS l ON l.id = a.allocation WHERE a.nonce = ? "
          "AND l.backend = 'outside'");
      auto row = select.use(nonce);
      if (!row.next()) return std::nullopt;
      return OutsideAttempt{row.integer(0), row.integer(1), row.integer(2), row.text(3),
          row.integer(4) != 0, row.integer(5) != 0,
          from_word<SaidBy>(row.text(6)).value_or(SaidBy::nobody), row.text(7), row.text(8),
          row.integer(9) != 0};
    });
  }
  Result<std::vector<StopEvent>> stop_events() override {
    return guarded([&] {
      Statement select(database_,
          "SELECT ifnull(sweep, 0), kind = 'resume', detail FROM events WHERE kind IN ('stopped', "
          "'resume') ORDER BY id");
      auto row = select.use();
      std::vector<StopEvent> events;
      while (row.next())
        events.push_back({row.integer(0), row.integer(1) != 0, row.text(2)});
      return events;
    });
  }
  Result<double> gpu_seconds(SweepId sweep) override {
    return guarded([&] {
      Statement select(database_, sql_.gpu_seconds);
      auto row = select.use(sweep);
      return row.next() ? row.real(0) : 0.0;
    });
  }

 private:
  WorldRows read_world();

  Database database_;
  Lease lease_;
  std::optional<Committer> committer_;  ///< made with the lease, once the format is current
  StoreSql sql_;
  std::int64_t commits_ = 0;
};

/// Sites hold values of `pass_env` and addresses of webhooks, which are secrets. A new database
/// is its owner's alone, and SQLite gives its journals the same mode. An owner who wants
/// readers changes the mode, or gives them an export, which has no sites.
void make_private(const std::filesystem::path& file) {
  const int made = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made >= 0) ::close(made);  // else it is there, or SQLite says why it can't be made
}

/// Refuses the file that SQLite has open if it was exchanged since the first look
/// (home/home.cpp).
///
/// SQLite's VFS for unix opens by name. It takes no descriptor of a folder or a file, and resolves
/// names below /proc/self/fd to those of the files before it opens them. It does say whether the
/// name still means the file that it has open (SQLITE_FCNTL_HAS_MOVED compares both inodes). So
/// what holds of the name now holds of that file. The same is not possible for -journal, -wal and
/// -shm, which it opens by their names whenever it needs them. Those of other users are refused as
/// they lie there when a program starts. A folder that others can't write, or one with the sticky
/// bit, keeps them from being exchanged later.
void check_opened(const Database& database, const std::filesystem::path& file) {
  int moved = 0;
  sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  struct stat name {};
  struct stat meant {};
  const bool there = ::lstat(file.c_str(), &name) == 0 && ::stat(file.c_str(), &meant) == 0;
  if (moved != 0 || !there)
    fail(FaultKind::rejected, "the database '{}' was exchanged while it was opened", file.string());
  if (S_ISLNK(name.st_mode) && name.st_uid != ::geteuid() && name.st_uid != 0)
    fail(FaultKind::rejected, "the database '{}' is a link that another user (uid {}) has made",
        file.string(), name.st_uid);
  if (!S_ISREG(meant.st_mode) || meant.st_nlink != 1)
    fail(FaultKind::rejected,
        "the database '{}' is not a regular file, or has several names (hard links)",
        file.string());
}

WorldRows SqliteStore::read_world() {
  WorldRows world;
  read_rows(database_, sql_.sweeps, world.sweeps);
  for (const std::string& text : sql_.trials)
    read_rows(database_, text, world.trials);
  for (const std::string& text : sql_.attempts)
    read_rows(database_, text, world.attempts);
  for (const std::string& text : sql_.allocations)
    read_rows(database_, text, world.allocations);
  read_ledger(database_, world);
  {
    Statement select(database_, "SELECT boot_id, ahead FROM wall_clock");
    auto row = select.use();
    if (row.next()) world.clock = {row.text(0), row.integer(1)};
  }
  world.next_attempt = database_.integer(sql_.next_attempt);
  world.next_allocation = database_.integer(sql_.next_allocation);
  return world;
}

}  // namespace
}  // namespace sqlite

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& file) {
  return sqlite::guarded([&]() -> std::unique_ptr<Store> {
    sqlite::make_private(file);
    fail_point("store.create");
    sqlite::Database database(file, sqlite::OpenMode::create, sqlite::open_wait_ms);
    sqlite::check_opened(database, file);
    // Lets `delete` give pages back in pieces. A file that has pages keeps its kind, so only a new
    // one is asked. The pragma needs a lock, which a writer that stands still does not give.
    std::error_code unknown;
    if (std::filesystem::file_size(file, unknown) == 0)
      database.execute("PRAGMA auto_vacuum = INCREMENTAL");
    sqlite::set_journal(database, file);
    sqlite::migrate_new(database);
    database.wait_at_most(sqlite::write_wait_ms);
    return std::make_unique<sqlite::SqliteStore>(std::move(database));
  });
}

}  // namespace shardsweep
