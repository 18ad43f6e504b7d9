// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/storage.hpp>
#include <shardsweep/trouble.hpp>

#include <doctest/doctest.h>

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

using namespace shardsweep;
namespace fs = std::filesystem;

namespace {

struct HomePlace {
  HomePlace() {
    std::string made = (fs::temp_directory_path() / "trouble.XXXXXX").string();
    home.database = fs::path(::mkdtemp(made.data())) / "x.db";
    fs::create_directories(home.dir());
  }
  HomePlace(const HomePlace&) = delete;
  HomePlace& operator=(const HomePlace&) = delete;
  ~HomePlace() {
    std::error_code ignored;
    fs::remove_all(home.database.parent_path(), ignored);
  }
  Home home;
};

const Trouble full{TroubleKind::disk_full, "/home/x", "No space left on device", 0, 1, 0};

}  // namespace

TEST_CASE("a disk is nearly full where a tenth is left that a sweep may use up") {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  CHECK(little_left({4 * gib, 100 * gib}, {}) == "only 4.0 % of the space is left (4.0 GiB)");
  CHECK_FALSE(little_left({10 * gib, 100 * gib}, {}));   // a tenth
  CHECK_FALSE(little_left({40 * gib, 1000 * gib}, {}));  // much all the same
  CHECK_FALSE(little_left({}, {}));                      // nobody counts
  CHECK(little_left({40 * gib, 100 * gib}, {5, 1000}) == "only 0.5 % of the inodes are left (5)");
  const Trouble nearly{
      TroubleKind::nearly_full, "/home/x", "only 4.0 % of the space is left (4.0 GiB)"};
  CHECK(text(nearly) ==
      "The disk of /home/x is nearly full: only 4.0 % of the space is left (4.0 GiB). `shardsweep "
      "gc` lists files that can be removed.");
  CHECK_FALSE(concerns(nearly, "s"));  // it goes on
}

TEST_CASE("what a daemon writes, a reader reads; the file never grows") {
  const HomePlace place;
  auto file = TroubleFile::open(place.home);
  REQUIRE(file);
  const auto size = fs::file_size(place.home.trouble());
  CHECK(troubles(place.home).empty());
  REQUIRE(file->write({full}, SystemClock().now()));
  CHECK(troubles(place.home) == std::vector<Trouble>{full});
  const std::vector<Trouble> many(
      100, Trouble{TroubleKind::scheduler, std::string(500, 'w'), std::string(1000, 'd'), 1, 1, 1});
  REQUIRE(file->write(many, SystemClock().now()));
  CHECK(fs::file_size(place.home.trouble()) == size);
  CHECK_FALSE(troubles(place.home).empty());
}

TEST_CASE("what a daemon wrote that lives no more is not believed") {
  const HomePlace place;
  auto file = TroubleFile::open(place.home);
  REQUIRE(file);
  REQUIRE(file->write({full}, SystemClock().now() - 60'000'000));
  CHECK(troubles(place.home).empty());
}

TEST_CASE("each trouble is a sentence with what would help") {
  CHECK(text(full) ==
      "The disk of /home/x is full: nothing can be stored. Free some space, "
      "and the sweep goes on. `shardsweep resume` starts a daemon where none runs.");
  Trouble quota = full;
  quota.detail = "Disk quota exceeded";
  CHECK(text(quota).find("(Disk quota exceeded)") != std::string::npos);
  Trouble put_off{TroubleKind::deferred, "small", "QOSMaxSubmitJob.", 0, 4, 2};
  CHECK(text(put_off) ==
      "Sweep 'small': Slurm has put off 2 submissions (4 times): QOSMaxSubmitJob. The daemon "
      "tries again by itself; 'shardsweep cancel small' gives up.");
  const Trouble unread{TroubleKind::unreadable, "a", "/x/t.1.tar is not there", 0, 2, 0};
  CHECK(text(unread) ==
      "Sweep 'a': the records of 2 ended attempts can't be read: /x/t.1.tar is not there. "
      "Later results of the same job wait until they can. After daemon.records_limit the attempt "
      "ends as lost.");
  const Trouble token{TroubleKind::scheduler, "slurm http://rest:6820",
      "HTTP 401: Authentication failure", 0, 1, 0};
  CHECK(text(token).find("slurmrestd at http://rest:6820") != std::string::npos);
  CHECK(text(token).find("renew the token") != std::string::npos);
}

TEST_CASE("the time of a trouble is local, with its date where that was not today") {
  ::setenv("TZ", "UTC", 1);
  Trouble long_ago = full;
  long_ago.since = 1'000'000'000'000'000;
  CHECK(text(long_ago).find("since 2001-09-09 01:46") != std::string::npos);
}

TEST_CASE("a folder's state, by looking and by writing") {
  const HomePlace place;
  CHECK_FALSE(look_at_storage(place.home.dir()));
  CHECK_FALSE(try_storage(place.home.dir()));
  CHECK(fs::is_empty(place.home.dir()));
  const fs::path away = place.home.dir() / "away";
  CHECK(look_at_storage(away)->problem == StorageProblem::gone);
  CHECK(try_storage(away)->problem == StorageProblem::gone);
  CHECK(storage_problem(EDQUOT) == StorageProblem::full);
  CHECK_FALSE(storage_problem(EINVAL));
}

TEST_CASE("who may only read the lock file still sees who holds it") {
  const HomePlace place;
  const auto lock = DaemonLock::take(place.home.lock(), false);
  REQUIRE(lock);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    fs::permissions(place.home.lock(), fs::perms(0444));
    fs::permissions(place.home.dir(), fs::perms::all);
    fs::permissions(place.home.database.parent_path(), fs::perms::all);
    const bool left = ::geteuid() != 0 || ::setuid(65534) == 0;
    ::_exit(left && lock_holder(place.home.lock()) == ::getppid() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}
