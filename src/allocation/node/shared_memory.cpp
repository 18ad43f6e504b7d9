// SPDX-License-Identifier: Apache-2.0
#include "node/shared_memory.hpp"

#include "machine/processes.hpp"

#include <shardsweep/clock.hpp>

#include <fmt/format.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view nccl_prefix = "nccl-";
constexpr Timestamp setup_time = 60'000'000;

/// Device and inode: a file for as long as it is there.
using FileIdentity = std::pair<dev_t, ino_t>;

struct Candidate {
  SharedFile file;
  fs::path path;
  Timestamp made = 0;
};
using Candidates = std::map<FileIdentity, Candidate>;

Candidates segments_in(const fs::path& folder) {
  Candidates candidates;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(nccl_prefix)) continue;
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0) continue;
    const bool ours = S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
        (status.st_mode & (S_IRWXG | S_IRWXO)) == 0 && status.st_nlink == 1;
    if (!ours) continue;
    candidates[{status.st_dev, status.st_ino}] = {
        {name, status.st_size}, entry->path(), Timestamp{status.st_mtime} * 1'000'000};
  }
  return candidates;
}

/// A line of /proc/PID/maps: from-to permissions offset major:minor inode path.
std::optional<FileIdentity> mapped_file(const std::string& line) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned long inode = 0;
  if (std::sscanf(line.c_str(), "%*s %*s %*s %x:%x %lu", &major, &minor, &inode) != 3)
    return std::nullopt;
  if (inode == 0) return std::nullopt;
  return FileIdentity{makedev(major, minor), inode};
}

/// False if that can't be seen.
bool leave_out_mapped(const std::string& process, Candidates& candidates) {
  std::ifstream maps(process + "/maps");
  if (!maps) return false;
  for (std::string line; std::getline(maps, line);) {
    if (const auto file = mapped_file(line)) candidates.erase(*file);
  }
  return true;
}

bool leave_out_open(const std::string& process, Candidates& candidates) {
  std::error_code error;
  fs::directory_iterator entry(process + "/fd", error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    struct stat status {};
    if (::stat(entry->path().c_str(), &status) == 0)
      candidates.erase({status.st_dev, status.st_ino});
  }
  return !error;
}

/// False if one of our own processes hides what it uses.
bool leave_out_used(Candidates& candidates) {
  bool all_seen = true;
  for (const pid_t pid : own_processes()) {
    const std::string process = fmt::format("/proc/{}", pid);
    if (leave_out_mapped(process, candidates) && leave_out_open(process, candidates)) continue;
    const auto stat = process_stat(pid);
    if (stat && stat->state != 'Z' && stat->state != 'X') all_seen = false;
  }
  return all_seen;
}

}  // namespace

std::vector<SharedFile> remove_abandoned_segments(const fs::path& folder) {
  std::vector<SharedFile> removed;
  Candidates candidates = segments_in(folder);
  if (candidates.empty()) return removed;
  if (!leave_out_used(candidates)) {
    const Timestamp served = SystemClock().now() - setup_time;
    std::erase_if(candidates, [&](const auto& one) { return one.second.made > served; });
  }
  for (const auto& [identity, candidate] : candidates) {
    if (::unlink(candidate.path.c_str()) == 0) removed.push_back(candidate.file);
  }
  return removed;
}

}  // namespace shardsweep
