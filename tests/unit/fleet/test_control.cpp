// SPDX-License-Identifier: Apache-2.0
#include "fleet/control.hpp"
#include "fleet/nodes.hpp"
#include "unit/sweep_fixture.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr ControlTime before = ControlTime::start;
constexpr ControlTime after = ControlTime::end;

/// Sweep 1 with allocations of two nodes, 1 to 4, that have been claimed.
struct Controlled : Case {
  Controlled() {
    rows.sweeps.at(1).backend = Backend::slurm;
    for (AllocationId id = 1; id <= 4; ++id) {
      AllocationRow& row = rows.allocations[id];
      row = {.id = id, .sweep = 1, .token = std::to_string(id), .nodes = 2};
      row.claimed_at = noon;
      rows.nodes_of[id] = {"n" + std::to_string(2 * id), "n" + std::to_string(2 * id + 1)};
    }
  }
  AllocationRow& job(AllocationId id) { return rows.allocations.at(id); }
  void control(AllocationId id, ControlTime time, double rate) {
    take_control(
        fold(), policy, job(id), time, {.tokens_per_s_per_gpu = rate}, rate > 0 ? "" : "oom: full");
  }
  void probe(AllocationId id, ControlTime time, double busbw) {
    take_control(fold(), policy, job(id), time, {.busbw_bytes_per_s = busbw}, "");
  }
  double ratio(AllocationId id, ControlTime time) {
    for (const ControlRow& row : rows.controls) {
      if (row.allocation == id && row.time == time) return row.ratio;
    }
    return -1;
  }
  /// Measured in this allocation, and counted.
  void measured(AllocationId allocation, TrialId id) {
    TrialRow& row = trial(id, 1);
    row.state = State::ended;
    row.outcome = Outcome::completed;
    row.attempts = 1;
    rows.attempts[id] = {.id = id, .trial = id, .number = 1, .allocation = allocation};
    rows.attempts[id].state = State::ended;
  }
  template <class T>
  std::vector<T> of_kind() {
    std::vector<T> all;
    for (const Change& change : world.changes()) {
      if (const auto* one = std::get_if<T>(&change)) all.push_back(*one);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("a control runs before anything else and when there is no more work") {
  Controlled c;
  CHECK(control_due(c.world, c.job(1)) == before);
  c.control(1, before, 100);
  CHECK(!control_due(c.world, c.job(1)));
  c.measured(1, 7);
  CHECK(!control_due(c.world, c.job(1)));
  c.job(1).draining = true;
  CHECK(control_due(c.world, c.job(1)) == after);
  CHECK(!orders_for(c.world, c.job(1), true).drain);
  CHECK(orders_for(c.world, c.job(1), true).control == after);
  // A sweep without a control is none of it.
  CHECK(orders_for(c.world, c.job(1)).drain);
  CHECK(!orders_for(c.world, c.job(1)).control);
  c.control(1, after, 100);
  CHECK(!control_due(c.world, c.job(1)));
  CHECK(orders_for(c.world, c.job(1), true).drain);
}

TEST_CASE("no last control where nothing was measured or nobody could run it") {
  Controlled c;
  c.control(1, before, 100);
  c.job(1).draining = true;
  CHECK(!control_due(c.world, c.job(1)));  // it has measured nothing
  c.measured(1, 7);
  SUBCASE("its lead has left") {
    c.job(1).said_bye = true;
  }
  SUBCASE("its job has ended") {
    c.job(1).job_state = JobState::ended;
  }
  SUBCASE("the sweep is cancelled") {
    c.rows.sweeps.at(1).state = SweepState::cancelled;
  }
  SUBCASE("an attempt still runs") {
    c.rows.attempts[7].state = State::running;
  }
  SUBCASE("one of its nodes is out") {
    c.rows.nodes["n2"] = {.node = "n2", .state = NodeState::quarantined};
  }
  CHECK(!control_due(c.world, c.job(1)));
}

TEST_CASE("an allocation whose first control failed has no last one and a probe has none") {
  Controlled c;
  c.control(1, before, 0);
  c.measured(1, 7);
  c.job(1).draining = true;
  CHECK(!control_due(c.world, c.job(1)));
  CHECK(c.of_kind<PutControl>().at(0).row.cause == "oom: full");
  c.job(2).probe_of = "n9";
  CHECK(!control_due(c.world, c.job(2)));
}

TEST_CASE("ratios are those to the median on as many nodes, whenever it moves") {
  Controlled c;
  c.job(4).nodes = 4;
  c.control(1, before, 100);
  CHECK(c.ratio(1, before) == doctest::Approx(1));
  c.control(2, before, 110);
  CHECK(c.ratio(1, before) == doctest::Approx(100.0 / 105));
  c.control(4, before, 7);
  CHECK(c.ratio(4, before) == doctest::Approx(1));
  CHECK(c.ratio(2, before) == doctest::Approx(110.0 / 105));
  c.control(3, before, 110);
  CHECK(c.ratio(1, before) == doctest::Approx(100.0 / 110));
  // What has changed is stored, the rest is not written again; the second one's news of the
  // first took the place of what was to be stored of that.
  CHECK(c.of_kind<PutControl>().size() == 1 + 1 + 1 + 3);
}

TEST_CASE("beyond the tolerance what was measured is marked and measured once more elsewhere") {
  Controlled c;
  c.control(1, before, 100);
  c.control(2, before, 101);
  c.measured(3, 7);
  c.measured(2, 8);
  SUBCASE("slow") {
    c.control(3, after, 80);
  }
  SUBCASE("too fast to be true") {
    c.control(3, after, 130);
  }
  CHECK(c.job(3).draining);
  CHECK(control_is_off(c.world, c.policy, 3));
  CHECK(!control_is_off(c.world, c.policy, 2));
  REQUIRE(c.of_kind<MarkMeasurement>().size() == 1);
  CHECK(c.of_kind<MarkMeasurement>()[0].attempt == 7);
  CHECK(c.rows.trials[7].state == State::planned);
  CHECK(c.rows.trials[7].charged == 1);
  CHECK(c.rows.trials[8].state == State::ended);
  for (const char* node : {"n6", "n7"})
    CHECK(c.rows.nodes.at(node).evidence.at(0).kind == EvidenceKind::control);
  judge_nodes(c.fold(), c.policy);
  CHECK(nodes_out(c.world) == std::vector<std::string>{"n6", "n7"});
}

TEST_CASE("a measurement that was repeated once stays, with its mark") {
  Controlled c;
  c.control(1, before, 100);
  c.control(2, before, 101);
  c.measured(3, 7);
  c.rows.trials[7].charged = 1;
  c.control(3, after, 50);
  CHECK(c.of_kind<MarkMeasurement>().size() == 1);
  CHECK(c.rows.trials[7].state == State::ended);
  CHECK(c.rows.trials[7].outcome == Outcome::completed);
}

TEST_CASE("within the tolerance and among too few nothing is judged") {
  Controlled c;
  c.control(1, before, 100);
  c.control(2, before, 50);
  CHECK(!c.job(2).draining);
  c.control(3, before, 95);
  CHECK(!c.job(3).draining);
  // Heard twice, after a crash.
  const auto known = c.world.changes().size();
  c.control(3, before, 1);
  CHECK(c.world.changes().size() == known);
}

TEST_CASE("a lead's lines about a control are told from those about attempts") {
  Controlled c;
  AllocationRow& job = c.job(1);
  CHECK(control_time(job, control_attempt(job, after)) == after);
  CHECK(!control_time(c.job(2), control_attempt(job, after)));
  CHECK(!control_time(job, probe_attempt(job)));
  RecordsSummary records;
  records.result = AddMeasurement{};
  records.result->metrics["tokens_per_s_per_gpu"] = 120;
  const Ended ended{
      .attempt = control_attempt(job, before), .ending = {.outcome = Outcome::completed}};
  fold_line(c.fold(), c.policy, 1, {1, noon, ended}, records);
  CHECK(c.ratio(1, before) == doctest::Approx(1));
  // Given back: it is over, and work goes on.
  fold_line(c.fold(), c.policy, 2, {1, noon, Revoked{control_attempt(c.job(2), before)}}, {});
  CHECK(c.ratio(2, before) == 0);
  CHECK(!c.job(2).draining);
}

TEST_CASE("what is measured after a control that is off is marked at once") {
  Controlled c;
  c.control(1, before, 100);
  c.control(2, before, 101);
  c.trial(7, 1).state = State::running;
  c.rows.trials[7].attempts = 1;
  c.rows.attempts[7] = {.id = 7, .trial = 7, .number = 1, .allocation = 3};
  c.rows.attempts[7].state = State::running;
  c.control(3, before, 50);
  RecordsSummary records;
  records.result = AddMeasurement{};
  fold_line(c.fold(), c.policy, 3,
      {1, noon, Ended{.attempt = 7, .ending = {.outcome = Outcome::completed}}}, records);
  REQUIRE(c.of_kind<AddMeasurement>().size() == 1);
  CHECK(c.of_kind<AddMeasurement>()[0].mark == Mark::contaminated);
  CHECK(c.rows.trials[7].state == State::planned);
}

TEST_CASE("a network that is several times slower or faster than the others' is off") {
  Controlled c;
  c.probe(1, before, 180e9);
  c.probe(2, before, 150e9);
  CHECK(control_due(c.world, c.job(3)) == before);
  c.measured(3, 7);
  SUBCASE("slow") {
    c.probe(3, after, 25e9);
  }
  SUBCASE("fast") {
    c.probe(3, after, 500e9);
  }
  CHECK(control_is_off(c.world, c.policy, 3));
  CHECK(c.rows.trials[7].state == State::planned);
  CHECK(c.of_kind<AddEvent>().at(0).detail.find("network probe at the end") != std::string::npos);
}

TEST_CASE("networks that differ by less than several times are the same") {
  Controlled c;
  c.probe(1, before, 180e9);
  c.probe(2, before, 150e9);
  c.probe(3, before, 100e9);
  CHECK(!control_is_off(c.world, c.policy, 3));
  CHECK(c.rows.controls.back().network_ratio == doctest::Approx(100.0 / 150));
  // Rates of a layout are another thing: the first of them has nothing to be held against.
  c.control(4, before, 7);
  CHECK(c.ratio(4, before) == doctest::Approx(1));
  CHECK(c.rows.controls.back().network_ratio == 0);
}

TEST_CASE("a control whose result tells no speed has measured nothing") {
  Controlled c;
  const AttemptId id = control_attempt(c.job(1), before);
  RecordsSummary records;
  // As a runner's record with "proof": 1 reads: a peak of memory, and no speed.
  records.result = AddMeasurement{.metrics = {{"peak_memory_bytes", 1e9}}};
  c.line(Ended{.attempt = id, .ending = {.outcome = Outcome::completed}}, records);
  const auto controls = c.of_kind<PutControl>();
  REQUIRE(controls.size() == 1);
  CHECK_FALSE(controls[0].row.measured());
  CHECK(controls[0].row.cause == "completed: the result has no speed");
}

TEST_CASE("a control's GPU time counts from its start") {
  Controlled c;
  c.job(1).slots_per_node = 4;
  const Timestamp later = noon + 3'000'000;
  const AttemptId id = control_attempt(c.job(1), before);
  fold_line({c.world, later}, c.policy, 1, {1, later, Started{.attempt = id}}, {});
  fold_line({c.world, later + 9'000'000}, c.policy, 1,
      {2, later + 2'000'000, Ended{.attempt = id, .ending = {.outcome = Outcome::oom}}}, {});
  CHECK(c.of_kind<PutControl>().at(0).row.gpu_seconds == doctest::Approx(2 * 2 * 4));
  // The start was not seen: since the claim.
  take_control({c.world, later}, c.policy, c.job(2), before, {}, "");
  CHECK(c.of_kind<PutControl>().at(1).row.gpu_seconds == doctest::Approx(3 * 2));
}

TEST_CASE("the control's layout fills the nodes of its allocation") {
  SweepSpec sweep = sweep_of(small_model(), {values("micro_batch", {1, 2, 4})});
  sweep.vars = {{"nccl_nvls", {"0", "1"}}};
  auto& layout = sweep.control.layout.emplace();
  layout = {
      {values("tp", {4}), automatic("dp"), values("micro_batch", {2})}, {{"nccl_nvls", "1"}}, {}};
  const auto control = control_of(sweep, {}, 2);
  REQUIRE(control);
  CHECK(control->point.gpus == 16);
  CHECK(control->point.layout.dp == 4);
  CHECK(control->point.layout.tp == 4);
  CHECK(control->point.layout.micro_batch == 2);
  CHECK(control->point.vars == std::vector<std::int32_t>{1});
  CHECK(control->sweep.runner.args.empty());
  layout.settings = {values("tp", {3}), automatic("dp")};
  CHECK(!control_of(sweep, {}, 1));
  // A layout of a fixed size fits one node count.
  layout.settings = {values("tp", {8}), values("dp", {1})};
  CHECK(control_of(sweep, {}, 1));
  CHECK(!control_of(sweep, {}, 2));
}

TEST_CASE("a network probe is of all ranks, alone or before the control's layout") {
  SweepSpec sweep = sweep_of(small_model(), {values("micro_batch", {1, 2, 4})});
  sweep.control.network_from = 2;
  CHECK(!sweep.control.runs_on(1, 8));
  CHECK(sweep.control.runs_on(2, 1));
  Point example;
  example.seq_len = 64;
  example.layout.tp = 8;
  const auto alone = control_of(sweep, example, 2);
  REQUIRE(alone);
  CHECK(alone->sweep.runner.args == std::vector<std::string>{"--network-probe", "alone"});
  CHECK(alone->point.gpus == 16);
  CHECK(alone->point.layout == Layout{.dp = 16});
  CHECK(alone->point.seq_len == 64);
  CHECK(!control_of(sweep, {}, 2));
  sweep.control.layout = PartialPoint{{values("tp", {8}), automatic("dp")}, {}, {}};
  const auto first = control_of(sweep, {}, 2);
  REQUIRE(first);
  CHECK(first->sweep.runner.args == std::vector<std::string>{"--network-probe", "first"});
  CHECK(first->point.layout.tp == 8);
  // On one node there is no network to be probed.
  CHECK(control_of(sweep, {}, 1)->sweep.runner.args.empty());
}
