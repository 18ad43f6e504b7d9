// SPDX-License-Identifier: Apache-2.0
#include "node/memory_kills.hpp"

#include <shardsweep/allocation_files.hpp>

#include <algorithm>
#include <charconv>

namespace shardsweep {
namespace {

/// The first line, which is taken off.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string_view relative(std::string_view path) {
  return path.substr(std::min(path.find_first_not_of('/'), path.size()));
}

}  // namespace

std::filesystem::path memory_kills_file(
    std::string_view cgroups, const std::filesystem::path& root) {
  // "4:memory:/slurm_n1/uid_1000/job_7", or "0::/system.slice/…" of version 2. Where memory has
  // a hierarchy of version 1, it is not in the other.
  std::filesystem::path file;
  while (!cgroups.empty()) {
    const std::string_view line = next_line(cgroups);
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = relative(line.substr(second + 1));
    if (controllers == "memory") return root / "memory" / path / "memory.oom_control";
    if (controllers.empty()) file = root / path / "memory.events";
  }
  return file;
}

std::optional<std::int64_t> memory_kills_in(std::string_view text) {
  constexpr std::string_view key = "oom_kill ";
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (!line.starts_with(key)) continue;
    std::int64_t count = 0;
    const auto [stop, error] =
        std::from_chars(line.data() + key.size(), line.data() + line.size(), count);
    if (error == std::errc()) return count;
  }
  return std::nullopt;
}

std::optional<std::int64_t> memory_kills() {
  const auto cgroups = read_file("/proc/self/cgroup");
  if (!cgroups) return std::nullopt;
  const std::filesystem::path file = memory_kills_file(*cgroups, "/sys/fs/cgroup");
  if (file.empty()) return std::nullopt;
  const auto text = read_file(file);
  return text ? memory_kills_in(*text) : std::nullopt;
}

}  // namespace shardsweep
