// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"
#include "search/sweep_search.hpp"
#include "unit/sweep_fixture.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr Timestamp hour = 3'600'000'000;

Point point_of(std::int32_t tp, std::int32_t micro_batch) {
  Point point;
  point.nodes = 2;
  point.gpus = 16;
  point.seq_len = 4096;
  point.layout.dp = 16 / tp;
  point.layout.tp = tp;
  point.layout.micro_batch = micro_batch;
  point.layout.grad_accum = 64 / point.layout.dp / micro_batch;
  point.layout.zero = 1;
  return point;
}

SearchTrial trial_of(TrialId id, const Point& point) {
  return {.id = id, .point = {.model = llama3_8b(), .point = point, .traits = {}}};
}

/// Six layouts of one cell, and a world in which they wait.
struct SearchCase : Case {
  explicit SearchCase(const SearchUntil& until = {})
      : search(settings_of(until), h100(), Predictor(h100(), **find_family("shardbench"))) {
    input.sweeps[1].backend = rows.sweeps.at(1).backend = Backend::slurm;
    input.searches[1] = &search;
    TrialId id = 0;
    for (const std::int32_t tp : {1, 2, 4}) {
      for (const std::int32_t micro_batch : {1, 2}) {
        const auto point = point_of(tp, micro_batch);
        trials.push_back(trial_of(++id, point));
        search.add(trials.back());
        auto& row = trial(id, micro_batch, std::to_string(tp));
        row.nodes = point.nodes;
        row.gpus = point.gpus;
      }
    }
  }

  static SearchSettings settings_of(const SearchUntil& until) {
    return {.policy = SearchPolicy::best_first, .until = until};
  }

  std::vector<const TrialRow*> waiting() const {
    std::vector<const TrialRow*> waiting;
    for (const auto& [id, row] : rows.trials) {
      if (row.state == State::planned) waiting.push_back(&row);
    }
    return waiting;
  }

  /// As fold and decide would write it down.
  void measure(TrialId id, double speed, Timestamp from = noon, Timestamp to = noon + hour) {
    const Outcome outcome = speed > 0 ? Outcome::completed : Outcome::oom;
    const AttemptRow& attempt = rows.attempts[100 + id] = {.id = 100 + id, .trial = id};
    if (from > 0) {
      auto start = world.edit(attempt);
      start->state = State::running;
      start->started_at = from;
    }
    world.record(AddEvent{.trial = id, .kind = EventKind::started});
    {
      auto end = world.edit(attempt);
      end->state = State::ended;
      end->ending = Ending{.outcome = outcome};
      end->ended_at = to;
    }
    if (speed > 0) {
      world.record(AddMeasurement{
          .attempt = 100 + id, .trial = id, .metrics = {{"tokens_per_s_per_gpu", speed}}});
    }
    auto row = world.edit(rows.trials.at(id));
    row->state = State::ended;
    row->outcome = outcome;
  }

  [[nodiscard]] std::vector<TrialId> with(Outcome outcome) const {
    std::vector<TrialId> ids;
    for (const auto& [id, row] : rows.trials) {
      if (row.outcome == outcome) ids.push_back(id);
    }
    return ids;
  }
  [[nodiscard]] std::string cause_of(TrialId id) const {
    for (const auto& change : world.changes()) {
      const auto* set = std::get_if<SetTrial>(&change);
      if (set != nullptr && set->row.id == id && set->row.outcome) return set->row.cause;
    }
    return "";
  }

  SweepSearch search;
  std::vector<SearchTrial> trials;
};

/// When a trial is to start, from 0; the number of those that wait: it isn't.
std::size_t place_in(const SweepSearch::Advice& advice, TrialId trial) {
  return static_cast<std::size_t>(std::find_if(advice.order.begin(), advice.order.end(),
                                      [&](const TrialRow* row) { return row->id == trial; }) -
      advice.order.begin());
}

}  // namespace

TEST_CASE("a search opens two trials at a time and the best of what waits first") {
  SearchCase test;
  const auto advice = test.search.advise(test.waiting());
  test.decide();
  std::vector<TrialId> assigned;
  for (const auto& [id, attempt] : test.rows.attempts)
    assigned.push_back(attempt.trial);
  REQUIRE(assigned.size() == 2);
  CHECK(place_in(advice, assigned[0]) == 0);
  CHECK(place_in(advice, assigned[1]) == 1);
}

TEST_CASE("what a trial measured changes the order of those that wait") {
  SearchCase test;
  const auto before = test.search.advise(test.waiting());
  // What is like the fourth turns out slow, what is like the sixth does not.
  for (const TrialId id : {1, 2, 3})
    test.measure(id, 3000);
  test.measure(5, 9000);
  test.search.observe(test.world.changes());
  const auto after = test.search.advise(test.waiting());
  CHECK(after.order.size() == 2);
  CHECK(place_in(before, 4) < place_in(before, 6));
  CHECK(place_in(after, 4) > place_in(after, 6));
}

TEST_CASE("a trial that runs once more for a doubt about its first run is the next to start") {
  SearchCase test({.runs = 2});
  for (const TrialId id : {1, 5})
    test.measure(id, 9000);
  test.search.observe(test.world.changes());
  CHECK(test.search.advise(test.waiting()).order.empty());
  {
    auto row = test.world.edit(test.rows.trials.at(5));
    row->state = State::planned;
    row->outcome.reset();
  }
  const auto advice = test.search.advise(test.waiting());
  REQUIRE(advice.order.size() == 1);
  CHECK(advice.order.front()->id == 5);
}

TEST_CASE("when the runs of a cell are used the rest ends skipped with the bound as its cause") {
  SearchCase test({.runs = 2});
  test.decide();
  CHECK(test.rows.attempts.size() == 2);
  REQUIRE(test.with(Outcome::skipped).size() == 4);
  const auto cause = test.cause_of(test.with(Outcome::skipped).front());
  CHECK(cause.rfind(
            "Search stopped: this cell has used its 2 runs (search.until.runs). This layout: ",
            0) == 0);
  CHECK(std::any_of(
      test.world.changes().begin(), test.world.changes().end(), [](const Change& change) {
        const auto* event = std::get_if<AddEvent>(&change);
        return event != nullptr && event->kind == EventKind::spared;
      }));
}

TEST_CASE("a search made from rows advises what the one that heard it happen advises") {
  SearchCase test({.regret = 0.01});
  test.measure(1, 9000, noon, noon + 60);
  test.measure(4, 0, noon + 60, noon + 90);
  test.measure(5, 8000, noon + 90, noon + 200);
  test.search.observe(test.world.changes());
  test.search.observe(test.world.changes());  // a commit that was tried again

  SearchCase again({.regret = 0.01});
  for (const auto& [id, outcome, speed] : {std::tuple(1, Outcome::completed, 9000.0),
           std::tuple(4, Outcome::oom, 0.0), std::tuple(5, Outcome::completed, 8000.0)})
    again.search.end(id, {outcome, speed, 0});
  const auto one = test.search.advise(test.waiting());
  const auto other = again.search.advise(test.waiting());
  CHECK(one.order == other.order);
  REQUIRE(one.skip.size() == other.skip.size());
  for (std::size_t i = 0; i < one.skip.size(); ++i)
    CHECK(one.skip[i].cause == other.skip[i].cause);
}

TEST_CASE("GPU-hours are billed once and also of what a daemon before has started") {
  SearchUntil until;
  until.gpu_hours = 19.9;
  SearchCase test(until);
  auto running = test.trials[0];
  running.started = true;
  running.running = 101;
  running.running_since = noon - hour / 4;
  SweepSearch later(
      SearchCase::settings_of(until), h100(), Predictor(h100(), **find_family("shardbench")));
  later.add(running);
  for (std::size_t i = 1; i < test.trials.size(); ++i)
    later.add(test.trials[i]);
  const auto skipped = [&] { return later.advise(test.waiting()).skip.size(); };
  test.measure(1, 9000, 0, noon + hour);  // the start was committed before
  later.observe(test.world.changes());
  CHECK(skipped() == 5);  // an hour and a quarter of 16 GPUs: 20

  SearchCase twice(until);
  twice.measure(1, 9000, noon, noon + hour);
  twice.search.observe(twice.world.changes());
  twice.search.observe(twice.world.changes());
  CHECK(twice.search.advise(twice.waiting()).skip.empty());
}

TEST_CASE("a measurement that stands because its rerun failed is read from rows") {
  SearchCase test;
  test.measure(1, 9000);
  test.search.observe(test.world.changes());
  CHECK_FALSE(test.search.is_outdated());
  // The search was made while the trial ran again.
  auto row = test.world.edit(test.rows.trials.at(2));
  row->state = State::ended;
  row->outcome = Outcome::completed;
  row.done();
  test.search.observe(test.world.changes());
  CHECK(test.search.is_outdated());
}

TEST_CASE("a marked measurement is no reason to read rows anew") {
  SearchCase test;
  test.measure(1, 9000);
  std::vector<Change> changes(test.world.changes().begin(), test.world.changes().end());
  for (auto& change : changes)
    if (auto* one = std::get_if<AddMeasurement>(&change)) one->mark = Mark::implausible;
  test.search.observe(changes);
  CHECK_FALSE(test.search.is_outdated());
  CHECK_FALSE(test.search.bound_of(2));
}

TEST_CASE("what somebody asks for by name is never skipped") {
  SearchCase test;
  SweepSearch search(
      SearchCase::settings_of({.runs = 1}), h100(), Predictor(h100(), **find_family("shardbench")));
  for (auto trial : test.trials) {
    trial.asked = trial.id == 6;
    search.add(trial);
  }
  test.measure(1, 9000);
  search.observe(test.world.changes());
  const auto advice = search.advise(test.waiting());
  CHECK(advice.skip.size() == 4);
  CHECK(place_in(advice, 6) < advice.order.size());
}

TEST_CASE("an OOM on fewer nodes ends what needs as much on more, by its name") {
  SearchCase test;
  auto larger = point_of(1, 1);
  larger.nodes = 4;
  larger.gpus = larger.layout.dp = 32;
  larger.layout.grad_accum = 2;
  larger.layout.zero = 0;
  constexpr TrialId on_more = 50;
  test.search.add(trial_of(on_more, larger));
  auto& row = test.trial(on_more, 1, "more nodes");
  row.nodes = 4;
  row.gpus = 32;
  test.measure(1, 0);  // the same with ZeRO 1 on two nodes
  test.decide();
  CHECK(test.rows.trials.at(on_more).outcome == Outcome::skipped);
  CHECK(test.cause_of(on_more) ==
      "The layout needs at least as much memory as " + test.rows.trials.at(1).slug +
          ", which ran out of memory.");
}

TEST_CASE("values of a free axis are cells of their own") {
  auto one = point_of(1, 1);
  one.vars = {0};
  auto other = one;
  other.vars = {1};
  CHECK(cell_of(llama3_8b(), one) != cell_of(llama3_8b(), other));
  CHECK(cell_of(llama3_8b(), one) == cell_of(llama3_8b(), one));
}

TEST_CASE("a plan that is searched best first has the order in which the search begins") {
  auto sweep = sweep_of(llama3_8b(),
      {values("nodes", {1, 2}), values("tp", {1, 2, 4, 8}), values("micro_batch", {1, 2, 4}),
          values("recompute", {0, 2}), automatic("dp"), automatic("grad_accum")},
      {values("seq_len", {4096}), values("zero", {1})});
  sweep.global_batch_samples = 64;
  const auto lanes = make_plan(sweep, any_runner(), nullptr, nullptr);
  sweep.search.policy = SearchPolicy::best_first;
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  REQUIRE(lanes);
  CHECK(plan->lanes == lanes->lanes);
  REQUIRE(plan->trials.size() == lanes->trials.size());
  REQUIRE(plan->trials.size() > 12);
  SweepSearch search(
      sweep.search, sweep.cluster, Predictor(sweep.cluster, **find_family("shardbench")));
  std::vector<TrialRow> rows;
  for (const auto& trial : plan->trials) {
    rows.push_back({.id = static_cast<TrialId>(rows.size())});
    search.add({.id = rows.back().id,
        .point = {.model = sweep.models[0], .point = trial.point, .traits = {}}});
  }
  std::vector<const TrialRow*> waiting;
  waiting.reserve(rows.size());
  for (const auto& row : rows)
    waiting.push_back(&row);
  const auto advice = search.advise(waiting);
  for (const auto& row : rows)
    CHECK(place_in(advice, row.id) == static_cast<std::size_t>(row.id));
}

TEST_CASE("the sentence of an end names the runs that go on") {
  const SearchSettings settings = SearchCase::settings_of({.regret = 0.05, .confidence = 0.9});
  CellSearch cell(settings, h100(), Predictor(h100(), **find_family("shardbench")));
  for (const std::int32_t micro_batch : {1, 2, 4})
    (void)cell.add(trial_of(micro_batch, point_of(2, micro_batch)).point);
  cell.start(0);
  cell.end(0, {.tokens_per_s_per_gpu = 5000});
  cell.start(1);
  cell.start(2);
  const auto ends = [&cell] { return cell.enough(0).value_or(""); };
  CHECK(
      ends().ends_with(" beats 5,000 tokens/s per GPU by 5 %. Not yet measured: 2 runs of "
                       "this cell."));
  cell.end(1, {.tokens_per_s_per_gpu = 5100});
  cell.end(2, {.tokens_per_s_per_gpu = 5200});
  CHECK(ends().ends_with(" beats 5,200 tokens/s per GPU by 5 %."));
}

TEST_CASE("a best whose log is rounded is believed by what it rounds away less") {
  const auto sure = [](double resolution) {
    const SearchSettings settings = SearchCase::settings_of({.regret = 0.05, .confidence = 0.9});
    CellSearch cell(settings, h100(), Predictor(h100(), **find_family("shardbench")));
    for (const std::int32_t micro_batch : {1, 2})
      (void)cell.add(trial_of(micro_batch, point_of(2, micro_batch)).point);
    cell.start(0);
    cell.end(0, {.tokens_per_s_per_gpu = 5000, .resolution = resolution});
    const double better = cell.outlook(1).better;
    cell.start(1);
    cell.end(1, {.tokens_per_s_per_gpu = 4000});
    return std::pair(better, cell.enough(0).value_or(""));
  };
  const auto [exact, plain] = sure(0);
  const auto [rounded, told] = sure(0.02);
  CHECK(rounded > exact);
  CHECK(plain.ends_with("by 5 %."));
  CHECK(told.ends_with("by 5 % (its log rounds 2.0 % away)."));
}

TEST_CASE("what starts is held against the fastest of its cell, by its own batch") {
  SearchCase test;
  CHECK_FALSE(test.search.bound_of(2));
  test.measure(1, 1000);
  test.measure(3, 2000);
  test.search.observe(test.world.changes());
  const auto bound = test.search.bound_of(2);
  REQUIRE(bound);
  CHECK(bound->leader == 3);
  // 64 samples of 4,096 tokens on 16 GPUs.
  CHECK(bound->leader_step_ms == doctest::Approx(1e3 * 64 * 4096 / (2000.0 * 16)));
  CHECK(bound->give_up_above_ms == doctest::Approx(1.05 * bound->leader_step_ms));
}

TEST_CASE("the bound stands in the row of the attempt that it is for") {
  SearchCase test;
  test.measure(1, 1000);
  test.decide();
  bool any = false;
  for (const auto& [id, attempt] : test.rows.attempts) {
    if (attempt.state != State::queued) continue;
    any = true;
    CHECK(attempt.leader == 1);
    CHECK(attempt.give_up_above_ms == doctest::Approx(1.05 * attempt.leader_step_ms));
  }
  CHECK(any);
}

TEST_CASE("who was cut short leads nobody") {
  SearchCase test;
  test.search.end(1, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = 1000});
  test.search.end(
      2, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = 3000, .cut_short = true});
  REQUIRE(test.search.bound_of(3));
  CHECK(test.search.bound_of(3)->leader == 1);
}

TEST_CASE("nothing is cut short in an exhaustive search, by a switch or when asked for by name") {
  for (const auto& [policy, factor, asked] : {std::tuple{SearchPolicy::exhaustive, 1.2, false},
           std::tuple{SearchPolicy::best_first, 0.0, false},
           std::tuple{SearchPolicy::best_first, 1.2, true}}) {
    SweepSearch search({.policy = policy, .until = {.runs = 9}, .cut_short = factor}, h100(),
        Predictor(h100(), **find_family("shardbench")));
    search.add(trial_of(1, point_of(1, 1)));
    auto second = trial_of(2, point_of(2, 1));
    second.asked = asked;
    search.add(second);
    search.end(1, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = 1000});
    CHECK_FALSE(search.bound_of(2));
  }
}
