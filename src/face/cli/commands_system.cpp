// SPDX-License-Identifier: Apache-2.0
// daemon, tick, gc.
#include "cli/daemon_job.hpp"
#include "cli/printing.hpp"
#include "daemon/loop.hpp"
#include "text/numbers.hpp"

#include <shardsweep/backends.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/log.hpp>
#include <shardsweep/notifier.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/results.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

/// Opening a database to write undoes an unfinished transaction. Over a network that may be one
/// which a daemon on another host is about to finish: its lease is read first, without writing.
Result<void> refuse_foreign_writer(const Session& session, const Policy& policy) {
  std::error_code error;
  const fs::path& file = session.home.database;
  if (is_local_file_system(file) || !fs::exists(file, error)) return {};
  const auto reader = Reader::open(file);
  if (!reader && reader.error().kind == FaultKind::busy)
    return tl::unexpected<Fault>(reader.error());
  if (!reader) return {};  // an empty one, or one of an older version: no daemon is at it
  SHARDSWEEP_ASSIGN(const auto holder, (*reader)->lease_holder());
  if (!holder || holder->host == this_process().host) return {};
  const double silent_s = to_seconds(session.clock.now() - holder->renewed);
  if (silent_s > policy.lease_ttl_s) return {};
  return fault(FaultKind::busy, "another daemon has this database: " + describe(*holder));
}

/// The same, tried again for as long as `life` has patience.
Result<void> await_foreign_writer(const Session& session, const LifeOptions& life,
                                  const Policy& policy) {
  constexpr int pause_ms = 500;
  const auto until = session.clock.steady() + std::chrono::duration<double>(life.patience_s);
  while (!life.take_over) {
    auto free = refuse_foreign_writer(session, policy);
    const bool wait = !free && free.error().kind == FaultKind::busy;
    if (!wait || session.clock.steady() >= until) return free;
    ::poll(nullptr, 0, pause_ms);
  }
  return {};
}

/// True where nothing was left to do.
Result<bool> be_daemon(const Session& session, const LifeOptions& life, const Policy& policy) {
  SHARDSWEEP_TRY(make_home(session.home));
  SHARDSWEEP_TRY(await_foreign_writer(session, life, policy));
  SHARDSWEEP_ASSIGN(const auto store, Store::open(session.home.database));
  const auto make_scheduler = [&](Backend backend, const SiteSpec& site) {
    if (backend == Backend::local) return make_local_scheduler(session.installation.agent);
    return site.rest.url.empty() ? make_slurm_cli_scheduler(policy, session.clock)
                                 : make_slurm_rest_scheduler(site.rest, policy, session.clock);
  };
  return run_daemon({.home = session.home,
                     .installation = session.installation,
                     .store = *store,
                     .clock = session.clock,
                     .make_scheduler = make_scheduler,
                     .make_notifier =
                         [&session](const NotifySettings& settings) {
                           return make_webhook(settings, session.clock);
                         },
                     .random_hex = random_hex,
                     .policy = policy},
                    life);
}

/// A lease of a node that died has to run out first.
Result<ExitCode> be_daemon_job(const Session& session, const Policy& policy) {
  // Whoever has asked for the first job has a sweep to submit. A later one goes on with work,
  // or ends: jobs shorter than this wait would hand over for ever.
  const double first_work_s = session.options.daemon.as_job == 1 ? 600 : 0;
  Successor successor(session, session.options.daemon.as_job + 1);
  SHARDSWEEP_ASSIGN(const bool left, be_daemon(session,
                                               {.until_idle = true,
                                                .first_work_s = first_work_s,
                                                .patience_s = 2 * policy.lease_ttl_s,
                                                .beside = [&] { successor.step(); }},
                                               policy));
  if (left) successor.cancel();
  return ExitCode::done;
}

/// Files of ended attempts, as `gc` sees them.
struct Garbage {
  std::string kind;  ///< the folder of the home that it lies in
  fs::path path;
  std::uintmax_t bytes = 0;
};

std::uintmax_t size_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return fs::file_size(path, error);
  std::uintmax_t sum = 0;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) sum += entry->file_size(ignored);
  }
  return sum;
}

bool old_enough(const fs::path& path, double age_s) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return !error &&
         std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count() >=
             age_s;
}

std::vector<std::string> texts_of(const Table& table) {
  std::vector<std::string> texts;
  for (const auto& row : table.rows) {
    if (const auto* text = std::get_if<std::string>(&row.at(0))) texts.push_back(*text);
  }
  return texts;
}

/// A snapshot is kept as long as a sweep file in force names it.
bool is_snapshot_of_any(const std::vector<std::string>& sweeps, const Home& home,
                        const fs::path& path) {
  const std::string name = path.filename().string();
  return path.parent_path() == home.snapshots() &&
         std::any_of(sweeps.begin(), sweeps.end(), [&](const std::string& resolved) {
           return resolved.find(name) != std::string::npos;
         });
}

Result<std::vector<Garbage>> find_garbage(const Session& session) {
  SHARDSWEEP_ASSIGN(const double older_than_s,
                    parse_duration(session.options.garbage.older_than, "--older-than"));
  std::vector<Garbage> garbage;
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const Table alive,
                    reader->query("SELECT dir FROM attempts WHERE state <> 'ended' UNION ALL "
                                  "SELECT dir FROM allocations WHERE state <> 'ended'"));
  SHARDSWEEP_ASSIGN(const Table files, reader->query("SELECT resolved FROM sweeps"));
  const std::vector<std::string> keep = texts_of(alive);
  const std::vector<std::string> sweeps = texts_of(files);
  for (const fs::path& folder :
       {session.home.attempts(), session.home.allocations(), session.home.answers(),
        session.home.inbox(), session.home.snapshots()}) {
    std::error_code error;
    if (fs::is_symlink(folder, error)) {
      // What it leads to may hold other things than ours.
      say(fmt::format("{} is a link: gc leaves alone what it leads to.", folder.string()));
      continue;
    }
    error.clear();
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path path = entry->path();
      const bool live = std::any_of(keep.begin(), keep.end(), [&](const std::string& dir) {
        return path == dir || path == dir + ".tar";
      });
      const bool has_sweep = is_snapshot_of_any(sweeps, session.home, path);
      if (live || has_sweep || !old_enough(path, older_than_s)) continue;
      garbage.push_back({folder.filename().string(), path, size_of(path)});
    }
  }
  return garbage;
}

std::uintmax_t total_bytes(const std::vector<Garbage>& garbage) {
  std::uintmax_t sum = 0;
  for (const Garbage& one : garbage)
    sum += one.bytes;
  return sum;
}

/// A row per file or folder.
Table garbage_table(const std::vector<Garbage>& garbage) {
  Table table{{"path", "kind", "size_bytes"}, {}};
  for (const Garbage& one : garbage)
    table.rows.push_back({one.path.string(), one.kind, static_cast<std::int64_t>(one.bytes)});
  return table;
}

/// A row per kind.
Table garbage_summary(const std::vector<Garbage>& garbage) {
  Table table{{"kind", "files and folders", "size_bytes"}, {}};
  std::map<std::string, std::pair<std::int64_t, std::uintmax_t>> kinds;
  for (const Garbage& one : garbage) {
    auto& [count, bytes] = kinds[one.kind];
    ++count;
    bytes += one.bytes;
  }
  for (const auto& [kind, sum] : kinds)
    table.rows.push_back({kind, sum.first, static_cast<std::int64_t>(sum.second)});
  return table;
}

Result<void> print_garbage(const Session& session, const std::vector<Garbage>& garbage) {
  const Options& options = session.options;
  if (garbage.empty() && options.format == Format::table) return {};
  const bool each = options.garbage.verbose || options.format != Format::table;
  return print_result(table_text(each ? garbage_table(garbage) : garbage_summary(garbage),
                                 table_style(session, {"path", "kind"})));
}

}  // namespace

Result<ExitCode> command_daemon(const Session& session) {
  // `kill PID; shardsweep daemon`: the old one may need a moment to end.
  constexpr double end_of_the_last_s = 5;
  if (session.options.daemon.in_slurm) return start_daemon_job(session);
  SHARDSWEEP_ASSIGN(const Policy policy, load_policy(session.options.set));
  if (session.options.daemon.as_job > 0) return be_daemon_job(session, policy);
  SHARDSWEEP_TRY(be_daemon(session,
                           {.until_idle = session.options.daemon.until_idle,
                            .patience_s = end_of_the_last_s,
                            .take_over = session.options.daemon.take_over},
                           policy));
  return ExitCode::done;
}

Result<Answer> ask_writer(const Session& session, Request request) {
  if (daemon_runs(session)) return ask_daemon(session, std::move(request));
  SHARDSWEEP_ASSIGN(const std::string id, post_to_daemon(session, std::move(request)));
  log_warnings_alone();
  const auto written = be_daemon(session, {.serve_only = true}, {});
  // One that has come meanwhile answers.
  if (!written && written.error().kind != FaultKind::busy) {
    SHARDSWEEP_TRY(withdraw_request(session.home, id));
    return tl::unexpected<Fault>(written.error());
  }
  if (written) say("No daemon runs: this command has written the database, and started none.");
  return await_answer(session, id);
}

Result<ExitCode> command_tick(const Session& session) {
  SHARDSWEEP_TRY(be_daemon(session, {.once = true}, {}));
  return ExitCode::done;
}

Result<ExitCode> command_gc(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto garbage, find_garbage(session));
  SHARDSWEEP_TRY(print_garbage(session, garbage));
  const auto size = bytes_text(static_cast<double>(total_bytes(garbage)));
  const auto count = grouped(static_cast<std::int64_t>(garbage.size()));
  if (!session.options.garbage.remove) {
    say(garbage.empty()
            ? fmt::format("No ended attempt has files older than {}.",
                          session.options.garbage.older_than)
            : fmt::format("{} files and folders ({}) can be removed. --remove removes them; "
                          "--verbose lists them.",
                          count, size));
    return ExitCode::done;
  }
  for (const Garbage& one : garbage) {
    std::error_code error;
    fs::remove_all(one.path, error);
    if (error) {
      return fault(FaultKind::unavailable,
                   fmt::format("cannot remove '{}': {}", one.path.string(), error.message()));
    }
  }
  say(fmt::format("Removed {} files and folders ({}). The database keeps every row.", count,
                  size));
  return ExitCode::done;
}

}  // namespace shardsweep
