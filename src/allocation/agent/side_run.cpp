// SPDX-License-Identifier: Apache-2.0
#include "agent/side_run.hpp"

#include "text/pieces.hpp"
#include "text/placeholders.hpp"
#include "trainer/trainers.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <system_error>
#include <utility>

namespace shardsweep::agent {
namespace {

namespace fs = std::filesystem;

/// No sampling of the CPU: it needs rights that few clusters give.
std::vector<std::string> profiler_words(const AttemptPaths& paths) {
  return {"nsys", "profile", "--output=" + (paths.kept() / "profile").string(),
      "--force-overwrite=true", "--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none"};
}

std::string snapshot_name(const AttemptSpec& spec) {
  return spec.nonce + ".pickle";
}

std::vector<std::string> snapshot_words(
    const std::vector<std::string>& argv, const AttemptSpec& spec, const AttemptPaths& paths) {
  const Trainer* trainer = spec.trainer ? find_trainer(spec.trainer->log) : nullptr;
  if (trainer == nullptr) return {};
  const MemorySnapshot& snapshot = trainer->snapshot;
  const bool older = !snapshot.older_word.empty() &&
      std::any_of(argv.begin(), argv.end(),
          [&](const std::string& word) { return word.starts_with(snapshot.older_word); });
  const std::string& words = older ? snapshot.older_words : snapshot.words;
  if (words.empty()) return {};
  const auto parts = split(words, ' ');
  return filled_words({parts.begin(), parts.end()},
      {{"kept", paths.kept().string()}, {"nonce", spec.nonce}}, DoubleBraces::keep);
}

/// Kept, oom_rank-3_NONCE.pickle is oom_rank-3.pickle, and NONCE.pickle snapshot.pickle.
std::string name_when_kept(const std::string& name, const std::string& ending) {
  std::string front = name.substr(0, name.size() - ending.size());
  while (front.ends_with('_') || front.ends_with('-'))
    front.pop_back();
  return (front.empty() ? "snapshot" : front) + ".pickle";
}

void move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return;
  // A rename fails across file systems: copy.
  if (fs::copy_file(from, to, fs::copy_options::overwrite_existing, error) && !error)
    fs::remove(from, error);
}

/// Letters and dashes around one colon. As the value of an option it would stand behind its name.
bool is_choice(const std::string& word, const std::string& before) {
  const auto colon = word.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == word.size()) return false;
  const bool is_plain =
      std::count_if(word.begin(), word.end(),
          [](unsigned char one) { return std::isalpha(one) != 0 || one == '-'; }) +
          1 ==
      std::ssize(word);
  const bool is_value = before.starts_with('-') && before.find('=') == std::string::npos;
  return is_plain && !word.starts_with('-') && !is_value;
}

}  // namespace

void add_words(std::vector<std::string>& argv, const std::vector<std::string>& words) {
  const bool has_choice = argv.size() > 1 && is_choice(argv.back(), argv[argv.size() - 2]);
  argv.insert(argv.end() - (has_choice ? 1 : 0), words.begin(), words.end());
}

std::vector<std::string> side_command(
    std::vector<std::string> argv, const AttemptSpec& spec, const AttemptPaths& paths, int rank) {
  if (spec.side == SideRun::profile && rank == 0) {
    auto words = profiler_words(paths);
    argv.insert(argv.begin(), words.begin(), words.end());
  }
  if (spec.side == SideRun::memory) {
    add_words(argv, snapshot_words(argv, spec, paths));
  }
  return argv;
}

Result<void> equip_side_run(
    RankProcess& process, const AttemptSpec& spec, const AttemptPaths& paths, int rank) {
  if (spec.side == SideRun::none) return {};
  SHARDSWEEP_TRY(make_own_folder(paths.kept()));
  process.argv = side_command(std::move(process.argv), spec, paths, rank);
  return {};
}

void collect_snapshots(const AttemptSpec& spec, const AttemptPaths& paths) {
  if (spec.side != SideRun::memory || !spec.trainer) return;
  const std::string ending = snapshot_name(spec);
  const fs::path ran_in =
      spec.trainer->directory.empty() ? paths.dir : fs::path(spec.trainer->directory);
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(ran_in, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const bool is_file = it->symlink_status(gone).type() == fs::file_type::regular;
    if (is_file && it->path().filename().string().ends_with(ending)) found.push_back(it->path());
  }
  for (const auto& path : found)
    move_file(path, paths.kept() / name_when_kept(path.filename().string(), ending));
}

}  // namespace shardsweep::agent
