// SPDX-License-Identifier: Apache-2.0
#include "agent/storage_watch.hpp"

#include <fmt/format.h>

#include <system_error>

namespace shardsweep::agent {
namespace {

// One question to the file system; ranks that can't write soon end.
constexpr double storage_look_s = 1;

/// A rank whose log is longer than its limit.
std::optional<Evidence> endless_log(const AttemptHere& here, const std::vector<int>& ranks) {
  const std::int64_t limit = here.spec.limits.log_limit_bytes;
  if (limit <= 0) return std::nullopt;
  for (const int rank : ranks) {
    std::error_code error;
    const auto size = std::filesystem::file_size(here.log_of(rank), error);
    if (error || size <= static_cast<std::uintmax_t>(limit)) continue;
    return Evidence{here.clock.now(),
        {Outcome::crashed,
            fmt::format("rank {} has printed {} bytes (watch.log_limit is {})", rank, size, limit),
            SaidBy::policy}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Evidence> StorageWatch::look(const std::vector<int>& ranks) {
  const double now_s = here_.now_s();
  if (fault_ || now_s - looked_at_s_ < storage_look_s) return std::nullopt;
  looked_at_s_ = now_s;
  auto endless = endless_log(here_, ranks);
  fault_ = look_at_storage(here_.paths.dir);
  return endless;
}

std::string StorageWatch::judge() {
  if (!fault_) fault_ = try_storage(here_.paths.dir);
  // A folder that was deleted may be there again.
  const auto found = look_for(here_.paths.spec());
  if (!fault_ && !found) fault_ = StorageFault{StorageProblem::broken, found.error().what};
  if (!fault_ && !*found) fault_ = StorageFault{StorageProblem::gone, "deleted while it ran"};
  return fault_ ? describe(*fault_, here_.paths.dir) : "";
}

}  // namespace shardsweep::agent
