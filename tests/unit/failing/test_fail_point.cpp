// SPDX-License-Identifier: Apache-2.0
// Fail points themselves, by children that are there.
#include "tools/lib/wait_until.hpp"
#include "unit/failing/child.hpp"
#include "unit/folder.hpp"

#include <shardsweep/fail_point.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

constexpr int passed = 7;  // of a child that has come through

/// Is at one point, and then at another one.
int at_both() {
  fail_point("daemon.commit");
  fail_point("daemon.committed");
  return passed;
}

/// The error of the first point, as an exit code.
int told_error() {
  return fail_point_error("daemon.commit");
}

struct PointCase {
  Folder folder;
  FailPoints points{folder.path() / "points"};
  [[nodiscard]] int run(const std::string& armed, const std::function<int()>& body = at_both) {
    return run_at(points, armed, body);
  }
  [[nodiscard]] std::string errors_of(const std::string& armed) {
    const auto file = folder.path() / "errors";
    const int code = run(armed, [&] {
      ::dup2(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), STDERR_FILENO);
      return at_both();
    });
    CHECK(code == 2);
    return folder.read("errors");
  }
};

}  // namespace

TEST_CASE("without the variable nothing happens, and no file is made") {
  PointCase place;
  ::unsetenv("SHARDSWEEP_FAIL_AT");
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("SHARDSWEEP_FAIL_DIR", place.folder.path().c_str(), 1);
    ::_exit(at_both());
  }
  CHECK(exit_of(child) == passed);
  CHECK(place.run("") == passed);
  CHECK(std::filesystem::is_empty(place.points.folder()));
}

TEST_CASE("a process ends, dies or stands still at its point, and its file has its pid") {
  PointCase place;
  SUBCASE("exit") {
    CHECK(place.run("daemon.commit:exit") == 70);
    CHECK(place.points.at("daemon.commit") > 0);
  }
  SUBCASE("kill") {
    const pid_t child = start_at(place.points, "daemon.committed:kill", at_both);
    CHECK(exit_of(child) == -SIGKILL);
    CHECK(place.points.at("daemon.committed") == child);
    CHECK(place.points.at("daemon.commit") == 0);
  }
  SUBCASE("stop") {
    const pid_t child = start_at(place.points, "daemon.commit:stop", at_both);
    int status = 0;
    REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
    CHECK(WIFSTOPPED(status));
    CHECK(place.points.at("daemon.commit") == child);
    ::kill(child, SIGCONT);
    CHECK(exit_of(child) == passed);
  }
}

TEST_CASE("a handler or a destructor has no part in an exit") {
  PointCase place;
  const auto file = place.folder.path() / "left";
  CHECK(place.run("daemon.commit:exit", [&] {
    static std::string left;
    left = file.string();
    std::atexit([] { std::ofstream(left).put('x'); });
    fail_point("daemon.commit");
    return 0;
  }) == 70);
  CHECK(!std::filesystem::exists(file));
}

TEST_CASE("the next system call is taken to have failed") {
  PointCase place;
  CHECK(place.run("daemon.commit:enospc", told_error) == ENOSPC);
  CHECK(place.points.at("daemon.commit") > 0);
  CHECK(FailPoints(place.folder.path() / "more").at("daemon.commit") == 0);
  CHECK(run_at(FailPoints(place.folder.path() / "more"), "daemon.commit:eio", told_error) == EIO);
  // Where no call follows there is none to fail.
  CHECK(run_at(FailPoints(place.folder.path() / "third"), "daemon.commit:eio", at_both) == passed);
}

TEST_CASE("wait-for-file holds a process until the test has looked") {
  PointCase place;
  const auto after = place.folder.path() / "after";
  const pid_t child = start_at(place.points, "daemon.commit:wait-for-file", [&] {
    fail_point("daemon.commit");
    std::ofstream(after).put('x');
    return passed;
  });
  REQUIRE(wait_until([&] { return place.points.at("daemon.commit") == child; }));
  CHECK(!std::filesystem::exists(after));
  CHECK(::waitpid(child, nullptr, WNOHANG) == 0);
  place.points.go_on("daemon.commit");
  CHECK(exit_of(child) == passed);
  CHECK(std::filesystem::exists(after));
}

TEST_CASE("a count names the time at which a process is there") {
  PointCase place;
  const auto passes = place.folder.path() / "passes";
  const auto three_times = [&] {
    for (int i = 1; i <= 3; ++i) {
      std::ofstream(passes) << i;
      fail_point("daemon.commit");
    }
    return passed;
  };
  CHECK(place.run("daemon.commit:4:exit", three_times) == passed);
  CHECK(place.points.at("daemon.commit") == 0);
  CHECK(place.run("daemon.commit:2:exit", three_times) == 70);
  CHECK(place.folder.read("passes") == "2");
}

TEST_CASE("of several processes and passes one acts, once") {
  PointCase place;
  int ended = 0;
  std::array<pid_t, 8> children{};
  for (pid_t& child : children)
    child = start_at(place.points, "daemon.commit:exit", at_both);
  for (const pid_t child : children) {
    const int code = exit_of(child);
    CHECK((code == 70 || code == passed));
    if (code != 70) continue;
    ++ended;
    CHECK(place.points.at("daemon.commit") == child);
  }
  CHECK(ended == 1);
  CHECK(place.run("daemon.commit:exit") == passed);
}

TEST_CASE("points are independent of each other") {
  PointCase place;
  const std::string both = "daemon.commit:wait-for-file,daemon.committed:kill";
  const pid_t child = start_at(place.points, both, at_both);
  REQUIRE(wait_until([&] { return place.points.at("daemon.commit") == child; }));
  CHECK(place.points.at("daemon.committed") == 0);
  place.points.go_on("daemon.commit");
  CHECK(exit_of(child) == -SIGKILL);
}

TEST_CASE("what names no point, action or count is refused, before anything is done") {
  PointCase place;
  CHECK(place.errors_of("daemon.comit:kill") ==
      "SHARDSWEEP_FAIL_AT: no such point: 'daemon.comit'\n");
  CHECK(place.errors_of("daemon.commit:explode") ==
      "SHARDSWEEP_FAIL_AT: no such action: 'explode'\n");
  CHECK(place.errors_of("daemon.commit") ==
      "SHARDSWEEP_FAIL_AT: not NAME[:n]:ACTION: 'daemon.commit'\n");
  for (const char* count : {"0", "-1", "2x", "", "99999999999"})
    CHECK(place.errors_of(std::string("daemon.commit:") + count + ":kill")
              .starts_with("SHARDSWEEP_FAIL_AT: not a count: 'daemon.commit:"));
  CHECK(place.errors_of("daemon.committed:2:stop,nothing:kill") ==
      "SHARDSWEEP_FAIL_AT: no such point: 'nothing'\n");
  CHECK(std::filesystem::is_empty(place.points.folder()));
}

TEST_CASE("without a folder nobody could tell that a point was reached") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    ::setenv("SHARDSWEEP_FAIL_AT", "daemon.commit:kill", 1);
    ::unsetenv("SHARDSWEEP_FAIL_DIR");
    ::_exit(at_both());
  }
  CHECK(exit_of(child) == 2);
}

TEST_CASE("names are unique, begin with a program or room, and say which window they are") {
  std::set<std::string_view> names;
  for (const auto& [name, window] : fail_points) {
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK(std::count(name.begin(), name.end(), '.') == 1);
    CHECK(name.front() != '.');
    CHECK(name.back() != '.');
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.") == name.npos);
    CHECK(window.size() > 10);
  }
}
