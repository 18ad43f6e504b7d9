// SPDX-License-Identifier: Apache-2.0
// Finds the database's home and what was installed beside this executable.
#include <shardsweep/home.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Nobody but its owner can say whether there is a database.
tl::unexpected<Fault> closed_folder(const fs::path& file) {
  return fault(FaultKind::unavailable,
               fmt::format("{}: you may not enter its folder. Ask its owner for a copy made by "
                           "`shardsweep export copy.db`, or name a database of your own with "
                           "--db.",
                           file.string()));
}

/// As this file system maps us: root's files may be nobody's over NFS.
std::optional<uid_t> own_user_in(const fs::path& folder) {
  std::string name = (folder / ".owner-test.XXXXXX").string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct stat about {};
  const bool known = ::fstat(descriptor, &about) == 0;
  ::close(descriptor);
  ::unlink(name.c_str());
  return known ? std::optional(about.st_uid) : std::nullopt;
}

/// True if another user owns it. The same user may have another number in `folder`; a folder
/// that can't be written does not tell, and then the answer is `unknown`.
bool is_anothers(const struct stat& about, const fs::path& folder, bool unknown) {
  if (about.st_uid == ::geteuid()) return false;
  const auto own = own_user_in(folder);
  return own ? *own != about.st_uid : unknown;
}

/// Before a folder is made beside it: a file that is no database, or somebody else's.
Result<void> check_database(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    if (errno == EACCES) return closed_folder(file);
    return {};
  }
  if (status.st_uid != ::geteuid() && ::access(file.c_str(), W_OK) != 0) {
    return fault(FaultKind::unavailable,
                 fmt::format("{}: only its owner may change it. Ask for a copy made by "
                             "`shardsweep export copy.db`, or name a database of your own "
                             "with --db.",
                             file.string()));
  }
  // Its mode says nothing: who can write it says which programs our daemon runs.
  if (is_anothers(status, file.has_parent_path() ? file.parent_path() : ".", true))
    return fault(
        FaultKind::rejected,
        fmt::format("the database '{}' belongs to another user (uid {}), who could run "
                    "programs as you through it. Use a --db of your own.",
                    file.string(), status.st_uid));
  // SQLite keeps a journal for each name, and a daemon of each runs every trial.
  if (status.st_nlink > 1)
    return fault(
        FaultKind::rejected,
        fmt::format("the database '{}' has {} names (hard links): daemons of two names "
                    "would run each trial twice. Remove the other names; "
                    "'find FOLDER -samefile {}' lists those in a folder.",
                    file.string(), status.st_nlink, file.string()));
  constexpr std::string_view first = "SQLite format 3";
  std::string begin(first.size(), '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.is_open() || status.st_size == 0) return {};
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (begin == first) return {};
  return fault(FaultKind::invalid_input,
               fmt::format("{} is not a database. --db and SHARDSWEEP_DB name the file that "
                           "results are kept in.",
                           file.string()));
}

/// Requests in it are obeyed with this user's rights, and scripts in it run as this user.
Result<void> check_owner(const fs::path& folder) {
  struct stat about {};
  if (::stat(folder.c_str(), &about) != 0) return {};  // what follows says why
  if (is_anothers(about, folder, false))
    return fault(FaultKind::rejected,
                 fmt::format("the folder '{}' belongs to another user (uid {}), who could run "
                             "programs as you through it. Use a --db of your own.",
                             folder.string(), about.st_uid));
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) == 0 || about.st_uid != ::geteuid()) return {};
  std::error_code ignored;
  fs::permissions(folder, fs::perms::group_write | fs::perms::others_write,
                  fs::perm_options::remove, ignored);
  return {};
}

}  // namespace

Result<Home> find_home(const std::string& db_option) {
  fs::path database = db_option.empty() ? environment("SHARDSWEEP_DB") : db_option;
  if (database.empty()) {
    fs::path home = environment("SHARDSWEEP_HOME");
    if (home.empty()) {
      const std::string user_home = environment("HOME");
      if (user_home.empty()) {
        return fault(
            FaultKind::invalid_input,
            "the database has no place: set --db, SHARDSWEEP_DB, SHARDSWEEP_HOME or HOME");
      }
      home = fs::path(user_home) / ".shardsweep";
    }
    database = home / "shardsweep.db";
  }
  std::error_code error;
  // The folder lies beside the file itself: one database has one home, whatever names it has.
  if (fs::is_symlink(database, error)) {
    const fs::path target = fs::weakly_canonical(database, error);
    if (!error) database = target;
  }
  const fs::path absolute = fs::absolute(database, error);
  if (error) {
    return fault(FaultKind::invalid_input,
                 fmt::format("database '{}': {}", database.string(), error.message()));
  }
  if (fs::is_directory(absolute, error)) {
    return fault(FaultKind::invalid_input,
                 fmt::format("'{}' is a folder, and --db and SHARDSWEEP_DB name a file: write "
                             "'{}', or set SHARDSWEEP_HOME",
                             database.string(), (database / "shardsweep.db").string()));
  }
  return Home{absolute.lexically_normal()};
}

Result<void> make_home(const Home& home) {
  // The database's own sentence comes first: a folder that can't be entered has no owner to
  // see.
  SHARDSWEEP_TRY(check_database(home.database));
  SHARDSWEEP_TRY(check_owner(home.dir()));
  for (const fs::path& folder :
       {home.database.parent_path(), home.dir(), home.requests(), home.answers(), home.inbox(),
        home.allocations(), home.attempts()}) {
    std::error_code error;
    const bool made = fs::create_directories(folder, error);
    if (error) {
      return fault(FaultKind::unavailable, fmt::format("cannot make folder '{}': {}",
                                                       folder.string(), error.message()));
    }
    // Logs and environments of attempts are the user's own business.
    if (made) fs::permissions(folder, fs::perms::owner_all, error);
  }
  return {};
}

namespace {

/// The first folder that has files of ours: an installation's share/, the program's own, the
/// portable tarball's.
fs::path shared_files_of(const fs::path& bin, const fs::path& programs) {
  fs::path installed = (bin / "../share/shardsweep").lexically_normal();
  for (const fs::path& share : {installed, bin, programs.parent_path()}) {
    std::error_code ignored;
    if (fs::is_directory(share / "sweeps", ignored) ||
        fs::is_directory(share / "templates", ignored))
      return share;
  }
  return installed;
}

/// The portable tarball has a folder of programs for each kind of machine. Above them lie
/// scripts that choose by `uname -m`: what runs elsewhere is called by those.
fs::path programs_for_all_machines(const fs::path& bin) {
  std::error_code ignored;
  utsname about{};
  const bool one_of_several =
      ::uname(&about) == 0 && bin.filename() == static_cast<const char*>(about.machine);
  const fs::path above = bin.parent_path();
  return one_of_several && fs::exists(above / "shardsweep-agent", ignored) ? above : bin;
}

}  // namespace

Installation installation_of(const fs::path& program) {
  const fs::path bin = program.parent_path();
  const fs::path programs = programs_for_all_machines(bin);
  const fs::path share = shared_files_of(bin, programs);
  return {.shardsweep = programs / program.filename(),
          .agent = programs / "shardsweep-agent",
          .runner = programs / "shardbench-cpu",
          .templates = share / "templates",
          .presets = share / "sweeps"};
}

Result<Installation> find_installation() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    return fault(FaultKind::unavailable, "cannot read /proc/self/exe: " + error.message());
  }
  return installation_of(self);
}

}  // namespace shardsweep
