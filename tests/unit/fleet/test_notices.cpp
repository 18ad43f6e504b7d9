// SPDX-License-Identifier: Apache-2.0
#include "fleet/notices.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr Timestamp minute = 60'000'000;

struct Told {
  Case c;
  Watcher watcher;
  Timestamp now = noon;

  std::vector<Notice> take(const std::vector<Change>& committed = {}) {
    watcher.see(c.world, committed, now);
    return watcher.take(c.world, c.policy, now);
  }
};

}  // namespace

TEST_CASE("the end of a sweep is told once and only where it was seen to run") {
  Told t;
  CHECK(t.take().empty());
  t.c.trial(1, 1);
  CHECK(t.take().empty());
  t.c.rows.trials[1].state = State::ended;
  const auto notices = t.take();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].event == NotifyEvent::sweep_ended);
  CHECK(notices[0].sweep == "s");
  CHECK(notices[0].text == "sweep 's' has ended");
  CHECK(t.take().empty());
}

TEST_CASE("a node that is excluded and a sweep that the daemon pauses are told") {
  Told t;
  const auto notices =
      t.take({AddEvent{.kind = EventKind::node_quarantined, .detail = "n3: lost: NODE_FAIL"},
          AddEvent{.sweep = 1, .kind = EventKind::paused, .detail = "paused: 3 allocations failed"},
          AddEvent{.sweep = 1, .kind = EventKind::pause, .detail = "somebody asked"}});
  REQUIRE(notices.size() == 2);
  CHECK(notices[0].text == "node n3: lost: NODE_FAIL");
  CHECK(notices[0].event == NotifyEvent::node_quarantined);
  CHECK(notices[1].text == "sweep 's' paused: 3 allocations failed");
  CHECK(notices[1].event == NotifyEvent::stalled);
}

TEST_CASE("a sweep that holds nodes and gets nowhere is told once until it moves") {
  Told t;
  t.c.trial(1, 1);
  t.c.decide();
  CHECK(t.take().empty());
  t.now += static_cast<Timestamp>(2 * t.c.policy.stall_s * 1e6);
  CHECK(t.take().empty());  // it waits in a queue
  t.c.line(Claimed{.host = "h"});
  CHECK(t.take().empty());
  t.now += static_cast<Timestamp>(t.c.policy.stall_s * 1e6) + 1;
  const auto notices = t.take();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].text == "sweep 's' holds nodes, but no attempt started or ended for 180 min");
  t.now += minute;
  CHECK(t.take().empty());
  CHECK(t.take({PutAttempt{.row = t.c.attempt(1)}}).empty());
  t.now += static_cast<Timestamp>(t.c.policy.stall_s * 1e6) + 1;
  CHECK(t.take().size() == 1);
}

TEST_CASE("a scheduler that does not answer is told and so is its answer") {
  Told t;
  t.watcher.look_failed("squeue: timed out", t.now);
  CHECK(t.take().empty());
  t.now += 11 * minute;
  t.watcher.look_failed("squeue: timed out", t.now);
  const auto notices = t.take();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].event == NotifyEvent::blind);
  CHECK(notices[0].text == "the scheduler has not answered for 11 min: squeue: timed out");
  CHECK(t.take().empty());
  t.now += minute;
  t.watcher.look_succeeded(t.now);
  CHECK(t.take().at(0).text == "the scheduler answers again after 12 min");
  // A short gap is nothing.
  t.watcher.look_failed("x", t.now);
  t.watcher.look_succeeded(t.now + minute);
  CHECK(t.take().empty());
}

TEST_CASE("what is told goes over https or stays on this machine") {
  for (const char* good : {"https://hooks.example/x", "http://127.0.0.1:8080/x", "http://localhost",
           "http://[::1]:99/x"})
    CHECK(keeps_secrets(good));
  for (const char* bad : {"http://hooks.example/x", "http://127.0.0.1.example/",
           "http://localhost.example", "http://localhost@hooks.example/", "https://", "https:///x",
           "ftp://localhost", "", "http://", "http://[::2]/", "file:///etc/passwd"})
    CHECK_FALSE(keeps_secrets(bad));
}
