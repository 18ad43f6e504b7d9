// SPDX-License-Identifier: Apache-2.0
#include "agent/storage_watch.hpp"
#include "unit/folder.hpp"

#include <shardsweep/clock.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <ostream>
#include <string>

using namespace shardsweep;

TEST_CASE("a failed attempt's files are there, are gone, or nobody can say") {
  const test::Folder folder;
  const SystemClock clock;
  const agent::Log log(clock, "test");
  const agent::AttemptHere here{
      .node = {}, .clock = clock, .log = log, .spec = {}, .paths = {folder.path()}};
  const auto spec = here.paths.spec();
  folder.write(spec.filename(), "{}");
  CHECK(agent::StorageWatch(here).judge().empty());
  std::filesystem::remove(spec);
  CHECK(agent::StorageWatch(here).judge().find("deleted while it ran") != std::string::npos);
  std::filesystem::create_symlink(spec.filename(), spec);  // it can't be seen
  const std::string why = agent::StorageWatch(here).judge();
  CAPTURE(why);
  CHECK(why.find("cannot look for") != std::string::npos);
  CHECK(why.find("gone") == std::string::npos);
}
