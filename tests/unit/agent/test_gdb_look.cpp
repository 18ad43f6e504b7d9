// SPDX-License-Identifier: Apache-2.0
// A gdb that does not come back is ended, with what it has started, when its time is over.
#include "agent/evidence.hpp"
#include "machine/processes.hpp"
#include "tools/lib/wait_until.hpp"
#include "unit/folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>

using namespace shardsweep;
using test::wait_until;

TEST_CASE("gdbs that hang are gone when they are not waited for any longer") {
  const test::Folder folder;
  const auto gdb = folder.write("bin/gdb", "#!/bin/sh\necho $$\ntail -f /dev/null\n");
  std::filesystem::permissions(gdb, std::filesystem::perms::owner_all);
  const AttemptPaths attempt{folder.path() / "attempt-1"};
  agent::GdbLook look;
  look.start(
      attempt, {{0, 1}, {3, 1}}, {"PATH=" + (folder.path() / "bin").string() + ":/usr/bin:/bin"});
  std::vector<pid_t> pids;
  for (const char* file : {"gdb.rank.0.txt", "gdb.rank.3.txt"}) {
    const auto name = std::filesystem::path("attempt-1/evidence") / file;
    pid_t pid = 0;
    REQUIRE(wait_until([&] { return (pid = std::atoi(folder.read(name).c_str())) != 0; }));
    REQUIRE(wait_until([&] { return !children_of(pid).empty(); }));
    pids.push_back(pid);
    pids.push_back(children_of(pid).front());
  }
  CHECK(!look.is_over());
  look.end();
  CHECK(look.is_over());
  for (const pid_t pid : pids)
    CHECK(wait_until([&] {
      const auto stat = process_stat(pid);
      return !stat || stat->state == 'Z';
    }));
}
