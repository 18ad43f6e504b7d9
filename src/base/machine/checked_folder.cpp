// SPDX-License-Identifier: Apache-2.0
#include "machine/checked_folder.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr mode_t owner_alone = 0700;
constexpr int most_links = 40;

/// Path as readable text: control bytes are escaped.
std::string shown(const fs::path& path) {
  std::string text;
  for (const char c : path.native()) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text;
}

template <class... Args>
tl::unexpected<Fault> refused(fmt::format_string<Args...> text, Args&&... args) {
  return fault(FaultKind::rejected, fmt::format(text, std::forward<Args>(args)...));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a link";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return S_ISSOCK(mode) ? "a socket" : "a file";
}

bool is_ours(uid_t owner, int folder) {
  return owner == ::geteuid() || own_user_in(folder) == owner;
}

constexpr mode_t by_others = S_IWGRP | S_IWOTH;

/// Entries of a file of users or groups, read without the libraries of a directory service, which
/// a static program can't load.
template <class Entry>
void each_entry(const char* file, Entry* (*next)(std::FILE*), const auto& use) {
  std::FILE* entries = std::fopen(file, "re");
  if (entries == nullptr) return;
  while (const Entry* entry = next(entries))
    use(*entry);
  std::fclose(entries);
}

/// Walks from one folder into the next by descriptors: nobody can change the folders behind it.
class Walk {
 public:
  explicit Walk(fs::path path, std::string remedy = "Remove it, or use another --db.")
      : path_(std::move(path)), remedy_(std::move(remedy)) {
    put_back(path_);
  }

  /// Stands at the end of the path, whatever is there.
  Result<Descriptor> to_end(struct stat& about) {
    SHARDSWEEP_TRY(begin(path_.is_absolute() ? "/" : "."));
    while (!rest_.empty()) {
      const fs::path name = std::move(rest_.back());
      rest_.pop_back();
      if (name.empty() || name == "." || name == "/") continue;
      SHARDSWEEP_TRY(enter(name));
    }
    about = about_;
    return std::move(here_);
  }

 private:
  void put_back(const fs::path& path) {
    const std::vector<fs::path> parts(path.begin(), path.end());
    rest_.insert(rest_.end(), parts.rbegin(), parts.rend());
  }
  Result<void> begin(const char* folder) {
    here_ = Descriptor(::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
    walked_ = *folder == '/' ? "/" : "";
    if (here_.valid() && ::fstat(here_.get(), &about_) == 0) return {};
    return errno_error("cannot open " + shown(path_));
  }
  Result<void> enter(const fs::path& name) {
    Descriptor next(::openat(here_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat about {};
    if (!next.valid() || ::fstat(next.get(), &about) != 0)
      return errno_error("cannot open " + shown(path_));
    if (S_ISLNK(about.st_mode)) return follow(next, name, about);
    walked_ /= name;
    here_ = std::move(next);
    about_ = about;
    return {};
  }
  /// Where others may make links, only those of this user and root are followed.
  Result<void> follow(const Descriptor& link, const fs::path& name, const struct stat& about) {
    const bool of_folder = about.st_uid == about_.st_uid && (about_.st_mode & by_others) == 0;
    if (about.st_uid != ::geteuid() && about.st_uid != 0 && !of_folder)
      return refused("'{}' is a link that another user (uid {}) has made. {}",
          shown(walked_ / name), about.st_uid, remedy_);
    if (++links_ > most_links) return errno_error("cannot open " + shown(path_), ELOOP);
    std::string target(static_cast<std::size_t>(PATH_MAX), '\0');
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size < 0) return errno_error("cannot read the link " + shown(walked_ / name));
    target.resize(static_cast<std::size_t>(size));
    put_back(target);
    return target.starts_with('/') ? begin("/") : Result<void>();
  }

  fs::path path_;
  std::string remedy_;
  fs::path walked_;             ///< walked part of the path, for messages
  std::vector<fs::path> rest_;  ///< the next one is the last
  Descriptor here_;
  struct stat about_ {};  ///< status of the folder that holds it
  int links_ = 0;
};

}  // namespace

std::optional<uid_t> own_user_in(int folder) {
  const std::string name = fmt::format(".owner-test.{}", ::getpid());
  const Descriptor file(
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return std::nullopt;
  struct stat about {};
  const bool known = ::fstat(file.get(), &about) == 0;
  ::unlinkat(folder, name.c_str(), 0);
  return known ? std::optional(about.st_uid) : std::nullopt;
}

Result<CheckedFolder> CheckedFolder::open(const fs::path& folder, FolderUse use) {
  struct stat about {};
  SHARDSWEEP_ASSIGN(const Descriptor found, Walk(folder).to_end(about));
  if (!S_ISDIR(about.st_mode))
    return refused(
        "'{}' is {}, where a folder of the database is expected. Remove it, or use another --db.",
        shown(folder), kind_of(about.st_mode));
  Descriptor opened(::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.valid()) return errno_error("cannot open " + shown(folder));
  if (use == FolderUse::change && !is_ours(about.st_uid, opened.get()))
    return refused(
        "the folder '{}' belongs to another user (uid {}), who could run programs as you through "
        "it. Use a --db of your own.",
        shown(folder), about.st_uid);
  const bool open_to_others = about.st_uid == ::geteuid() && (about.st_mode & by_others) != 0;
  if (open_to_others && ::fchmod(opened.get(), about.st_mode & 07777 & ~by_others) != 0 &&
      errno != EROFS)
    return errno_error("cannot close " + shown(folder) + " to others");
  return CheckedFolder(folder, std::move(opened), about.st_uid);
}

Result<CheckedFolder> CheckedFolder::make(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  if (!error && ::mkdir(folder.c_str(), owner_alone) != 0 && errno != EEXIST)
    error = {errno, std::system_category()};
  if (error)
    return fault(
        FaultKind::unavailable, "cannot make folder '{}': {}", shown(folder), error.message());
  return open(folder);
}

Result<CheckedFolder> CheckedFolder::of(const fs::path& file, FolderUse use) {
  return open(file.has_parent_path() ? file.parent_path() : fs::path("."), use);
}

Result<void> CheckedFolder::check_file(
    const std::string& name, const struct stat& about, bool written) const {
  const std::string path = shown(path_ / name);
  if (!S_ISREG(about.st_mode))
    return refused("'{}' is {}, where a file of the database is expected. Remove it.", path,
        kind_of(about.st_mode));
  const bool known = about.st_uid == owner_ || about.st_uid == 0 || about.st_uid == ::geteuid();
  if (!known && own_user_in(folder_.get()) != about.st_uid)
    return refused("'{}' belongs to another user (uid {}). Remove it, or use a --db of your own.",
        path, about.st_uid);
  if (written && about.st_nlink > 1)
    return refused(
        "'{}' has {} names (hard links): writing it would change a file elsewhere. Remove it.",
        path, about.st_nlink);
  return {};
}

Result<Descriptor> CheckedFolder::open_file(const std::string& name, int flags, mode_t mode) const {
  constexpr int always = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Descriptor file(::openat(folder_.get(), name.c_str(), flags | always, mode));
  struct stat about {};
  if (!file.valid()) {
    const int error = errno;
    const bool is_there = ::fstatat(folder_.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && (flags & O_EXCL) == 0) SHARDSWEEP_TRY(check_file(name, about, false));
    return errno_error("cannot open " + shown(path_ / name), error);
  }
  if (::fstat(file.get(), &about) != 0) return errno_error("cannot stat " + shown(path_ / name));
  SHARDSWEEP_TRY(check_file(name, about, (flags & O_ACCMODE) != O_RDONLY));
  return file;
}

Result<void> CheckedFolder::rename(const std::string& from, const std::string& to) const {
  if (::renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str()) == 0) return {};
  return errno_error("cannot rename " + shown(path_ / from));
}

fs::path CheckedFolder::path_of(const std::string& name) const {
  return fmt::format("/proc/self/fd/{}/{}", folder_.get(), name);
}

void CheckedFolder::remove(const std::string& name) const {
  ::unlinkat(folder_.get(), name.c_str(), 0);
}

Result<void> CheckedFolder::sync() const {
  // Some network file systems refuse fsync of a folder; there the server makes names durable.
  if (::fsync(folder_.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    return errno_error("cannot fsync " + shown(path_));
  return {};
}

Result<void> check_to_read(const Descriptor& file, const fs::path& path) {
  const int error = errno;
  struct stat about {};
  const bool own = file.valid() && ::fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) &&
      about.st_uid == ::geteuid();
  if (own) return {};
  if (!file.valid() && error != ELOOP && error != ENXIO)
    return errno_error("cannot open " + shown(path), error);
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(path, FolderUse::read));
  const std::string name = path.filename().string();
  if (file.valid()) return folder.check_file(name, about, false);
  SHARDSWEEP_TRY(folder.open_file(name, O_RDONLY));  // says what is there
  return errno_error("cannot open " + shown(path), error);
}

Result<Descriptor> open_to_read(const fs::path& path) {
  Descriptor file(::open(path.c_str(), flags_to_read));
  SHARDSWEEP_TRY(check_to_read(file, path));
  return file;
}

bool has_own_group(uid_t user, gid_t group) {
  std::string name;
  each_entry("/etc/passwd", ::fgetpwent, [&](const passwd& entry) {
    if (entry.pw_uid == user && name.empty()) name = entry.pw_name;
  });
  bool own = user == group;  // a group of a directory service is not listed: numbers decide
  each_entry("/etc/group", ::fgetgrent, [&](const struct group& entry) {
    if (entry.gr_gid != group) return;
    own = user == group || name == entry.gr_name;
    for (char** member = entry.gr_mem; *member != nullptr; ++member)
      own = own && name == *member;
  });
  return own;
}

namespace {

bool others_may_write(const struct stat& about) {
  if ((about.st_mode & by_others) == 0) return false;
  const bool own_group = has_own_group(about.st_uid, about.st_gid);
  return (about.st_mode & (own_group ? mode_t{S_IWOTH} : by_others)) != 0;
}

}  // namespace

Result<void> check_configuration(const fs::path& file) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0) return {};
  if (S_ISREG(about.st_mode)) {
    SHARDSWEEP_TRY(
        Walk(file, "The file's lines would run as you: copy the file into a folder of yours.")
            .to_end(about));
  }
  const std::string path = shown(file);
  const auto folder = [&] {
    const fs::path parent = file.has_parent_path() ? file.parent_path() : fs::path(".");
    return Descriptor(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  };
  if (about.st_uid != 0 && !is_ours(about.st_uid, folder().get()))
    return refused(
        "'{}' belongs to another user (uid {}), and its lines would run as you. Read the file, "
        "then copy it to one of your own.",
        path, about.st_uid);
  if (others_may_write(about))
    return refused(
        "'{}' can be written by others (mode {:o}), and its lines run as you. Read the file, then: "
        "chmod go-w {}",
        path, about.st_mode & 07777, path);
  return {};
}

Result<void> check_own_file(const fs::path& file) {
  struct stat about {};
  if (::lstat(file.c_str(), &about) != 0) return {};
  if (S_ISREG(about.st_mode) && about.st_uid == ::geteuid() && about.st_nlink == 1) return {};
  SHARDSWEEP_ASSIGN(const CheckedFolder folder, CheckedFolder::of(file, FolderUse::read));
  return folder.check_file(file.filename().string(), about, true);
}

namespace {

/// Word for the others who may write a file, as far as its mode tells.
const char* writers(mode_t mode) {
  return (mode & S_IWOTH) != 0 ? "others" : "its group";
}

bool others_may_write_folder_of(const fs::path& file) {
  struct stat about {};
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return ::stat(folder.c_str(), &about) == 0 && others_may_write(about);
}

}  // namespace

Result<std::string> close_to_others(const std::vector<fs::path>& files) {
  std::vector<std::string> said;
  for (const fs::path& file : files) {
    // A descriptor that reads would, as it is closed, end the locks that SQLite holds in this
    // process.
    const Descriptor opened(::open(file.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat before {};
    const bool found = opened.valid() && ::fstat(opened.get(), &before) == 0;
    if (!found || !S_ISREG(before.st_mode) || !others_may_write(before)) continue;
    struct stat after = before;
    const mode_t closed = before.st_mode & 07777 & ~by_others;
    // Some file systems agree and change nothing.
    (void)::chmod(fmt::format("/proc/self/fd/{}", opened.get()).c_str(), closed);
    const bool is_known = ::fstat(opened.get(), &after) == 0;
    const std::string path = shown(file);
    const std::string who = writers(before.st_mode);
    if (is_known && !others_may_write(after)) {
      said.push_back(
          fmt::format("'{}' could be written by {} (mode {:o}), who could have run programs as you "
                      "through it. It has mode {:o} now.",
              path, who, before.st_mode & 07777, closed));
    } else if (others_may_write_folder_of(file)) {
      return refused(
          "'{}' and its folder can be written by {} (mode {:o}), who could run programs as you "
          "through it, and the mode can't be changed. Use another --db, on a file system that "
          "keeps modes.",
          path, who, before.st_mode & 07777);
    } else {
      said.push_back(
          fmt::format("'{}' can be written by {} (mode {:o}), who could run programs as you "
                      "through it, and the mode can't be changed.",
              path, who, before.st_mode & 07777));
    }
  }
  return fmt::format("{}", fmt::join(said, " "));
}

}  // namespace shardsweep
