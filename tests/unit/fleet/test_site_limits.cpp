// SPDX-License-Identifier: Apache-2.0
// What a sweep leaves to others, by what decide() does and says.
#include "fleet/allocation.hpp"
#include "sweep/opening_hours.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr std::int32_t hour = 60;

/// A sweep on Slurm, on a partition of eight nodes.
struct Site : Case {
  Site() {
    rows.sweeps.at(1).backend = Backend::slurm;
    facts().backend = Backend::slurm;
    facts().policy.lane_length = 1;  // an allocation per trial
    facts().policy.max_allocations = 100;
    facts().site.default_partition = "main";
    facts().site.partitions = {{"main", {8, 0}}, {"big", {64, 0}}};
    facts().site.partitions_known = facts().site.others_known = true;
  }
  SweepFacts& facts() { return input.sweeps[1]; }
  Policy& limits() { return facts().policy; }
  void trials(std::int32_t nodes, int count) {
    for (int i = 0; i < count; ++i) {
      const TrialId id = static_cast<TrialId>(rows.trials.size()) + 1;
      trial(id, 1, "lane" + std::to_string(id)).nodes = nodes;
    }
  }
  void hours(std::string_view text, std::int32_t minute) {
    limits().hours = *parse_opening_hours(text);
    input.week_minute = minute;
  }
  std::size_t made() {
    decide();
    return rows.allocations.size();
  }
  const std::string& held() { return rows.sweeps.at(1).held; }
  AllocationRow& claimed() {
    allocation().claimed_at = noon;
    allocation().state = State::running;
    allocation().job_state = JobState::running;
    return allocation();
  }
};

}  // namespace

TEST_CASE("a limit on a partition that nobody names holds the sweep and says so") {
  for (const bool share : {true, false}) {
    Site s;
    s.facts().site.default_partition.clear();
    if (share) s.limits().partition_share = 50;
    if (!share) s.limits().yield = static_cast<std::int64_t>(Yield::hold);
    s.trials(1, 1);
    CHECK(s.made() == 0);
    CHECK(s.held() ==
        std::string(share ? "limits.partition_share" : "limits.yield") +
            ": Slurm does not say which partition is the default one. Name a "
            "partition in the site file");
    s.facts().partition = {{.value = "main"}};
    CHECK(s.made() == 1);
  }
}

TEST_CASE("a job that its partition can never hold is not submitted") {
  Site s;
  s.trials(9, 1);
  CHECK(s.made() == 0);
  CHECK(s.held().find("a trial needs 9 nodes, and partition 'main' has 8") != std::string::npos);
  s.facts().partition = {{1, 100, "main,big"}};  // it may start in either
  CHECK(s.made() == 1);
  Site unknown;
  unknown.facts().partition = {{1, 100, "elsewhere"}};
  unknown.trials(9, 1);
  CHECK(unknown.made() == 1);
}

TEST_CASE("only those wait that their partition can't hold") {
  Site s;
  s.trials(9, 1);
  s.trials(2, 1);
  CHECK(s.made() == 1);
  CHECK(s.allocation().nodes == 2);
  CHECK(s.held().starts_with("a trial needs 9 nodes, and partition 'main' has 8: "));
}

TEST_CASE("GPUs and memory of a node count as what the site asks for") {
  Site s;
  s.facts().site.partitions.at("main").alike = {{6, 8, 64000}, {2, 0, 256000}};
  s.facts().gpus = {{.value = "gpu:4"}};
  s.trials(7, 1);
  CHECK(s.made() == 0);
  CHECK(s.held().starts_with(
      "a trial needs 7 nodes of 4 GPUs, and partition 'main' has 6 such nodes: "));
  s.facts().memory = {{.from = 7, .value = "100G"}};
  s.decide();
  CHECK(
      s.held().starts_with("a trial needs 7 nodes of 4 GPUs with 100.0 GiB of memory, and "
                           "partition 'main' has 0 such nodes: "));
  s.facts().gpus.clear();
  s.facts().memory.clear();
  CHECK(s.made() == 1);
}

TEST_CASE("what takes longer than its partition gives waits alone, and the others' job fits") {
  Site s;
  s.limits().lane_length = 0;
  s.facts().site.partitions.at("main").longest_s = 900;
  s.trials(1, 3);
  s.rows.trials.at(1).predicted_s = 3600;
  CHECK(s.made() == 1);
  CHECK(s.allocation().time_limit_s == 900);
  CHECK(s.rows.trials.at(1).state == State::planned);
  CHECK(s.rows.trials.at(2).state == State::queued);
  CHECK(s.rows.trials.at(3).state == State::queued);
  CHECK(
      s.held().find(" of wall time, but partition 'main' allows 15 min 0 s") != std::string::npos);
  s.facts().site.partitions.at("main").longest_s = 0;
  s.decide();
  CHECK(s.rows.trials.at(1).state == State::queued);
  CHECK(s.held().empty());
}

TEST_CASE("a share of a partition is not exceeded") {
  Site s;
  s.limits().partition_share = 50;
  s.trials(1, 10);
  CHECK(s.made() == 4);
  CHECK(s.held() ==
      "limits.partition_share: 4 nodes of 'main' may be used and 4 are requested already; a "
      "trial needs 1");
  CHECK(std::any_of(s.world.changes().begin(), s.world.changes().end(), [&](const Change& change) {
    const auto* sweep = std::get_if<SetSweep>(&change);
    return sweep != nullptr && sweep->row.held == s.held();
  }));
}

TEST_CASE("what can never fit into the share says so") {
  Site s;
  s.limits().partition_share = 50;
  s.trials(8, 1);
  CHECK(s.made() == 0);
  CHECK(
      s.held() == "limits.partition_share: 50% of the 8 nodes of 'main' is 4, but a trial needs 8");
}

TEST_CASE("a share is of the partition that the site names for the node count") {
  Site s;
  s.limits().partition_share = 50;
  s.facts().partition = {{.from = 1, .to = 4, .value = "main"}, {.from = 5, .value = "big"}};
  s.trials(8, 10);
  CHECK(s.made() == 4);
  SUBCASE("one that Slurm does not have is named") {
    s.facts().partition = {{.value = "gpu"}};
    s.trials(1, 1);
    s.decide();
    CHECK(s.held() == "limits.partition_share: Slurm names no partition 'gpu'");
  }
}

TEST_CASE("of several partitions the smallest counts") {
  Site s;
  s.limits().partition_share = 50;
  s.facts().partition = {{.value = "big,main"}};
  s.trials(8, 1);
  CHECK(s.made() == 0);
  CHECK(s.held().find("of 'main'") != std::string::npos);
}

TEST_CASE("allocations of other sweeps count into the share") {
  Site s;
  s.limits().partition_share = 50;
  AllocationRow other{.id = 90, .sweep = 7};
  other.backend = Backend::slurm;
  other.nodes = 3;
  s.rows.next_allocation = 91;
  s.rows.allocations[90] = other;  // of a paused sweep: its partition is not known
  s.trials(1, 3);
  CHECK(s.made() == 2);
  SUBCASE("but not those that are over") {
    s.rows.allocations[90].state = State::ended;
    CHECK(s.made() == 4);
  }
}

TEST_CASE("what Slurm has not said yet is not taken for leave") {
  Site s;
  s.trials(1, 1);
  SUBCASE("its first answer") {
    s.facts().site_awaited = true;
    CHECK(s.made() == 0);
    CHECK(s.held() == "Slurm is being asked for its limits");
    s.facts().site_awaited = false;
  }
  SUBCASE("sizes") {
    s.limits().partition_share = 50;
    s.facts().site.partitions_known = false;
    CHECK(s.made() == 0);
    s.facts().site.partitions_known = true;
  }
  SUBCASE("others") {
    s.limits().yield = static_cast<std::int64_t>(Yield::hold);
    s.facts().site.others_known = false;
    CHECK(s.made() == 0);
    s.facts().site.others_known = true;
  }
  CHECK(s.made() == 1);
  CHECK(s.held().empty());
}

TEST_CASE("nothing more is asked for while others wait") {
  Site s;
  s.limits().yield = static_cast<std::int64_t>(Yield::hold);
  s.trials(1, 1);
  REQUIRE(s.made() == 1);
  s.claimed();
  s.trials(1, 2);
  s.facts().site.partitions["main"].others_waiting = 2;
  CHECK(s.made() == 1);
  CHECK(s.held() == "limits.yield: 2 jobs of other users wait for nodes of 'main'");
  CHECK_FALSE(s.allocation().draining);
  SUBCASE("or who waits, waits for another partition") {
    s.facts().site.partitions["main"].others_waiting = 0;
    s.facts().site.partitions["big"].others_waiting = 9;
    CHECK(s.made() == 3);
  }
}

TEST_CASE("who drains for others gives up what runs, and keeps its place in the queue") {
  Site s;
  s.limits().lane_length = 0;
  s.limits().yield = static_cast<std::int64_t>(Yield::drain);
  s.trials(1, 3);
  s.trials(2, 3);
  REQUIRE(s.made() == 2);
  s.claimed();
  s.facts().site.partitions["main"].others_waiting = 1;
  s.decide();
  CHECK(s.allocation().draining);
  CHECK_FALSE(s.rows.allocations.at(2).draining);
}

TEST_CASE("outside its hours a sweep asks for nothing and leaves") {
  Site s;
  s.hours("20:00-08:00", 21 * hour);
  s.trials(1, 1);
  REQUIRE(s.made() == 1);
  s.claimed();
  s.trials(2, 1);
  s.input.week_minute = 32 * hour;  // Tuesday, 8:00
  CHECK(s.made() == 1);
  CHECK(s.allocation().draining);
  CHECK(s.held() == "outside limits.hours (20:00-08:00): goes on Tue 20:00");
  SUBCASE("until they begin again") {
    s.input.week_minute = 44 * hour;
    CHECK(s.made() == 2);
    CHECK(s.held().empty());
  }
}

TEST_CASE("an allocation ends before the hours do and can wait for its nodes before") {
  Site s;
  s.limits().lane_max_time_s = 4 * 3600;
  s.limits().lane_min_time_s = 4 * 3600;
  s.trials(1, 1);
  const auto time_limit_h = [&] {
    REQUIRE(s.made() == 1);
    return s.allocation().time_limit_s / 3600;
  };
  SUBCASE("with the night before it it gets what it wants") {
    s.hours("20:00-08:00", 20 * hour);
    CHECK(time_limit_h() == 4);
    CHECK(s.allocation().deadline == noon + std::int64_t{12} * 3600 * 1'000'000);
  }
  SUBCASE("else half of what is left") {
    s.hours("20:00-08:00", 28 * hour);
    CHECK(time_limit_h() == doctest::Approx(2).epsilon(0.05));
  }
  SUBCASE("and what a trial needs in any case") {
    s.hours("20:00-08:00", 32 * hour - 7);
    CHECK(time_limit_h() * 3600 == needed_time_s(10, s.limits()));
  }
  SUBCASE("but nothing that could not end") {
    s.hours("20:00-08:00", 32 * hour - 5);
    CHECK(s.made() == 0);
    CHECK(s.held() == "limits.hours end Tue 08:00: the remaining 5 min are too short");
  }
  SUBCASE("and no deadline where hours never end") {
    s.hours("00:00-24:00", 5);
    CHECK(time_limit_h() == 4);
    CHECK(s.allocation().deadline == 0);
  }
}

TEST_CASE("no more jobs than Slurm lets one have") {
  Site s;
  s.trials(1, 9);
  s.facts().site.default_account = "lab";
  SUBCASE("by account") {
    s.facts().site.accounts = {{"lab", {3, "normal"}}};
    CHECK(s.made() == 3);
    CHECK(s.held() == "you have reached your limit in Slurm: 3 jobs in the queue (account 'lab')");
  }
  SUBCASE("by QOS, whose limit takes the place of the account's") {
    s.facts().site.accounts = {{"lab", {3, "normal"}}};
    s.facts().site.most_jobs_by_qos = {{"normal", 1}, {"long", 5}};
    CHECK(s.made() == 1);
    CHECK(s.held() == "you have reached your limit in Slurm: 1 job in the queue (QOS 'normal')");
    s.facts().qos = {{.value = "long"}};
    CHECK(s.made() == 5);
  }
  SUBCASE("or none is known") {
    s.facts().site.accounts = {{"other", {3, ""}}};
    CHECK(s.made() == 9);
  }
}

TEST_CASE("hours hold on one machine too") {
  Case c;
  c.trial(1, 1);
  c.input.sweeps[1].policy.hours = *parse_opening_hours("20:00-08:00");
  c.input.week_minute = 12 * hour;
  c.decide();
  CHECK(c.rows.allocations.empty());
  CHECK(c.rows.sweeps.at(1).held == "outside limits.hours (20:00-08:00): goes on Mon 20:00");
  c.input.week_minute = 20 * hour;
  c.decide();
  CHECK(c.rows.allocations.size() == 1);
}

TEST_CASE("a daemon that is held has only to wait") {
  Site s;
  s.hours("20:00-08:00", 12 * hour);
  s.trials(1, 1);
  s.decide();
  CHECK(anything_alive(s.world));
  CHECK(only_waits(s.world, s.input.now));
}
