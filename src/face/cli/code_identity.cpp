// SPDX-License-Identifier: Apache-2.0
#include "cli/session.hpp"
#include "text/characters.hpp"
#include "text/content_hash.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/program_files.hpp>
#include <shardsweep/snapshot.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

/// Files of data and of results are named on command lines too; those may change.
bool is_code(const fs::path& file) {
  constexpr std::array<std::string_view, 12> endings{".py", ".sh", ".bash", ".pl", ".jl", ".lua",
      ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg"};
  const auto ending = file.extension().string();
  return std::find(endings.begin(), endings.end(), ending) != endings.end() ||
      ::access(file.c_str(), X_OK) == 0;
}

/// The files among the words of a command line. A name without a folder in front is looked for
/// on the nodes' PATH, where each may have its own.
std::vector<fs::path> program_files(const std::vector<std::string>& words, const fs::path& folder) {
  std::vector<fs::path> files;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool on_path = i == 0 && word.find('/') == std::string::npos;
    if (word.empty() || on_path || word.find('{') != std::string::npos) continue;
    const fs::path file = (folder / word).lexically_normal();
    std::error_code ignored;
    if (file.is_absolute() && fs::is_regular_file(file, ignored) && (i == 0 || is_code(file)))
      files.push_back(file);
  }
  return files;
}

std::vector<std::string> words_of(const RunnerSpec& runner) {
  if (runner.is_trainer()) return runner.trainer.argv;
  std::vector<std::string> words{runner.program};
  words.insert(words.end(), runner.args.begin(), runner.args.end());
  return words;
}

/// Folder that relative words start from; empty if it varies from attempt to attempt.
fs::path folder_of(const RunnerSpec& runner) {
  if (!runner.is_trainer()) return fs::path(runner.program).parent_path();
  const auto& folder = runner.trainer.directory;
  return folder.find('{') == std::string::npos ? fs::path(folder) : fs::path();
}

Result<void> note_programs(RunnerSpec& runner) {
  for (const auto& file : program_files(words_of(runner), folder_of(runner)))
    SHARDSWEEP_SET(runner.programs[file.string()], file_hash(file));
  return {};
}

// ---- snapshots

Result<std::string> ask_git(const fs::path& folder, const std::vector<std::string>& words) {
  std::vector<std::string> argv{"git", "--no-optional-locks", "-C", folder.string()};
  argv.insert(argv.end(), words.begin(), words.end());
  SHARDSWEEP_ASSIGN(auto output, run_command(argv, {.deadline = std::chrono::seconds(60)}));
  if (output.exit_code == 0 && !output.truncated) return std::move(output.out);
  return fault(FaultKind::invalid_input,
      "'snapshot: git' of {}: 'git {}' {}{}. 'snapshot: copy' needs no git.", folder.string(),
      fmt::join(words, " "), output.exit_code == 0 ? "says too much" : "failed: ",
      output.exit_code == 0 ? "" : one_line(output.err, 200));
}

std::vector<std::string> between_zeros(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find('\0'), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// A tree, and its root as the sweep file spells it: that may lead through links.
struct SpelledTree {
  Tree tree;
  fs::path spelled;
};

/// A program that would be missing in the copy.
Result<void> check_tracked(const RunnerSpec& runner, const SpelledTree& found) {
  const std::set<std::string> tracked(found.tree.files.begin(), found.tree.files.end());
  for (const auto& file : program_files(words_of(runner), folder_of(runner))) {
    const auto name = file.lexically_relative(found.spelled).generic_string();
    if (name.starts_with("..") || tracked.contains(name)) continue;
    return fault(FaultKind::invalid_input,
        "'snapshot: git': git does not track {}, so it would be missing. Run 'git add' on it, or "
        "write 'snapshot: copy'.",
        file.string());
  }
  return {};
}

/// The root of the work tree, by the spelling of a folder in it.
Result<fs::path> spelled_root(const fs::path& folder, const fs::path& root) {
  std::error_code error;
  const fs::path below = fs::canonical(folder, error).lexically_relative(root);
  fs::path spelled = folder;
  for (const auto& part : below)
    spelled = part == "." ? spelled : spelled.parent_path();
  if (!error && fs::canonical(spelled, error) == root) return spelled;
  return fault(FaultKind::invalid_input,
      "'snapshot: git': the path {} goes through a link inside the tree. Write {} instead.",
      folder.string(), (root / below).string());
}

Result<SpelledTree> tree_by_git(const RunnerSpec& runner, const fs::path& folder) {
  SHARDSWEEP_ASSIGN(std::string root, ask_git(folder, {"rev-parse", "--show-toplevel"}));
  while (root.ends_with('\n'))
    root.pop_back();
  SpelledTree found{.tree = {.root = root}, .spelled = {}};
  SHARDSWEEP_ASSIGN(found.spelled, spelled_root(folder, found.tree.root));
  SHARDSWEEP_ASSIGN(const auto files, ask_git(root, {"ls-files", "-z", "--recurse-submodules"}));
  found.tree.files = between_zeros(files);
  SHARDSWEEP_ASSIGN(const auto commit, ask_git(root, {"rev-parse", "HEAD"}));
  SHARDSWEEP_ASSIGN(const auto difference, ask_git(root, {"diff", "HEAD", "--binary"}));
  found.tree.origin = fmt::format("commit {}\n{}", commit, difference);
  SHARDSWEEP_TRY(check_tracked(runner, found));
  return found;
}

Result<SpelledTree> tree_of(const Session& session, const RunnerSpec& runner) {
  fs::path folder = folder_of(runner).lexically_normal();
  if (!folder.is_absolute())
    return fault(FaultKind::invalid_input,
        "'snapshot' copies the folder 'cwd', so 'cwd' must be a path from '/'; it is '{}'",
        runner.trainer.directory);
  if (!folder.has_filename()) folder = folder.parent_path();
  if (runner.snapshot == SnapshotKind::git) return tree_by_git(runner, folder);
  // The database and the sweep file may lie in the folder, but are no part of its programs.
  std::error_code ignored;
  const fs::path file = fs::absolute(session.options.file, ignored).lexically_normal();
  return SpelledTree{{.root = folder, .without = {session.home.database, file}}, folder};
}

}  // namespace

Result<void> note_code(const Session& session, SweepSpec& sweep, Taking taking) {
  RunnerSpec& runner = sweep.runner;
  runner.programs.clear();
  runner.snapshot_hash.clear();
  runner.snapshot_root.clear();
  // Our own runners are known by their version, and need no hash.
  const bool own = runner.is_trainer() || runner.program.starts_with('/');
  if (!own) return {};
  if (runner.snapshot == SnapshotKind::none)
    return sweep.container.is_used() ? Result<void>() : note_programs(runner);
  SHARDSWEEP_ASSIGN(const auto found, tree_of(session, runner));
  const Tree& tree = found.tree;
  if (taking == Taking::snapshot) {
    SHARDSWEEP_TRY(make_home(session.home));
    SHARDSWEEP_ASSIGN(runner.snapshot_hash, take_snapshot(session.home, tree));
    say("Snapshot {} of {}: all trials run from it.", short_hash(runner.snapshot_hash),
        tree.root.string());
  } else {
    SHARDSWEEP_ASSIGN(runner.snapshot_hash, tree_hash(tree));
  }
  runner.snapshot_root = found.spelled.string();
  return {};
}

Result<std::string> tree_of_now(
    const Session& session, const SweepSpec& sweep, const std::string& known) {
  SHARDSWEEP_ASSIGN(const auto found, tree_of(session, sweep.runner));
  SHARDSWEEP_ASSIGN(const auto hash, tree_hash(found.tree));
  return hash == known ? Result<std::string>(hash) : take_snapshot(session.home, found.tree);
}

}  // namespace shardsweep
