// SPDX-License-Identifier: Apache-2.0
// A folder of one user's, and the files in it that nobody else has put there. It is looked at
// once, through a descriptor, and its files are opened relative to that: whoever gives its name
// to another folder, or puts a link in its way, changes nothing of what was looked at.
//
// Decision: A link is followed if the user or root has made it (a database's folder may have
// been moved to a larger disk). A folder of the user's that others may write is closed to them,
// and what they have put into it before is refused file by file, by its owner.
#pragma once

#include "machine/descriptor.hpp"

#include <shardsweep/result.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

enum class FolderUse : std::uint8_t {
  read,    ///< another user's database may be read, if its files belong to the folder's owner
  change,  ///< the folder has to be this user's
};

class CheckedFolder {
 public:
  /// `rejected` if it is somebody else's, no folder, or behind somebody else's link;
  /// `unavailable` if the system does not open it.
  [[nodiscard]] static Result<CheckedFolder> open(
      const std::filesystem::path& folder, FolderUse use = FolderUse::change);
  /// Makes it first, with the folders above it, for its owner alone.
  [[nodiscard]] static Result<CheckedFolder> make(const std::filesystem::path& folder);
  /// The one that holds `file`.
  [[nodiscard]] static Result<CheckedFolder> of(
      const std::filesystem::path& file, FolderUse use = FolderUse::change);

  /// `flags` and `mode` as of open(2). `rejected` if it is a link, no regular file, another
  /// user's, or is to be written and has a second name; never waits for a fifo.
  [[nodiscard]] Result<Descriptor> open_file(
      const std::string& name, int flags, mode_t mode = 0600) const;
  [[nodiscard]] Result<void> rename(const std::string& from, const std::string& to) const;
  void remove(const std::string& name) const;
  /// Path by which a foreign library opens the file in this folder, while this object lives.
  [[nodiscard]] std::filesystem::path path_of(const std::string& name) const;
  /// Makes names in it durable.
  [[nodiscard]] Result<void> sync() const;
  [[nodiscard]] int descriptor() const { return folder_.get(); }
  /// Checks a file that `open_file` has opened; `written`: opened for writing.
  [[nodiscard]] Result<void> check_file(
      const std::string& name, const struct stat& about, bool written) const;

 private:
  CheckedFolder(std::filesystem::path path, Descriptor folder, uid_t owner)
      : path_(std::move(path)), folder_(std::move(folder)), owner_(owner) {}
  std::filesystem::path path_;  ///< shown in messages alone
  Descriptor folder_;
  uid_t owner_;
};

/// The owner of files that this user creates in `folder`, a descriptor. Over NFS, root's files may
/// belong to nobody. Empty: this user can't write there.
[[nodiscard]] std::optional<uid_t> own_user_in(int folder);

/// How a file of a database is opened to be read by its name alone.
inline constexpr int flags_to_read = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
/// Checks a file opened with `flags_to_read`. This user's own regular files pass; all others must
/// satisfy the rules of CheckedFolder::open_file.
[[nodiscard]] Result<void> check_to_read(const Descriptor& file, const std::filesystem::path& path);
[[nodiscard]] Result<Descriptor> open_to_read(const std::filesystem::path& path);

/// True if `group` is the private group that systems make for each user. With umask 002, all files
/// of a user are writable for that group.
[[nodiscard]] bool has_own_group(uid_t user, gid_t group);

/// Refuses a file whose lines run as this user (a site file, a template of job scripts), if a user
/// other than this one and root owns it, may write it or has put a link to it. The owner's own
/// group is nobody else. A file that is not there is all right.
[[nodiscard]] Result<void> check_configuration(const std::filesystem::path& file);

/// Checks a file before a program opens it by name: refuses one that somebody else has put there. A
/// missing file is all right.
[[nodiscard]] Result<void> check_own_file(const std::filesystem::path& file);

/// Closes this user's files to others who may write them, and returns sentences on them; empty:
/// none was open. The owner's own group is nobody else; a file that is not there is all right. A
/// mode that can't be changed is refused only if others may write the folder, too: mounts with
/// fixed modes show modes that need not be true.
[[nodiscard]] Result<std::string> close_to_others(const std::vector<std::filesystem::path>& files);

}  // namespace shardsweep
