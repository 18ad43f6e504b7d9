// SPDX-License-Identifier: Apache-2.0
// How long a rank waits in a train step: the planner's formulas against the runner's lists.
#include "predict/family.hpp"
#include "predict/time_model.hpp"
#include "schedules/timeline.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

Point pipeline(Schedule schedule, std::int32_t pp, std::int32_t micro_batches) {
  Point point;
  point.gpus = pp;
  point.layout.pp = pp;
  point.layout.schedule = schedule;
  point.layout.vpp = schedule == Schedule::zb_v ? 2 : 1;
  point.layout.grad_accum = micro_batches;
  return point;
}

/// In micro-batches of a stage.
double waited(const ModelSpec& model, const Point& point) {
  const auto& family = **find_family("shardbench");
  const auto time = estimate_time(model, h100(), point, family.time, family.memory);
  const double stages = time.compute_s + time.memory_s + time.launch_s + time.tp_s + time.pp_s;
  return time.bubble_s / stages * point.layout.grad_accum;
}

}  // namespace

TEST_CASE("a train step waits as long as the lists of its schedule say") {
  ModelSpec model = llama3_8b();
  for (const std::int32_t sequence : {1024, 8192}) {
    for (const std::int32_t pp : {2, 4, 8}) {
      for (const std::int32_t rounds : {1, 2, 4, 8}) {
        const std::int32_t micro_batches = rounds * pp;
        auto halved = pipeline(Schedule::zb_h1, pp, micro_batches);
        auto folded = pipeline(Schedule::zb_v, pp, micro_batches);
        halved.seq_len = folded.seq_len = sequence;
        // ZB-H1's wait tells the share of the weight gradients.
        const double weights = (1 - waited(model, halved) / (pp - 1)) / 2;
        const double rest = (1 - weights) / 2;
        const shardbench::PieceCosts costs{rest / 2, rest / 2, weights / 2};
        const auto timeline = shardbench::timeline_of(shardbench::ScheduleKind::zb_v,
            {pp, 2, micro_batches, true}, costs, shardbench::Channels::bounded);
        CAPTURE(sequence);
        CAPTURE(pp);
        CAPTURE(rounds);
        CAPTURE(weights);
        const double expected = micro_batches + waited(model, folded);
        CHECK(std::abs(expected / timeline.length - 1) < 0.08);
      }
    }
  }
}
