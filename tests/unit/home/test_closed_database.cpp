// SPDX-License-Identifier: Apache-2.0
#include "machine/checked_folder.hpp"
#include "unit/folder.hpp"

#include <shardsweep/home.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

using namespace shardsweep;
using shardsweep::test::Folder;
namespace fs = std::filesystem;

namespace {

mode_t mode_of(const fs::path& path) {
  struct stat about {};
  REQUIRE(::stat(path.c_str(), &about) == 0);
  return about.st_mode & 07777;
}

}  // namespace

TEST_CASE("a database that others may write is closed to them with all its files") {
  const Folder folder;
  const fs::path file = folder.write("a.db", "");
  const fs::path wal = folder.write("a.db-wal", "");
  REQUIRE(::chmod(file.c_str(), 0646) == 0);
  REQUIRE(::chmod(wal.c_str(), 0666) == 0);
  SUBCASE("which is said") {
    const auto close = [&] {
      const auto said = close_to_others({file, wal, folder.path() / "a.db-shm"});
      REQUIRE(said);
      return *said;
    };
    const std::string why = ", who could have run programs as you through it. It has mode 644 now.";
    CHECK(close() ==
        "'" + file.string() + "' could be written by others (mode 646)" + why + " '" +
            wal.string() + "' could be written by others (mode 666)" + why);
    CHECK(close().empty());
  }
  SUBCASE("before anything is done with it") {
    CHECK(make_home(Home{file}));
  }
  CHECK(mode_of(file) == 0644);
  CHECK(mode_of(wal) == 0644);
}

TEST_CASE("a look at the database drops no lock that this process has on it") {
  const Folder folder;
  const fs::path file = folder.write("a.db", "SQLite format 3");
  const int held = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  REQUIRE(::fcntl(held, F_SETLK, &lock) == 0);
  CHECK(make_home(Home{file}));
  const pid_t other = ::fork();
  if (other == 0) {
    struct flock seen {};
    seen.l_type = F_WRLCK;
    ::_exit(::fcntl(held, F_GETLK, &seen) == 0 && seen.l_type == F_WRLCK ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(other, &status, 0) == other);
  CHECK(status == 0);
  ::close(held);
}

TEST_CASE("a database that its group may write is closed to it, and only the group is named") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: a group of others needs root");
    return;
  }
  const Folder folder;
  const fs::path file = folder.write("a.db", "");
  REQUIRE(::chown(file.c_str(), 0, 61234) == 0);
  REQUIRE(::chmod(file.c_str(), 0664) == 0);
  const auto said = close_to_others({file});
  REQUIRE(said);
  CHECK(said->starts_with("'" + file.string() + "' could be written by its group (mode 664)"));
  CHECK(mode_of(file) == 0644);
}
