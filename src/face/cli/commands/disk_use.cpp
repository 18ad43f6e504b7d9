// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/disk_use.hpp"

#include "text/pieces.hpp"

#include <string>
#include <system_error>

namespace shardsweep {

namespace fs = std::filesystem;

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

std::optional<std::map<SweepId, DiskUse>> disk_use(const Home& home) {
  std::map<SweepId, DiskUse> uses;
  std::error_code error;
  for (fs::directory_iterator entry(home.attempts(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto sweep = number_from<SweepId>(name.substr(0, name.find('.')));
    if (!sweep) continue;
    DiskUse& use = uses[*sweep];
    ++use.entries;
    use.bytes += size_of(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) return std::nullopt;
  return uses;
}

}  // namespace shardsweep
