// SPDX-License-Identifier: Apache-2.0
// A cluster that is not as its preset says: its runs are made by the model itself with other
// constants, noise, and a bad day now and then. A search that knows the preset alone has to
// find its best layouts.
#include "predict/predictor.hpp"
#include "search/extrapolation.hpp"
#include "tools/lab/replay.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// The same numbers everywhere, between 0 and 1.
class Dice {
 public:
  double next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_ = 42;
};

ClusterSpec cluster_as_it_is() {
  auto cluster = h100();
  cluster.gemm_efficiency *= 0.85;
  cluster.inter_node_efficiency *= 0.6;
  cluster.intra_node_efficiency *= 1.2;
  return cluster;
}

Family trainer_as_it_is() {
  auto family = **find_family("nanotron");
  family.time.launch_layer_s *= 0.7;
  family.time.launch_layer_tp_s *= 1.3;
  family.time.tp_exposed = 0.8;
  family.time.update_bytes *= 1.5;
  return family;
}

RecordedRun run_of(const Point& point, const Predictor& truth, Dice& dice) {
  RecordedRun run;
  run.point = point;
  run.nodes = point.nodes;
  const auto guess = truth.guess(llama3_8b(), point);
  const auto capacity = h100().memory_bytes;
  const double noise = 0.06 * (dice.next() - 0.5);
  const bool bad_day = dice.next() < 0.08;
  if (guess.memory.estimate.total() > capacity) {
    run.outcome = Outcome::oom;
  } else {
    run.outcome = Outcome::completed;
    run.tokens_per_s_per_gpu =
        speed_of(guess.step_s, point) * std::exp(noise) * (bad_day ? 0.4 : 1);
  }
  return run;
}

/// Point `i` of 1, 2, 4 and 8 nodes, TP and PP of 1 to 8, micro-batches of 1 to 16 and ZeRO 0
/// and 1; dp and grad_accum 0 where a global batch of 256 can't be made so.
Point grid_point(int i) {
  Point point;
  point.nodes = 1 << (i / 160);
  point.gpus = 8 * point.nodes;
  point.seq_len = 4096;
  auto& layout = point.layout;
  layout.zero = i % 2;
  layout.micro_batch = 1 << (i / 2 % 5);
  layout.pp = 1 << (i / 10 % 4);
  layout.tp = 1 << (i / 40 % 4);
  layout.dp = point.gpus / layout.tp / layout.pp;
  layout.grad_accum = layout.dp == 0 ? 0 : 256 / layout.dp / layout.micro_batch;
  layout.sequence_parallel = layout.tp > 1;
  return point;
}

RecordedSweep made_sweep() {
  const auto family = trainer_as_it_is();
  const Predictor truth(cluster_as_it_is(), family);
  Dice dice;
  RecordedSweep sweep;
  sweep.file = "made.csv";
  sweep.models.push_back(llama3_8b());
  for (int i = 0; i < 640; ++i) {
    const auto point = grid_point(i);
    if (point.layout.grad_accum == 0) continue;
    sweep.runs.push_back(run_of(point, truth, dice));
    sweep.runs.back().line = static_cast<int>(sweep.runs.size()) + 1;
  }
  return sweep;
}

ReplayReport searched(const SearchSettings& search) {
  auto report = replay(
      made_sweep(), {.cluster = h100(), .family = *find_family("nanotron"), .search = search});
  REQUIRE(report);
  return *report;
}

struct Sum {
  std::int64_t points = 0;
  std::int64_t launched = 0;
  std::int64_t to_1pct = 0;
  std::int64_t good_left_out = 0;
  double worst_regret = 0;
};

Sum sum_of(const ReplayReport& report) {
  Sum sum;
  for (const auto& cell : report.cells) {
    sum.points += cell.points;
    sum.launched += cell.launched;
    sum.to_1pct += cell.runs_to_1pct.value_or(0);
    sum.good_left_out += cell.good_left_out;
    sum.worst_regret = std::max(sum.worst_regret, cell.regret_at_stop.value_or(0));
  }
  return sum;
}

}  // namespace

TEST_CASE("a search finds the best of a cluster that is not as its preset says") {
  for (const bool across : {false, true}) {
    CAPTURE(across);
    SearchSettings search{.policy = SearchPolicy::best_first, .learn_across = across};
    const auto all = sum_of(searched(search));
    CHECK(all.points > 300);
    CHECK(all.good_left_out == 0);
    CHECK(all.worst_regret == 0);
    CHECK(all.to_1pct * 20 <= all.points);
    search.until.regret = 0.01;
    const auto some = sum_of(searched(search));
    CHECK(some.launched * 4 <= some.points);
    CHECK(some.worst_regret <= 0.02);
  }
}

TEST_CASE("a search that remembers what the cluster has measured before needs fewer runs") {
  const RecordedSweep sweep = made_sweep();
  ReplayOptions options{.cluster = h100(),
      .family = *find_family("nanotron"),
      .search = {
          .policy = SearchPolicy::best_first, .until = {.regret = 0.01}, .learn_across = false}};
  const auto runs = [&] {
    const auto report = replay(sweep, options);
    REQUIRE(report);
    return sum_of(*report).launched;
  };
  const auto alone = runs();
  // Of another day: one layout in five.
  for (std::size_t i = 0; i < sweep.runs.size(); i += 5) {
    const auto& run = sweep.runs[i];
    if (run.outcome == Outcome::completed)
      options.remembered.push_back({{sweep.models.front(), run.point, {}},
          {.outcome = run.outcome, .tokens_per_s_per_gpu = *run.tokens_per_s_per_gpu}});
  }
  CAPTURE(alone);
  CHECK(runs() < alone);
}

namespace {

struct Outward {
  std::vector<Experience> known;  // on fewer than `nodes`
  std::vector<SearchPoint> targets;
  std::vector<double> measured;
};

/// What the made cluster shows on fewer nodes, and what it would show on these.
Outward outward_to(std::int32_t nodes, const RecordedSweep& sweep) {
  Outward outward;
  for (const auto& run : sweep.runs) {
    const SearchPoint point{sweep.models.front(), run.point, {}};
    const double speed = run.tokens_per_s_per_gpu.value_or(0);
    if (run.nodes < nodes) {
      outward.known.push_back({point, {.outcome = run.outcome, .tokens_per_s_per_gpu = speed}});
    } else if (run.nodes == nodes && speed > 0) {
      outward.targets.push_back(point);
      outward.measured.push_back(speed);
    }
  }
  return outward;
}

std::vector<ExtrapolatedCell> extrapolated(const Outward& outward) {
  return extrapolate(
      h100(), Predictor(h100(), **find_family("nanotron")), outward.known, outward.targets);
}

}  // namespace

TEST_CASE("jobs of more nodes measure what those of fewer nodes foretell") {
  const auto outward = outward_to(8, made_sweep());
  const auto cells = extrapolated(outward);
  REQUIRE(cells.size() == 1);
  const auto& cell = cells.front();
  REQUIRE(cell.layouts.size() == outward.targets.size());
  CHECK(cell.test.runs > 100);
  CHECK(cell.test.outward == 2);
  std::size_t held = 0;
  double best = 0;
  std::vector<double> off;
  for (const auto& one : cell.layouts) {
    const double ratio = outward.measured[one.target] / one.tokens_per_s_per_gpu;
    const double factor = cell.factor_of(one);
    if (ratio <= factor && ratio * factor >= 1) ++held;
    off.push_back(std::abs(std::log(ratio)));
    best = std::max(best, outward.measured[one.target]);
  }
  std::sort(off.begin(), off.end());
  CHECK(static_cast<double>(held) >= 0.95 * static_cast<double>(off.size()));
  CHECK(off[off.size() / 2] < 0.1);
  CHECK(outward.measured[cell.layouts.front().target] > 0.9 * best);
}

TEST_CASE("one number of nodes tests no interval") {
  const auto outward = outward_to(2, made_sweep());
  const auto cells = extrapolated(outward);
  REQUIRE(cells.size() == 1);
  CHECK(cells.front().test.runs == 0);
  const auto& first = cells.front().layouts.front();
  CHECK(std::log(cells.front().factor_of(first)) == doctest::Approx(1.96 * first.sigma));
}

TEST_CASE("without a measurement nothing is extrapolated") {
  auto outward = outward_to(2, made_sweep());
  for (auto& one : outward.known)
    one.news = {.outcome = Outcome::crashed};
  CHECK(extrapolated(outward).empty());
}
