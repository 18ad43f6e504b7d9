// SPDX-License-Identifier: Apache-2.0
#include "rundir/durable.hpp"

#include <shardsweep/removal.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <system_error>

namespace shardsweep {

namespace fs = std::filesystem;

void open_to_owner(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return;
  const bool folder = S_ISDIR(info.st_mode);
  if (!folder && !S_ISREG(info.st_mode)) return;
  const mode_t needed = folder ? S_IRWXU : S_IRUSR;
  const bool open = (info.st_mode & needed) == needed ||
      ::fchmodat(AT_FDCWD, path.c_str(), (info.st_mode & 07777U) | needed, AT_SYMLINK_NOFOLLOW) ==
          0;
  if (!open || !folder) return;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    open_to_owner(entry->path());
}

Result<void> remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return {};
  open_to_owner(path);
  fs::remove_all(path, error);
  if (!error) return {};
  return fault(FaultKind::unavailable,
      fmt::format("cannot remove '{}': {}", path.string(), error.message()));
}

Result<void> remove_attempt(const AttemptPaths& attempt) {
  const auto folder = remove_tree(attempt.dir);
  const auto pack = remove_tree(attempt.pack());
  SHARDSWEEP_TRY(remove_tree(unfinished_pack(attempt)));
  SHARDSWEEP_TRY(pack);
  return folder;
}

}  // namespace shardsweep
