// SPDX-License-Identifier: Apache-2.0
// Finds the database's home and what was installed beside this executable.
#include <shardsweep/home.hpp>

#include <fmt/format.h>

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
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

Result<Installation> find_installation() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    return fault(FaultKind::unavailable, "cannot read /proc/self/exe: " + error.message());
  }
  const fs::path bin = self.parent_path();
  Installation found;
  found.shardsweep = self;
  found.agent = bin / "shardsweep-agent";
  found.runner = bin / "shardbench-cpu";
  const fs::path share = bin / "../share/shardsweep";
  found.templates = (share / "templates").lexically_normal();
  found.presets = (share / "sweeps").lexically_normal();
  return found;
}

}  // namespace shardsweep
