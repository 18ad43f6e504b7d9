// SPDX-License-Identifier: Apache-2.0
// Searches of a machine whose cluster file has no rates: what may end them, and what starts
// them again.
#include "predict/rates.hpp"
#include "search/sweep_search.hpp"
#include "unit/search/simulated_machine.hpp"
#include "unit/sweep_fixture.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

SearchSettings five_percent() {
  SearchSettings settings{.policy = SearchPolicy::best_first};
  settings.until = {.regret = 0.05, .confidence = 0.9};
  return settings;
}

double predicted(const SimulatedMachine& machine, const SearchPoint& point) {
  const Predictor predictor(machine.cluster, *machine.family);
  return speed_of(predictor.guess(point.model, point.point).step_s, point.point);
}

CellSearch search_of(const SimulatedMachine& machine) {
  CellSearch cell(five_percent(), machine.cluster, Predictor(machine.cluster, *machine.family));
  for (const auto& run : machine.runs)
    cell.add(run.point);
  return cell;
}

/// A world in which the layouts of a simulated machine wait that fit into its memory.
struct MachineCase : Case {
  explicit MachineCase(std::uint64_t seed)
      : machine(simulated_machine(seed)),
        search(five_percent(), machine.cluster, Predictor(machine.cluster, *machine.family)) {
    input.searches[1] = &search;
    for (const auto& run : machine.runs) {
      const auto id = static_cast<TrialId>(&run - machine.runs.data()) + 1;
      if (run.speed <= 0) continue;
      search.add({.id = id, .point = run.point});
      auto& row = trial(id, run.point.point.layout.micro_batch, std::to_string(id));
      row.nodes = 0;
      row.gpus = run.point.point.gpus;
    }
  }

  [[nodiscard]] std::vector<TrialId> open() const {
    std::vector<TrialId> ids;
    for (const auto& [id, attempt] : rows.attempts) {
      if (attempt.state != State::ended) ids.push_back(attempt.trial);
    }
    return ids;
  }

  void measure(TrialId id, double speed) {
    (void)world.take_changes();
    for (auto& [attempt, of] : rows.attempts) {
      if (of.trial == id) of.state = State::ended;
    }
    best = std::max(best, speed);
    world.record(AddMeasurement{.trial = id, .metrics = {{"tokens_per_s_per_gpu", speed}}});
    auto row = world.edit(rows.trials.at(id));
    row->state = State::ended;
    row->outcome = Outcome::completed;
  }

  [[nodiscard]] double measured(TrialId id) const {
    return machine.runs[static_cast<std::size_t>(id - 1)].measured;
  }
  [[nodiscard]] std::int64_t count(Outcome outcome) const {
    return std::count_if(rows.trials.begin(), rows.trials.end(),
        [&](const auto& entry) { return entry.second.outcome == outcome; });
  }

  /// Until the search has skipped what is left; one run is open then.
  void run_to_the_stop() {
    decide();
    while (count(Outcome::skipped) == 0 && !open().empty()) {
      const auto next = open().front();
      measure(next, measured(next));
      decide();
    }
  }

  SimulatedMachine machine;
  SweepSearch search;
  double best = 0;
};

/// A machine on which a run 5 % faster than the best opens other layouts. On many it only
/// wins: nothing else comes near it.
constexpr std::uint64_t contradicted = 11;

}  // namespace

TEST_CASE("rates that a cluster file leaves out are known to be unknown") {
  CHECK_FALSE(unknown_rates(h100(), Dtype::bf16).any());
  CHECK(unknown_rates(h100(), Dtype::fp32).compute);
  ClusterSpec bare;
  CHECK(unknown_rates(bare, Dtype::fp32) == UnknownRates{true, true, true, true});
  const auto nominal = with_nominal_rates(bare);
  CHECK(nominal.memory_bandwidth > 0);
  CHECK(nominal.intra_node_bandwidth > 0);
  CHECK(nominal.inter_node_bandwidth > 0);
  CHECK(nominal.intra_node_latency_us > 0);
  CHECK_FALSE(nominal.peak_flops.at(0));
  CHECK(with_nominal_rates(h100()) == h100());
}

TEST_CASE("every part of a step costs something where its rate is unknown") {
  const auto machine = simulated_machine(1);
  const Predictor predictor(machine.cluster, *machine.family);
  for (const auto& run : machine.runs) {
    const auto& layout = run.point.point.layout;
    const auto time = predictor.guess(run.point.model, run.point.point).time;
    CHECK(time.memory_s > 0);
    CHECK((time.tp_s > 0) == (layout.tp > 1));
    CHECK((time.pp_s > 0) == (layout.pp > 1));
    CHECK((time.dp_s > 0) == (layout.dp > 1));
  }
}

TEST_CASE("a first run that is several times as fast as predicted says so of all layouts") {
  const auto machine = simulated_machine(1);
  for (const double factor : {0.28, 1.0, 3.6}) {
    CAPTURE(factor);
    auto cell = search_of(machine);
    const auto first = cell.order().front();
    const auto& point = machine.runs[first].point;
    cell.start(first);
    cell.end(first, {Outcome::completed, factor * predicted(machine, point), 0});
    CHECK_FALSE(cell.enough(0));
  }
}

TEST_CASE("a run that contradicts the stop of a search has the rest planned again") {
  MachineCase test(contradicted);
  test.run_to_the_stop();
  REQUIRE(test.open().size() == 1);
  const auto spared = test.count(Outcome::skipped);
  REQUIRE(spared > 20);
  test.measure(test.open().front(), 1.05 * test.best);
  test.decide();
  CHECK(test.count(Outcome::skipped) == 0);
  CHECK(test.open().size() == 2);
  const auto reopened = std::count_if(
      test.world.changes().begin(), test.world.changes().end(), [](const Change& change) {
        const auto* event = std::get_if<AddEvent>(&change);
        return event != nullptr && event->kind == EventKind::reopened;
      });
  CHECK(reopened == spared);
}

TEST_CASE("a run that agrees with the stop of a search leaves it at that") {
  MachineCase test(contradicted);
  test.run_to_the_stop();
  const auto spared = test.count(Outcome::skipped);
  const auto last = test.open().front();
  test.measure(last, test.measured(last));
  test.decide();
  CHECK(test.count(Outcome::skipped) == spared);
  CHECK(test.open().empty());
}

TEST_CASE("a search made from rows reopens what the one before it has spared") {
  MachineCase test(contradicted);
  test.run_to_the_stop();
  const auto last = test.open().front();
  const auto rebuilt = [&](double speed) {
    SweepSearch search(five_percent(), test.machine.cluster,
        Predictor(test.machine.cluster, *test.machine.family));
    std::vector<TrialId> measured;
    for (const auto& [id, row] : test.rows.trials) {
      search.add({.id = id,
          .point = test.machine.runs[static_cast<std::size_t>(id - 1)].point,
          .started = row.outcome != Outcome::skipped,
          .spared = row.outcome == Outcome::skipped});
      if (row.outcome == Outcome::completed) measured.push_back(id);
    }
    for (const auto id : measured)
      search.end(id, {Outcome::completed, test.measured(id), 0});
    search.end(last, {Outcome::completed, speed, 0});
    return search.to_reopen().size();
  };
  CHECK(rebuilt(test.measured(last)) == 0);
  CHECK(rebuilt(1.05 * test.best) == static_cast<std::size_t>(test.count(Outcome::skipped)));
}
