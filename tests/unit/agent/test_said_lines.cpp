// SPDX-License-Identifier: Apache-2.0
#include "agent/lead.hpp"
#include "tools/lib/small_disk.hpp"

#include <shardsweep/clock.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace shardsweep;

TEST_CASE("lines that a full disk does not take are written when it does, none is lost") {
  const test::SmallDisk disk("64k");
  if (!disk.mounted()) {
    MESSAGE("skipped: mounting needs root");
    return;
  }
  const SystemClock clock;
  const agent::Log log(clock, "test");
  const auto path = disk.path() / "from_lead";
  auto file = LineWriter::open(path);
  REQUIRE(file);
  agent::SaidLines said(path, std::move(*file));
  disk.fill();
  std::vector<std::string> lines;
  // Longer than the page that the file has: one of them is torn in the middle.
  for (int i = 0; i < 20; ++i) {
    lines.push_back(std::to_string(i) + std::string(700, 'x') + ";");
    said.say(lines.back(), true, 100, log);
  }
  CHECK_FALSE(said.all_written());
  said.step(100.5, log);  // not yet again
  said.step(102, log);
  CHECK_FALSE(said.all_written());
  disk.empty();
  said.step(104, log);
  CHECK(said.all_written());
  LineReader reader(path);
  const auto read = reader.look();
  REQUIRE(read);
  std::vector<std::string> whole;
  for (const std::string& line : *read) {
    if (line.ends_with(";")) whole.push_back(line);
  }
  CHECK(whole == lines);
}
