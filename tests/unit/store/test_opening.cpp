// SPDX-License-Identifier: Apache-2.0
// Reading a database that somebody else owns.
#include "unit/store/support.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Runs `body` as a user who may read the folder and not write it; true where it returned true.
template <class Body>
bool as_guest(const std::filesystem::path& folder, Body&& body) {
  namespace fs = std::filesystem;
  fs::permissions(folder, fs::perms(0555));
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t nobody = 65534;
    const bool guest = ::geteuid() != 0 || (::setgid(nobody) == 0 && ::setuid(nobody) == 0);
    ::_exit(guest && body() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  fs::permissions(folder, fs::perms(0755));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool counts_trials(const std::filesystem::path& file, const std::string& wanted) {
  const auto reader = Reader::open(file);
  if (!reader) {
    fmt::print(stderr, "{}\n", reader.error().what);
    return false;
  }
  const auto table = (*reader)->query("SELECT count(*) FROM results");
  return table && rows_of(*table) == wanted;
}

/// As by an owner who lets others read: its journals take its mode.
void make_readable(const std::filesystem::path& file) {
  std::ofstream{file};
  std::filesystem::permissions(file, std::filesystem::perms(0644));
}

}  // namespace

TEST_CASE("another user is told that a new database is its owner's alone") {
  const TempDir dir;
  const auto file = dir / "a.db";
  Daemon daemon(file);
  CHECK(as_guest(dir.path(), [&] {
    const auto reader = Reader::open(file);
    return !reader && reader.error().what.find("only its owner may read it") != std::string::npos;
  }));
}

TEST_CASE("another user reads a database that only its owner may write") {
  const TempDir dir;
  const auto file = dir / "a b%.db";
  make_readable(file);
  std::string trials;
  {
    Daemon daemon(file);
    daemon.submit(dir, {});
    trials = rows_of(must(must(Reader::open(file))->query("SELECT count(*) FROM results")));
    CHECK(std::filesystem::exists(dir / "a b%.db-wal"));
    CHECK(as_guest(dir.path(), [&] { return counts_trials(file, trials); }));
    must(daemon.store->release_lease());
  }
  CHECK_FALSE(std::filesystem::exists(dir / "a b%.db-wal"));
  CHECK(as_guest(dir.path(), [&] { return counts_trials(file, trials); }));
  CHECK(as_guest(dir.path(), [&] {
    const auto reader = Reader::open(file);
    return reader && !(*reader)->query("DELETE FROM trials");
  }));
}

TEST_CASE("another user is told that a killed writer's database needs its owner") {
  const TempDir dir;
  const auto file = dir / "a.db";
  make_readable(file);
  {
    Daemon daemon(file);
    daemon.submit(dir, {});
    must(daemon.store->release_lease());
  }
  // A hot journal: a writer that died within a transaction, as on a network file system.
  const pid_t writer = ::fork();
  if (writer == 0) {
    sqlite3* raw = nullptr;
    sqlite3_open(file.c_str(), &raw);
    const char* sql =
        "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN IMMEDIATE; "
        "UPDATE trials SET cause = hex(randomblob(4000)); UPDATE sweeps SET report = '{}';";
    const bool done = sqlite3_exec(raw, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
    ::_exit(done ? 0 : 1);
  }
  int status = 1;
  ::waitpid(writer, &status, 0);
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE(std::filesystem::exists(dir / "a.db-journal"));
  std::filesystem::permissions(dir / "a.db-journal", std::filesystem::perms(0644));
  CHECK(as_guest(dir.path(), [&] {
    const auto reader = Reader::open(file);
    return !reader && reader.error().what.find("Its writer was killed") != std::string::npos &&
        reader.error().what.find("shardsweep status") != std::string::npos;
  }));
  // Its owner repairs it by looking.
  CHECK(must(Reader::open(file)));
  CHECK_FALSE(std::filesystem::exists(dir / "a.db-journal"));
}
