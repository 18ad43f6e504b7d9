// SPDX-License-Identifier: Apache-2.0
// gc: files of ended attempts that nothing needs. What the database calls alive is kept
// whatever its age: folders of attempts and allocations that have not ended, snapshots that
// a sweep file in force names. So is what a command may be about to use. The rows stay: a
// measurement outlives its logs.
#include "cli/command.hpp"
#include "cli/commands/disk_use.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "text/numbers.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/removal.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

struct GarbageOptions {
  std::string older_than = "30d";
  bool remove = false;
  bool verbose = false;
};

/// Files of ended attempts, as `gc` sees them.
struct Garbage {
  std::string kind;  ///< the folder of the home that it lies in
  fs::path path;
  std::uintmax_t bytes = 0;
};

bool old_enough(const fs::path& path, double age_s) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return !error &&
      std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count() >= age_s;
}

/// A snapshot is kept as long as a sweep file in force names it, or remeasuring compares the next
/// program to it.
bool is_snapshot_of_any(
    const std::vector<SweepRow>& sweeps, const Home& home, const fs::path& path) {
  const std::string name = path.filename().string();
  return path.parent_path() == home.snapshots() &&
      std::any_of(sweeps.begin(), sweeps.end(), [&](const SweepRow& sweep) {
        return sweep.resolved.find(name) != std::string::npos ||
            sweep.remeasured_was.find(name) != std::string::npos ||
            sweep.remeasured_is.find(name) != std::string::npos;
      });
}

/// True if the path is a live folder, what is packed of one, or of a live allocation's controls.
/// The names decide, which hold a token: rows name a folder by the path that its database had then,
/// through a link or elsewhere.
bool is_live(const std::vector<std::string>& folders, const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string kind = path.parent_path().filename().string();
  return std::any_of(folders.begin(), folders.end(), [&](const fs::path& folder) {
    const std::string live = folder.filename().string();
    if (folder.parent_path().filename() == kind) return name.starts_with(live);
    return kind == "attempts" &&
        (name.starts_with("control." + live) || name.starts_with("probe." + live));
  });
}

/// The age from which nobody waits for such a file any more. Submissions and answers are in no row
/// while a command and a daemon speak, nor is a new snapshot.
double least_age_s(const Home& home, const fs::path& folder) {
  constexpr double longest_command_s = 3600;
  return folder == home.attempts() || folder == home.allocations() ? 0 : longest_command_s;
}

/// Files and folders of that age. Listed before the database is asked: a folder is made after its
/// row.
std::vector<fs::path> old_paths(const Home& home, double older_than_s) {
  std::vector<fs::path> old;
  for (const fs::path& folder :
      {home.attempts(), home.allocations(), home.answers(), home.inbox(), home.snapshots()}) {
    std::error_code error;
    if (fs::is_symlink(folder, error)) {
      // A link may lead to other things than ours.
      say("{} is a link: gc leaves alone what it leads to.", folder.string());
      continue;
    }
    error.clear();
    const double age_s = std::max(older_than_s, least_age_s(home, folder));
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error))
      if (old_enough(entry->path(), age_s)) old.push_back(entry->path());
  }
  return old;
}

Result<std::vector<Garbage>> find_garbage(const Session& session) {
  SHARDSWEEP_ASSIGN(const double older_than_s,
      parse_duration(session.options.of<GarbageOptions>().older_than, "--older-than"));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const auto old = old_paths(session.home, older_than_s);
  SHARDSWEEP_ASSIGN(const auto keep, reader->texts(Listing::live_folders));
  SHARDSWEEP_ASSIGN(const auto sweeps, reader->sweeps());
  std::vector<Garbage> garbage;
  for (const fs::path& path : old) {
    if (is_live(keep, path) || is_snapshot_of_any(sweeps, session.home, path)) continue;
    garbage.push_back({path.parent_path().filename().string(), path, size_of(path)});
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
  const bool each = options.of<GarbageOptions>().verbose || options.format != Format::table;
  return print_result(table_text(each ? garbage_table(garbage) : garbage_summary(garbage),
      table_style(session, {"path", "kind"})));
}

/// Removes the garbage. A path that can't be removed keeps none of the others.
Result<ExitCode> remove_garbage(const std::vector<Garbage>& garbage) {
  std::vector<Garbage> removed;
  std::string kept;
  for (const Garbage& one : garbage) {
    const auto gone = remove_tree(one.path);
    if (gone) removed.push_back(one);
    if (!gone) kept += (kept.empty() ? "" : "\n") + gone.error().what;
  }
  say("Removed {} files and folders ({}). The database keeps every row.",
      grouped(static_cast<std::int64_t>(removed.size())), size_text(total_bytes(removed)));
  if (!kept.empty()) return fault(FaultKind::unavailable, kept);
  return ExitCode::done;
}

Result<ExitCode> run_gc(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto garbage, find_garbage(session));
  SHARDSWEEP_TRY(print_garbage(session, garbage));
  const auto size = size_text(total_bytes(garbage));
  const auto count = grouped(static_cast<std::int64_t>(garbage.size()));
  if (!session.options.of<GarbageOptions>().remove) {
    say(garbage.empty() ? fmt::format("No ended attempt has files older than {}.",
                              session.options.of<GarbageOptions>().older_than)
                        : fmt::format("{} files and folders ({}) can be removed. --remove removes "
                                      "them; --verbose lists them.",
                              count, size));
    return ExitCode::done;
  }
  return remove_garbage(garbage);
}

}  // namespace

extern const Command command_gc{.name = "gc",
    .help = "List files of ended attempts that may be removed.",
    .examples =
        "shardsweep gc\n"
        "shardsweep gc --older-than 7d --remove",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<GarbageOptions>();
          grammar.option(
              "--older-than", own.older_than, "AGE", "Keep younger files: 30d, 12h, 5min, 0s.");
          grammar.flag("--remove", own.remove, "Remove them.");
          grammar.flag("--verbose", own.verbose, "List each file and folder.");
          grammar.format();
        },
    .run = run_gc};

}  // namespace shardsweep
