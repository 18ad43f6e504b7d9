// SPDX-License-Identifier: Apache-2.0
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/copied.hpp>

#include <fmt/format.h>

#include <sys/stat.h>

#include <string_view>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

enum class Kinship : std::uint8_t { same, different, gone };

/// Compares folders: one may be reached through two mounts, which have a device each. A copy has a
/// number and a time of change of its own; the time also moves with each file that is made in it.
Kinship compare(const fs::path& one, const fs::path& other) {
  constexpr int looks = 3;
  for (int look = 0; look < looks; ++look) {
    struct stat a {};
    struct stat b {};
    if (::stat(one.c_str(), &a) != 0 || ::stat(other.c_str(), &b) != 0) return Kinship::gone;
    if (a.st_ino != b.st_ino) return Kinship::different;
    if (a.st_dev == b.st_dev) return Kinship::same;
    if (a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec)
      return Kinship::same;
  }
  return Kinship::different;
}

}  // namespace

std::optional<fs::path> other_database(const Home& home, const fs::path& folder) {
  constexpr std::string_view ending = ".d";
  const std::string dir = folder.lexically_normal().parent_path().parent_path().string();
  if (dir == home.dir().string() || !dir.ends_with(ending)) return std::nullopt;
  const fs::path database = dir.substr(0, dir.size() - ending.size());
  std::error_code error;
  const bool is_there = fs::exists(database, error);
  // A database that can't be looked at may be there, and somebody else's.
  if (error) return database;
  // A link that was left where this database had been leads here.
  if (!is_there || fs::equivalent(database, home.database, error)) return std::nullopt;
  if (compare(home.dir(), dir) != Kinship::different) return std::nullopt;
  return database;
}

fs::path folder_here(const Home& home, const fs::path& folder) {
  if (folder.empty()) return folder;
  const auto is_there = [](const fs::path& path) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(path, ignored)) ||
        fs::exists(fs::symlink_status(AttemptPaths{path}.pack(), ignored));
  };
  // Jobs that began before a move have their folders where they were.
  if (is_there(folder) && !other_database(home, folder)) return folder;
  const fs::path here = home.dir() / folder.parent_path().filename() / folder.filename();
  return is_there(here) ? here : folder;
}

std::optional<std::string> copy_text(const Home& home, const std::vector<fs::path>& folders) {
  std::optional<fs::path> original;
  std::int64_t jobs = 0;
  for (const fs::path& folder : folders) {
    auto other = other_database(home, folder);
    if (!other) continue;
    ++jobs;
    original = std::move(other);
  }
  if (!original) return std::nullopt;
  return fmt::format(
      "{} is a copy of {}, which has {} that may still run. The copy starts nothing and does not "
      "touch those jobs. To use the copy without them, run 'shardsweep forget --db {}': what they "
      "ran is then measured again. To continue with those jobs, use the original.",
      home.database.string(), original->string(), counted(jobs, "job"), home.database.string());
}

}  // namespace shardsweep
