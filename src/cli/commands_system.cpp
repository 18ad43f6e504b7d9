// SPDX-License-Identifier: Apache-2.0
// daemon, tick, doctor, gc.
#include "cli/session.hpp"
#include "cli/table_view.hpp"
#include "daemon/loop.hpp"

#include <shardsweep/backends.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>

#include <fmt/format.h>

#include <sys/vfs.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

Result<ExitCode> be_daemon(const Session& session, const LifeOptions& life,
                           const Policy& policy) {
  SHARDSWEEP_TRY(make_home(session.home));
  SHARDSWEEP_ASSIGN(const auto store, Store::open(session.home.database));
  const auto make_scheduler = [&](const std::string& backend, const SiteSpec& site) {
    if (backend == "local") return make_local_scheduler(session.installation.agent);
    return site.rest.url.empty() ? make_slurm_cli_scheduler(policy, session.clock)
                                 : make_slurm_rest_scheduler(site.rest, policy, session.clock);
  };
  SHARDSWEEP_TRY(run_daemon({.home = session.home,
                             .installation = session.installation,
                             .store = *store,
                             .clock = session.clock,
                             .make_scheduler = make_scheduler,
                             .random_hex = random_hex,
                             .policy = policy},
                            life));
  return ExitCode::done;
}

/// One finding of `doctor`.
struct Finding {
  std::string check;
  std::string status;  ///< ok, note, bad
  std::string detail;
};

Finding program_runs(const std::string& what, const fs::path& program) {
  const auto output = run_command({program.string(), "--version"}, {});
  if (!output) return {what, "bad", output.error().what};
  if (output->exit_code != 0) {
    return {what, "bad",
            fmt::format("'{} --version' ended with {}", program.string(), output->exit_code)};
  }
  return {
      what, "ok",
      fmt::format("{} ({})", output->out.substr(0, output->out.find('\n')), program.string())};
}

Finding folder_there(const std::string& what, const fs::path& folder) {
  std::error_code ignored;
  return {what, fs::is_directory(folder, ignored) ? "ok" : "bad", folder.string()};
}

/// Locks and WAL are only sure where the kernel itself keeps the files.
Finding file_system_of(const Home& home) {
  struct statfs info = {};
  fs::path folder = home.database.parent_path();
  std::error_code ignored;
  while (!folder.empty() && !fs::exists(folder, ignored))
    folder = folder.parent_path();
  if (::statfs(folder.c_str(), &info) != 0) {
    return {"home's file system", "bad", "cannot be asked: " + folder.string()};
  }
  constexpr std::uint64_t nfs = 0x6969;
  constexpr std::uint64_t lustre = 0x0BD00BD0;
  const auto magic = static_cast<std::uint64_t>(info.f_type);
  const double free_gib =
      static_cast<double>(info.f_bavail) * static_cast<double>(info.f_bsize) / (1 << 30);
  if (free_gib < 1) {
    return {"home's file system", "bad",
            fmt::format("{:.2f} GiB free in {}", free_gib, folder.string())};
  }
  const char* kind = magic == nfs ? "NFS: the database uses a rollback journal"
                     : magic == lustre
                         ? "Lustre: needs the mount option flock for the daemon's lock"
                         : "";
  return {"home's file system", *kind == '\0' ? "ok" : "note",
          fmt::format("{:.0f} GiB free in {} {}", free_gib, folder.string(), kind)};
}

Finding home_writable(const Home& home) {
  if (const auto made = make_home(home); !made) return {"home", "bad", made.error().what};
  return {"home", "ok", home.dir().string()};
}

Finding database_state(const Session& session) {
  std::error_code ignored;
  if (!fs::exists(session.home.database, ignored)) {
    return {"database", "ok", session.home.database.string() + " (made by the first submit)"};
  }
  const auto reader = Reader::open(session.home.database);
  if (!reader) return {"database", "bad", reader.error().what};
  const auto check = (*reader)->query("SELECT count(*) FROM trials");
  if (!check) return {"database", "bad", check.error().what};
  return {"database", "ok", session.home.database.string()};
}

Finding daemon_state(const Session& session) {
  if (const auto pid = lock_holder(session.home.lock())) {
    return {"daemon", "ok", fmt::format("pid {}, log {}", *pid, session.home.log().string())};
  }
  return {"daemon", "ok", "none runs; submit, run and resume start one"};
}

/// systemd may end the processes of a user who logs out; a daemon is one of them.
Finding outlives_login() {
  std::error_code ignored;
  if (!fs::exists("/run/systemd/system", ignored)) {
    return {"after logout", "ok", "no systemd here ends a user's processes"};
  }
  const auto output =
      run_command({"loginctl", "show-user", "--property=Linger", "--value"}, {});
  if (output && output->exit_code == 0 && output->out.rfind("yes", 0) == 0) {
    return {"after logout", "ok", "lingering is on"};
  }
  return {"after logout", "note",
          "where logind has KillUserProcesses=yes a daemon ends with the login: 'loginctl "
          "enable-linger', or 'shardsweep tick' from cron"};
}

Finding slurm_state() {
  if (find_on_path("sbatch").empty()) return {"slurm", "note", "no sbatch on PATH"};
  if (const auto probed = probe_slurm(); !probed) return {"slurm", "bad", probed.error().what};
  return {"slurm", "ok", "answers"};
}

/// Files of ended attempts, as `gc` sees them.
struct Garbage {
  std::vector<fs::path> paths;
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

Result<Garbage> find_garbage(const Session& session) {
  Garbage garbage;
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const Table alive,
                    reader->query("SELECT dir FROM attempts WHERE state <> 'ended' UNION ALL "
                                  "SELECT dir FROM allocations WHERE state <> 'ended'"));
  const std::vector<std::string> keep = texts_of(alive);
  for (const fs::path& folder : {session.home.attempts(), session.home.allocations(),
                                 session.home.answers(), session.home.inbox()}) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path path = entry->path();
      const bool live = std::any_of(keep.begin(), keep.end(), [&](const std::string& dir) {
        return path == dir || path == dir + ".tar";
      });
      if (live || !old_enough(path, session.options.older_than_s)) continue;
      garbage.bytes += size_of(path);
      garbage.paths.push_back(path);
    }
  }
  return garbage;
}

}  // namespace

Result<ExitCode> command_daemon(const Session& session) {
  // The daemon's own values are read as a sweep file's are, by a sweep that has nothing else.
  SHARDSWEEP_ASSIGN(
      const SweepSpec sweep,
      load_sweep_text("name: daemon\ncluster: this-machine\n"
                      "constants: {model: tiny, gpus: 1}\n",
                      "daemon", {session.installation.presets, session.options.set}));
  return be_daemon(
      session,
      {.until_idle = session.options.until_idle, .take_over = session.options.take_over},
      sweep.policy);
}

Result<ExitCode> command_tick(const Session& session) {
  return be_daemon(session, {.once = true}, {});
}

Result<ExitCode> command_doctor(const Session& session) {
  const std::vector<Finding> findings{
      program_runs("agent", session.installation.agent),
      program_runs("shardbench", session.installation.runner),
      folder_there("templates", session.installation.templates),
      folder_there("presets", session.installation.presets),
      home_writable(session.home),
      file_system_of(session.home),
      database_state(session),
      daemon_state(session),
      outlives_login(),
      slurm_state(),
  };
  Table table{{"check", "status", "detail"}, {}};
  bool healthy = true;
  for (const Finding& finding : findings) {
    table.rows.push_back({finding.check, finding.status, finding.detail});
    healthy = healthy && finding.status != "bad";
  }
  SHARDSWEEP_TRY(print_result(table_text(table, session.options.format)));
  return healthy ? ExitCode::done : ExitCode::failed;
}

Result<ExitCode> command_gc(const Session& session) {
  SHARDSWEEP_ASSIGN(const Garbage garbage, find_garbage(session));
  std::string list;
  for (const fs::path& path : garbage.paths)
    list += path.string() + '\n';
  SHARDSWEEP_TRY(print_result(list));
  const double mib = static_cast<double>(garbage.bytes) / (1 << 20);
  if (!session.options.remove) {
    say(fmt::format("{} files and folders, {:.1f} MiB, could go: --remove removes them",
                    garbage.paths.size(), mib));
    return ExitCode::done;
  }
  for (const fs::path& path : garbage.paths) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
      return fault(FaultKind::unavailable,
                   fmt::format("cannot remove '{}': {}", path.string(), error.message()));
    }
  }
  say(fmt::format("removed {} files and folders, {:.1f} MiB; the database keeps every row",
                  garbage.paths.size(), mib));
  return ExitCode::done;
}

}  // namespace shardsweep
