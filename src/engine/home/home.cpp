// SPDX-License-Identifier: Apache-2.0
// Finds the database's home and what was installed beside this executable.
#include "machine/checked_folder.hpp"
#include "machine/descriptor.hpp"
#include "text/characters.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/log.hpp>
#include <shardsweep/requests.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Fault for a folder that is closed: only its owner knows whether it has a database.
tl::unexpected<Fault> closed_folder(const fs::path& file) {
  return fault(FaultKind::unavailable,
      "{}: you may not enter its folder. Ask its owner for a copy made by "
      "`shardsweep export copy.db`, or name a database of your own with "
      "--db.",
      file.string());
}

/// True if another user owns it. The same user may have another number in `folder`; a folder
/// that can't be written does not tell, and then the answer is `unknown`.
bool is_anothers(const struct stat& about, const fs::path& folder, bool unknown) {
  if (about.st_uid == ::geteuid()) return false;
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto own = own_user_in(opened.get());
  return own ? *own != about.st_uid : unknown;
}

constexpr std::array<const char*, 3> endings_of_companions{"-journal", "-wal", "-shm"};

/// SQLite writes into the database what it finds in them.
Result<void> check_companions(const fs::path& file) {
  for (const char* const ending : endings_of_companions) {
    SHARDSWEEP_TRY(check_own_file(file.string() + ending));
  }
  return {};
}

/// Write access to the database, or to SQLite's files beside it, decides which programs run.
Result<void> close_database(const fs::path& file) {
  std::vector<fs::path> files{file};
  for (const char* const ending : endings_of_companions)
    files.push_back(file.string() + ending);
  SHARDSWEEP_ASSIGN(const std::string said, close_to_others(files));
  if (!said.empty()) log_warning(said);
  return {};
}

/// The first bytes of a file. Its descriptor stays open: closing it would drop the locks that
/// SQLite holds on the file in this process.
std::string beginning_of(const fs::path& file, const struct stat& status, std::size_t bytes) {
  static std::map<std::pair<dev_t, ino_t>, Descriptor> opened;
  Descriptor& kept = opened[{status.st_dev, status.st_ino}];
  if (!kept.valid()) kept = Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string begin(bytes, '\0');
  const ssize_t got = ::pread(kept.get(), begin.data(), bytes, 0);
  begin.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return begin;
}

/// Refuses a file that is no database, or somebody else's, before a folder is made beside it.
Result<void> check_database(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    if (errno == EACCES) return closed_folder(file);
    SHARDSWEEP_TRY(check_companions(file));
    return close_database(file);
  }
  if (!S_ISREG(status.st_mode))
    return fault(FaultKind::rejected,
        "'{}' is not a regular file: --db and SHARDSWEEP_DB name the file that "
        "results are kept in.",
        file.string());
  if (status.st_uid != ::geteuid() && ::access(file.c_str(), W_OK) != 0) {
    return fault(FaultKind::unavailable,
        "{}: only its owner may change it. Ask for a copy made by "
        "`shardsweep export copy.db`, or name a database of your own "
        "with --db.",
        file.string());
  }
  // The owner matters more than the mode: whoever can write the database decides which programs our
  // daemon runs.
  if (is_anothers(status, file.has_parent_path() ? file.parent_path() : ".", true))
    return fault(FaultKind::rejected,
        "the database '{}' belongs to another user (uid {}), who could run "
        "programs as you through it. Use a --db of your own.",
        file.string(), status.st_uid);
  // SQLite keeps a journal for each name, and a daemon of each runs every trial.
  if (status.st_nlink > 1)
    return fault(FaultKind::rejected,
        "the database '{}' has {} names (hard links): daemons of two names "
        "would run each trial twice. Remove the other names; "
        "'find FOLDER -samefile {}' lists those in a folder.",
        file.string(), status.st_nlink, file.string());
  SHARDSWEEP_TRY(check_companions(file));
  SHARDSWEEP_TRY(close_database(file));
  constexpr std::string_view first = "SQLite format 3";
  const std::string begin = beginning_of(file, status, first.size());
  if (begin.empty() || begin == first) return {};
  return fault(FaultKind::invalid_input,
      "{} is not a database. --db and SHARDSWEEP_DB name the file that "
      "results are kept in.",
      file.string());
}

/// Requests, orders and records are JSON and name files below it.
Result<void> check_text(const fs::path& database) {
  const std::string path = database.string();
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::size_t length = character_length(rest);
    if (length == 0)
      return fault(FaultKind::invalid_input,
          "the database's path {} is not valid UTF-8, which its files need. Set --db "
          "or SHARDSWEEP_DB to another path.",
          in_quotes(path));
    rest.remove_prefix(length);
  }
  return {};
}

/// A link to somebody's database that a third user has made would choose what is changed.
Result<void> check_link(const fs::path& database) {
  struct stat link {};
  struct stat target {};
  if (::lstat(database.c_str(), &link) != 0) return {};
  if (link.st_uid == ::geteuid() || link.st_uid == 0) return {};
  if (::stat(database.c_str(), &target) == 0 && target.st_uid == link.st_uid) return {};
  return fault(FaultKind::rejected,
      "'{}' is a link that another user (uid {}) has made, to a file that is "
      "not theirs. Name the database itself with --db.",
      database.string(), link.st_uid);
}

}  // namespace

Result<Home> find_home(const std::string& db_option) {
  fs::path database = db_option.empty() ? environment("SHARDSWEEP_DB") : db_option;
  if (database.empty()) {
    fs::path home = environment("SHARDSWEEP_HOME");
    if (home.empty()) {
      const std::string user_home = environment("HOME");
      if (user_home.empty()) {
        return fault(FaultKind::invalid_input,
            "no path for the database: set --db, SHARDSWEEP_DB, SHARDSWEEP_HOME or HOME");
      }
      home = fs::path(user_home) / ".shardsweep";
    }
    database = home / "shardsweep.db";
  }
  std::error_code error;
  // The folder lies beside the file itself: one database has one home, whatever names it has.
  if (fs::is_symlink(database, error)) {
    SHARDSWEEP_TRY(check_link(database));
    const fs::path target = fs::weakly_canonical(database, error);
    if (!error) database = target;
  }
  const fs::path absolute = fs::absolute(database, error);
  if (error) {
    return fault(FaultKind::invalid_input, "database '{}': {}", database.string(), error.message());
  }
  if (fs::is_directory(absolute, error)) {
    return fault(FaultKind::invalid_input,
        "'{}' is a folder, and --db and SHARDSWEEP_DB name a file: write "
        "'{}', or set SHARDSWEEP_HOME",
        database.string(), (database / "shardsweep.db").string());
  }
  return Home{absolute.lexically_normal()};
}

Result<void> make_home(const Home& home) {
  SHARDSWEEP_TRY(check_text(home.database));
  // The database's own sentence comes first: a folder that can't be entered has no owner to
  // see.
  SHARDSWEEP_TRY(check_database(home.database));
  std::error_code error;
  const fs::path above = home.database.parent_path();
  if (fs::create_directories(above, error)) fs::permissions(above, fs::perms::owner_all, error);
  if (error)
    return fault(
        FaultKind::unavailable, "cannot make folder '{}': {}", above.string(), error.message());
  // Requests in them are obeyed with this user's rights, scripts in them run as this user, and
  // logs and environments of attempts are the user's own business.
  for (const fs::path& folder : {home.dir(), home.requests(), home.answers(), home.inbox(),
           home.allocations(), home.attempts()})
    SHARDSWEEP_TRY(CheckedFolder::make(folder));
  // Made when they are needed.
  for (const fs::path& folder :
      {home.snapshots(), home.faults(), home.secrets_of("").parent_path()}) {
    if (fs::symlink_status(folder, error).type() != fs::file_type::not_found)
      SHARDSWEEP_TRY(CheckedFolder::open(folder));
  }
  for (const fs::path& file : {home.lock(), home.log(), home.trouble()})
    SHARDSWEEP_TRY(check_own_file(file));
  fail_point("home.checked");
  return {};
}

namespace {

/// The first folder that has files of ours: an installation's share/, the program's own, the
/// portable tarball's.
fs::path shared_files_of(const fs::path& bin, const fs::path& programs) {
  fs::path installed = (bin / "../share/shardsweep").lexically_normal();
  for (const fs::path& share : {installed, bin, programs.parent_path()}) {
    std::error_code ignored;
    for (const char* const folder : {"sweeps", "templates", "explorer"}) {
      if (fs::is_directory(share / folder, ignored)) return share;
    }
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

RequestWatch::RequestWatch(const Home& home)
    : descriptor_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  // A request appears by being renamed into place.
  if (descriptor_ < 0 ||
      ::inotify_add_watch(descriptor_, home.requests().c_str(), IN_MOVED_TO | IN_ONLYDIR) >= 0)
    return;
  ::close(descriptor_);
  descriptor_ = -1;
}

RequestWatch::~RequestWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RequestWatch::clear() {
  if (descriptor_ < 0) return;
  std::array<char, 4096> events{};
  while (::read(descriptor_, events.data(), events.size()) > 0) {
  }
}

}  // namespace shardsweep
