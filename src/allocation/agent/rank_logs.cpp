// SPDX-License-Identifier: Apache-2.0
#include "agent/rank_logs.hpp"

#include "attempt/nccl_log.hpp"
#include "machine/descriptor.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace shardsweep::agent {
namespace {

// A traceback and what a library printed before it. A step of many ranks shares what 32 get.
constexpr std::size_t most_of_one = std::size_t{256} * 1024;
constexpr std::size_t most_of_all = 32 * most_of_one;

std::string read_part(int file, off_t from, std::size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

std::string read_ends(const std::filesystem::path& path, std::size_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return "";
  const auto size = static_cast<std::size_t>(std::max<off_t>(0, about.st_size));
  if (size <= limit) return read_part(file.get(), 0, size);
  std::string head = read_part(file.get(), 0, limit / 4);
  const std::size_t rest = limit - limit / 4;
  std::string tail = read_part(file.get(), static_cast<off_t>(size - rest), rest);
  head.resize(head.rfind('\n') + 1);  // npos + 1 is 0
  tail.erase(0, std::min(tail.find('\n'), tail.size()));
  return head + tail;
}

void join_logs(std::vector<Evidence>& evidence, const std::vector<RankLog>& logs,
    const std::vector<Cause>& own, Timestamp now, bool alone) {
  apply_own_causes(evidence, own);
  const std::size_t limit =
      std::min(most_of_one, most_of_all / std::max<std::size_t>(1, logs.size()));
  for (const RankLog& log : logs)
    join_log(evidence, log.rank, find_cause(read_ends(log.path, limit), own), now, alone);
}

std::string summarise_nccl(const std::vector<RankLog>& logs, const std::filesystem::path& summary) {
  constexpr std::size_t shown = 5;
  const std::size_t limit =
      std::min(most_of_one, most_of_all / std::max<std::size_t>(1, logs.size()));
  std::string text;
  std::string first;
  for (const RankLog& log : logs) {
    for (const std::string& line : nccl_complaints(read_ends(log.path, limit), shown)) {
      if (first.empty()) first = fmt::format("NCCL on rank {}: {}", log.rank, line);
      text += fmt::format("rank {}: {}\n", log.rank, line);
    }
  }
  if (text.empty()) return "";
  std::error_code error;
  std::filesystem::create_directories(summary.parent_path(), error);
  (void)write_own_file(summary, text);
  return first;
}

}  // namespace shardsweep::agent
