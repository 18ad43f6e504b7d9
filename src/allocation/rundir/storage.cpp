// SPDX-License-Identifier: Apache-2.0
// Decision: NFS believes for a minute that a name is missing. `look_for` opens the folder,
// which asks the server, before it says no.
#include "machine/descriptor.hpp"
#include "text/numbers.hpp"

#include <shardsweep/storage.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace shardsweep {
namespace {

// A list of those that are local: network file systems do not say that they are none. overlayfs
// is on it because the kernel takes no network file system as its writable layer, and it is
// what containers and CI stand on.
constexpr std::array<unsigned long, 6> local_file_systems{
    0xEF53,      // ext2, ext3, ext4
    0x58465342,  // xfs
    0x9123683E,  // btrfs
    0x2FC12FC1,  // zfs
    0x01021994,  // tmpfs
    0x794C7630,  // overlayfs
};

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// An attempt's first files fit into it.
constexpr std::size_t tried_bytes = std::size_t{64} * 1024;

StorageFault fault_of(int error) {
  return {storage_problem(error).value_or(StorageProblem::broken), std::strerror(error)};
}

/// 0, or the error of the first call that failed.
int write_and_sync(int descriptor) {
  const std::array<char, tried_bytes> bytes{};
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    done += static_cast<std::size_t>(written);
  }
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

}  // namespace

std::optional<StorageProblem> storage_problem(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:  // a limit on the size of files
      return StorageProblem::full;
    case EROFS:
      return StorageProblem::read_only;
    case EACCES:
    case EPERM:
      return StorageProblem::denied;
    case ENOENT:
    case ENOTDIR:
    case ESTALE:
      return StorageProblem::gone;
    case EIO:
      return StorageProblem::broken;
    default:
      return std::nullopt;
  }
}

bool is_local_file_system(const std::filesystem::path& file) {
  struct statfs about {};
  if (::statfs(folder_of(file).c_str(), &about) != 0) return false;
  const auto magic = static_cast<unsigned long>(about.f_type) & 0xffffffffUL;
  return std::find(local_file_systems.begin(), local_file_systems.end(), magic) !=
      local_file_systems.end();
}

Result<bool> look_for(const std::filesystem::path& file) {
  struct stat about {};
  const auto found = [&]() -> Result<bool> {
    if (::stat(file.c_str(), &about) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return errno_error("cannot look for " + file.string());
  };
  SHARDSWEEP_ASSIGN(const bool at_once, found());
  if (at_once) return true;
  const Descriptor folder(::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) return found();
  if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return false;
  return errno_error("cannot look for " + file.string());
}

bool is_there(const std::filesystem::path& file) {
  return look_for(file).value_or(false);
}

std::optional<StorageFault> look_at_storage(const std::filesystem::path& folder) {
  struct statvfs system {};
  if (::statvfs(folder.c_str(), &system) != 0) return fault_of(errno);
  if ((system.f_flag & ST_RDONLY) != 0) return fault_of(EROFS);
  const bool root = ::geteuid() == 0;
  if ((root ? system.f_bfree : system.f_bavail) == 0 && system.f_blocks > 0)
    return fault_of(ENOSPC);
  // Some file systems do not count inodes.
  if (system.f_files > 0 && (root ? system.f_ffree : system.f_favail) == 0)
    return StorageFault{StorageProblem::full, "no inodes are left"};
  return std::nullopt;
}

std::optional<std::string> little_left(FreeSpace bytes, FreeSpace files) {
  constexpr double tenth = 0.1;
  constexpr std::uint64_t few_bytes = std::uint64_t{10} << 30;
  constexpr std::uint64_t few_files = 100'000;
  const auto is_little = [](FreeSpace left, std::uint64_t few) {
    return left.all > 0 && left.free < few &&
        static_cast<double>(left.free) < tenth * static_cast<double>(left.all);
  };
  const auto share = [](FreeSpace left) {
    return percent_text(static_cast<double>(left.free) / static_cast<double>(left.all));
  };
  if (is_little(bytes, few_bytes))
    return fmt::format("only {} of the space is left ({})", share(bytes),
        bytes_text(static_cast<double>(bytes.free)));
  if (is_little(files, few_files))
    return fmt::format("only {} of the inodes are left ({})", share(files), files.free);
  return std::nullopt;
}

std::optional<std::string> little_left(const std::filesystem::path& folder) {
  struct statvfs system {};
  if (::statvfs(folder.c_str(), &system) != 0) return std::nullopt;
  const bool root = ::geteuid() == 0;
  return little_left({(root ? system.f_bfree : system.f_bavail) * system.f_frsize,
                         system.f_blocks * system.f_frsize},
      {root ? system.f_ffree : system.f_favail, system.f_files});
}

std::optional<StorageFault> try_storage(const std::filesystem::path& folder) {
  const std::string file = (folder / fmt::format(".storage-test.{}", ::getpid())).string();
  const Descriptor descriptor(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!descriptor.valid()) return fault_of(errno);
  const int error = write_and_sync(descriptor.get());
  ::unlink(file.c_str());
  if (error != 0) return fault_of(error);
  return std::nullopt;
}

std::string describe(const StorageFault& fault, const std::filesystem::path& folder) {
  switch (fault.problem) {
    case StorageProblem::full:
      return fmt::format("the disk of {} is full ({})", folder.string(), fault.detail);
    case StorageProblem::read_only:
      return fmt::format("{} is read-only", folder.string());
    case StorageProblem::gone:
      return fmt::format("the folder {} is gone ({})", folder.string(), fault.detail);
    case StorageProblem::denied:
    case StorageProblem::broken:
      break;
  }
  return fmt::format("{} can't be written: {}", folder.string(), fault.detail);
}

}  // namespace shardsweep
