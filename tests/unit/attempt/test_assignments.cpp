// SPDX-License-Identifier: Apache-2.0
#include "attempt/assignments.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

Assign assign(AttemptId id, const std::string& lane = "", int micro_batch = 1) {
  return {id, "t", "/d", "n", lane, micro_batch};
}

AssignmentNews tell(Assignments& all, ToLeadBody body, std::int64_t epoch = 1) {
  return all.apply(ToLead{1, epoch, std::move(body)});
}

}  // namespace

TEST_CASE("assignments come out in their order and once") {
  Assignments all;
  for (const AttemptId id : {3, 1, 2, 1, 3})
    CHECK(tell(all, assign(id)).revoked.empty());
  for (const AttemptId id : {3, 1, 2})
    CHECK(all.next()->assign.attempt == id);
  CHECK(!all.next());
}

TEST_CASE("what waits is revoked and what runs is not") {
  Assignments all;
  (void)tell(all, assign(1));
  (void)tell(all, assign(2));
  CHECK(all.next()->assign.attempt == 1);
  CHECK(tell(all, Revoke{1}).revoked.empty());
  CHECK(tell(all, Revoke{2}).revoked == std::vector<AttemptId>{2});
  CHECK(tell(all, Revoke{2}).revoked.empty());
  CHECK(!all.next());
}

TEST_CASE("what is revoked before it is assigned is never started") {
  Assignments all;
  CHECK(tell(all, Revoke{7}).revoked == std::vector<AttemptId>{7});
  (void)tell(all, assign(7));
  CHECK(all.empty());
}

TEST_CASE("cancel ends what runs and what waits and what comes later") {
  Assignments all;
  (void)tell(all, assign(1));
  (void)tell(all, assign(2));
  (void)all.next();
  CHECK(tell(all, Cancel{1, "why"}).end_running == Cancel{1, "why"});
  const auto waiting = tell(all, Cancel{2, "why"}).cancelled;
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].first.attempt == 2);
  CHECK(tell(all, Cancel{3, "early"}).cancelled.empty());
  const auto late = tell(all, assign(3)).cancelled;
  REQUIRE(late.size() == 1);
  CHECK(late[0].second == "early");
  all.ended(assign(1), Outcome::cancelled);
  CHECK(!tell(all, Cancel{1, "again"}).end_running);
}

TEST_CASE("a daemon that was replaced is not heard any more") {
  Assignments all;
  (void)tell(all, assign(1), 5);
  (void)tell(all, assign(2), 4);
  CHECK(tell(all, Drain{}, 4).revoked.empty());
  CHECK(!all.draining());
  (void)tell(all, assign(3), 6);
  CHECK(all.next()->assign.attempt == 1);
  CHECK(all.next()->assign.attempt == 3);
}

TEST_CASE("a drain gives back what waits and what still comes") {
  Assignments all;
  (void)tell(all, assign(1));
  (void)tell(all, assign(2));
  CHECK(tell(all, Drain{}).revoked == std::vector<AttemptId>{1, 2});
  CHECK(tell(all, assign(3)).revoked == std::vector<AttemptId>{3});
  CHECK(all.empty());
}

TEST_CASE("what can't end in time is given back and the next one that can is started") {
  Assignments all;
  for (const auto& [id, predicted_s] : {std::pair{1, 50.0}, {2, 10.0}, {3, 0.0}, {4, 20.0}}) {
    Assign one = assign(id);
    one.predicted_s = predicted_s;
    (void)tell(all, one);
  }
  CHECK(all.give_back_unfit({std::nullopt, 1, 0, 30}).empty());
  CHECK(all.give_back_unfit({50, 1, 0, 30}) == std::vector<AttemptId>{1, 3});
  CHECK(all.next()->assign.attempt == 2);
  CHECK(all.give_back_unfit({45, 1, 0, 30}) == std::vector<AttemptId>{4});
  CHECK(all.empty());
}

TEST_CASE("an oom skips the larger micro-batches of its lane and nothing else") {
  Assignments all;
  (void)tell(all, assign(1, "a", 4));
  all.ended(all.next()->assign, Outcome::oom);
  (void)tell(all, assign(2, "a", 8));
  (void)tell(all, assign(3, "a", 4));
  (void)tell(all, assign(4, "a", 2));
  (void)tell(all, assign(5, "b", 8));
  CHECK(all.next()->skipped_because == "micro_batch 4 ran out of memory (t)");
  for (int i = 0; i < 3; ++i)
    CHECK(all.next()->skipped_because.empty());
}

TEST_CASE("the smallest micro-batch that ran out of memory counts") {
  Assignments all;
  all.ended(assign(1, "a", 8), Outcome::oom);
  all.ended(assign(2, "a", 4), Outcome::oom);
  all.ended(assign(3, "a", 16), Outcome::oom);
  all.ended(assign(4, "", 1), Outcome::oom);
  (void)tell(all, assign(5, "a", 8));
  (void)tell(all, assign(6, "", 8));
  CHECK(all.next()->skipped_because.starts_with("micro_batch 4 "));
  CHECK(all.next()->skipped_because.empty());
}
