// SPDX-License-Identifier: Apache-2.0
#include "../folder.hpp"

#include <shardsweep/home.hpp>

#include <doctest/doctest.h>

#include <sys/utsname.h>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

std::string this_machine() {
  utsname about{};
  REQUIRE(::uname(&about) == 0);
  return about.machine;
}

}  // namespace

TEST_CASE("programs lie beside each other, presets in share/ or beside them") {
  const Folder folder;
  const auto bin = folder.path() / "bin";
  folder.write("bin/shardsweep-agent", "");
  const auto bare = installation_of(bin / "shardsweep");
  CHECK(bare.agent == bin / "shardsweep-agent");
  CHECK(bare.runner == bin / "shardbench-cpu");
  CHECK(bare.presets == folder.path() / "share/shardsweep/sweeps");

  folder.write("bin/sweeps/models/mine.yaml", "");
  CHECK(installation_of(bin / "shardsweep").presets == bin / "sweeps");
  folder.write("share/shardsweep/templates/lane.sbatch", "");
  CHECK(installation_of(bin / "shardsweep").templates ==
      folder.path() / "share/shardsweep/templates");
}

TEST_CASE("in a folder for one kind of machine, others are called by the scripts that choose") {
  const Folder folder;
  const auto bin = folder.path() / "bin";
  const auto mine = bin / this_machine();
  folder.write("bin/" + this_machine() + "/shardsweep-agent", "");
  // Without the scripts it is a folder like any other.
  CHECK(installation_of(mine / "shardsweep").agent == mine / "shardsweep-agent");

  folder.write("bin/shardsweep-agent", "");
  folder.write("sweeps/models/mine.yaml", "");
  const auto found = installation_of(mine / "shardsweep");
  CHECK(found.shardsweep == bin / "shardsweep");
  CHECK(found.agent == bin / "shardsweep-agent");
  CHECK(found.runner == bin / "shardbench-cpu");
  CHECK(found.presets == folder.path() / "sweeps");
}

TEST_CASE("a tarball whose one shared folder is the explorer's has its other files beside it") {
  const Folder folder;
  const auto mine = folder.path() / "bin" / this_machine();
  folder.write("bin/" + this_machine() + "/shardsweep-agent", "");
  folder.write("bin/shardsweep-agent", "");
  folder.write("explorer/planner.js", "");
  // `explore` looks beside the presets.
  CHECK(installation_of(mine / "shardsweep").presets == folder.path() / "sweeps");
}
