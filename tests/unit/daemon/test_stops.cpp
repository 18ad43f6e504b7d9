// SPDX-License-Identifier: Apache-2.0
// A daemon that contradicts itself: what it leaves, and what the next ones make of it.
#include "unit/daemon/daemon_case.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/stop_report.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct Stopping : Case {
  using Case::Case;
  /// The next daemon's first pass. What it said at its end; empty: it goes on.
  std::string life() {
    start();
    std::string why;
    try {
      tick();
    } catch (const Violation& violation) {
      why = violation.what();
      die();
    }
    return why;
  }
  std::vector<std::string> reports() {
    std::vector<std::string> files;
    if (!std::filesystem::exists(home.faults())) return files;
    for (const auto& entry : std::filesystem::directory_iterator(home.faults())) {
      if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::string rows() {
    return sql(
        "SELECT (SELECT group_concat(id || state || ifnull(outcome, '') || attempts) "
        "FROM trials) || (SELECT group_concat(id || state || counted) FROM attempts) || "
        "(SELECT group_concat(id || state || from_lead_n) FROM allocations) || (SELECT "
        "group_concat(id || state) FROM sweeps) || (SELECT count(*) FROM measurements)");
  }
  /// A trial waits, says its row, while its attempt is on its way: no table of moves leads
  /// there.
  void tear() { reader().execute("UPDATE trials SET state = 'planned' WHERE id = 1"); }
  void mend() { reader().execute("UPDATE trials SET state = 'queued' WHERE id = 1"); }
};

}  // namespace

TEST_CASE("a daemon that contradicts itself stores nothing and leaves a report") {
  Stopping c;
  c.die();
  c.tear();
  const std::string before = c.rows();
  const std::string why = c.life();
  CHECK(why.find("defect in itself at engine/fleet/") != std::string::npos);
  CHECK(c.rows() == before);
  REQUIRE(c.reports().size() == 1);
  CHECK(why.find(c.reports()[0]) != std::string::npos);
  const std::string report = must(read_file(c.reports()[0]));
  for (const char* part : {"place      engine/fleet/", "values     row.id = 1", "sweep      a (1)",
           "version    shardsweep ", "pass 0: read: "})
    CHECK_MESSAGE(report.find(part) != std::string::npos, part, " is missing in ", report);
  // The cause is gone: the next daemon ends the sweep, and knows of the stop.
  c.mend();
  CHECK(c.life() == "");
  CHECK(c.event("stopped").find(c.reports()[0]) != std::string::npos);
  c.complete();
  CHECK(c.trials() == "completed completed");
  CHECK(c.count("attempts WHERE counted = 1") == 2);
  CHECK(c.count("events WHERE kind = 'stopped'") == 1);
  CHECK(untold_stops(c.home).empty());
}

TEST_CASE("a sweep that stops two daemons at one place is held apart, and the others go on") {
  Stopping c;
  c.die();
  c.tear();
  const std::string first = c.life();
  CHECK(first != "");
  const std::string second = c.life();
  CHECK(second != "");
  CHECK(c.reports().size() == 2);
  const std::string before = c.trials();
  CHECK(c.life() == "");
  CHECK(c.trials() == before);
  REQUIRE(c.status().state == "paused");
  CHECK(c.status().waiting.find("shardsweep stopped twice at engine/fleet/") != std::string::npos);
  CHECK(c.status().waiting.find(c.reports()[1]) != std::string::npos);
  // Its lead ends what it has and leaves; nobody reads that yet.
  PlayedSweep other = two;
  other.name = "b";
  c.submit(other);
  c.complete();
  CHECK(c.trials("b") == "completed completed");
  CHECK(c.trials("a") == before);
  c.mend();
  (void)c.ask(Verb::resume, {"a"});
  c.complete();
  CHECK(c.trials("a") == "completed completed");
  CHECK(c.count("attempts WHERE counted = 1") == 4);
  CHECK(c.count("measurements") == 4);
}

TEST_CASE("resume is one more try, and the next stop holds the sweep apart again") {
  Stopping c;
  c.die();
  c.tear();
  const std::string before = c.trials();
  CHECK(c.life() != "");
  CHECK(c.life() != "");
  CHECK(c.life() == "");
  CHECK(c.status().state == "paused");
  CHECK_THROWS_AS((void)c.ask(Verb::resume, {"a"}), Violation);
  c.die();
  CHECK(c.reports().size() == 3);
  CHECK(c.life() == "");
  CHECK(c.status().state == "paused");
  CHECK(c.status().waiting.find("stopped 3 times at engine/fleet/") != std::string::npos);
  CHECK(c.trials("a") == before);
}

TEST_CASE("an exception that nobody expected ends a daemon in the same way") {
  Stopping c;
  c.store.mistake_in_commit = [](std::span<const Change>) -> MortalStore::Tampered {
    throw std::out_of_range("nobody expects this");
  };
  const std::string before = c.rows();
  const auto id = must(post_request(c.home, {.verb = Verb::pause, .names = {"a"}}, 1));
  CHECK(c.life().find("defect in itself at engine/daemon/") != std::string::npos);
  CHECK(c.rows() == before);
  REQUIRE(c.reports().size() == 1);
  CHECK(must(read_file(c.reports()[0])).find("nobody expects this") != std::string::npos);
  // What was asked for is refused, once, or no daemon would come past it.
  const auto answer = must(take_answer(c.home, id));
  REQUIRE(answer);
  REQUIRE(answer->fault);
  CHECK(answer->fault->kind == FaultKind::internal);
  c.store.mistake_in_commit = nullptr;
  CHECK(c.life() == "");
  c.complete();
  CHECK(c.trials() == "completed completed");
}
