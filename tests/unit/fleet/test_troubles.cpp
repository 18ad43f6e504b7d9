// SPDX-License-Identifier: Apache-2.0
#include "fleet/troubles.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

WorldRows with_allocation(AllocationRow row) {
  WorldRows rows;
  rows.sweeps[1] = {.id = 1, .name = "small"};
  row.id = 7;
  row.sweep = 1;
  row.created_at = 100 * second;
  rows.allocations.emplace(row.id, row);
  return rows;
}

std::vector<Trouble> told(const AllocationRow& row) {
  return submission_troubles(World(with_allocation(row)));
}

}  // namespace

TEST_CASE("a trouble keeps its beginning, and its last words") {
  Troubles troubles;
  troubles.raise(TroubleKind::database, "/db", "locked", 1 * second);
  troubles.raise(TroubleKind::database, "/db", "still locked", 9 * second);
  REQUIRE(troubles.all().size() == 1);
  CHECK(troubles.all().front().since == 1 * second);
  CHECK(troubles.all().front().detail == "still locked");
  CHECK(troubles.all().front().times == 2);
  troubles.clear(TroubleKind::database, "/db");
  CHECK(troubles.all().empty());
}

TEST_CASE("a full disk that becomes read-only is one trouble, not two") {
  Troubles troubles;
  troubles.set_storage("/home", StorageFault{StorageProblem::full, "No space left"}, second);
  CHECK(troubles.storage_fails());
  troubles.set_storage("/home", StorageFault{StorageProblem::full, "No space left"}, 5 * second);
  CHECK(troubles.all().front().since == second);
  troubles.set_storage("/home", StorageFault{StorageProblem::read_only, "Read-only"}, 6 * second);
  REQUIRE(troubles.all().size() == 1);
  CHECK(troubles.all().front().kind == TroubleKind::read_only);
  troubles.set_storage("/home", std::nullopt, 7 * second);
  CHECK_FALSE(troubles.storage_fails());
}

TEST_CASE("a sweep whose file can't be read is a trouble while it is active and can't be read") {
  WorldRows rows;
  rows.sweeps[1] = {.id = 1, .name = "small"};
  rows.sweeps[2] = {.id = 2, .name = "over", .state = SweepState::cancelled};
  const World world(std::move(rows));
  Troubles troubles;
  troubles.set_of_sweeps(
      TroubleKind::unloaded, world, {{"small", "'program'"}, {"over", "'program'"}}, second);
  troubles.set_of_sweeps(TroubleKind::unloaded, world, {{"small", "'program'"}}, 5 * second);
  REQUIRE(troubles.shown(5 * second).size() == 1);
  CHECK(
      troubles.all().front() == Trouble{TroubleKind::unloaded, "small", "'program'", second, 1, 0});
  CHECK(concerns(troubles.all().front(), "small"));
  CHECK_FALSE(concerns(troubles.all().front(), "other"));
  troubles.set_of_sweeps(TroubleKind::unloaded, world, {}, 6 * second);
  CHECK(troubles.all().empty());
}

TEST_CASE("one look without an answer is not told, a silence of seconds is") {
  Troubles troubles;
  troubles.raise(TroubleKind::scheduler, "slurm", "no answer", 10 * second);
  CHECK(troubles.shown(11 * second).empty());
  CHECK(troubles.shown(14 * second).size() == 1);
}

TEST_CASE("submissions that are put off are told with their reason and number") {
  AllocationRow row;
  row.deferrals = 3;
  row.detail = "QOSMaxSubmitJobPerUserLimit";
  auto all = told(row);
  REQUIRE(all.size() == 1);
  CHECK(all.front() ==
      Trouble{TroubleKind::deferred, "small", "QOSMaxSubmitJobPerUserLimit", 100 * second, 3, 1});
  row.submission = Submission::accepted;
  CHECK(told(row).empty());
  row.submission = Submission::unknown;
  CHECK(told(row).front().kind == TroubleKind::unanswered);
  row.draining = true;
  CHECK(told(row).empty());
}

TEST_CASE("a submission that the scheduler does not answer is told after half a minute") {
  AllocationRow row;
  Troubles troubles;
  troubles.set_submissions(World(with_allocation(row)));
  CHECK(troubles.shown(129 * second).empty());
  const auto shown = troubles.shown(130 * second);
  REQUIRE(shown.size() == 1);
  CHECK(shown.front() == Trouble{TroubleKind::submitting, "small", "", 100 * second, 0, 1});
  CHECK(concerns(shown.front(), "small"));
  row.submission = Submission::accepted;
  troubles.set_submissions(World(with_allocation(row)));
  CHECK(troubles.shown(130 * second).empty());
}

TEST_CASE("a refusal is told until its sweep pauses, which tells the reason itself") {
  Troubles troubles;
  World world(with_allocation({.submission = Submission::accepted}));
  troubles.raise(TroubleKind::refused, "small", "Invalid account", second);
  troubles.set_submissions(world);
  CHECK(troubles.all().size() == 1);
  world.edit(*world.sweep(1))->state = SweepState::paused;
  troubles.set_submissions(world);
  CHECK(troubles.all().empty());
}

TEST_CASE("a job without a lead, and a lead that writes nothing, are told with since when") {
  AllocationRow row;
  row.created_at = 1'000'000;
  row.submission = Submission::accepted;
  row.job_state = JobState::running;
  row.running_since = 5'000'000;
  Troubles troubles;
  troubles.set_submissions(World(with_allocation(row)));
  CHECK(troubles.shown(30'000'000).empty());  // a lead takes seconds
  auto shown = troubles.shown(65'000'000);
  REQUIRE(shown.size() == 1);
  CHECK(shown.front().kind == TroubleKind::unclaimed);
  CHECK(shown.front().since == 5'000'000);
  row.claimed_at = 70'000'000;
  row.quiet_since = 90'000'000;
  troubles.set_submissions(World(with_allocation(row)));
  CHECK(troubles.shown(109'000'000).empty());  // the next line is due
  shown = troubles.shown(110'000'000);
  REQUIRE(shown.size() == 1);
  CHECK(shown.front().kind == TroubleKind::silent);
  CHECK(shown.front().since == 90'000'000);
  row.quiet_since = 0;
  troubles.set_submissions(World(with_allocation(row)));
  CHECK(troubles.shown(91'000'000).empty());
}
