// SPDX-License-Identifier: Apache-2.0
// What a search costs a daemon's tick in one cell of 100,000 layouts, most of which wait: one
// JSON line with the CPU time of adding them and of a tick that follows a measurement.
#include "search/sweep_search.hpp"
#include "unit/sweep_fixture.hpp"
#include "unit/world_case.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <vector>

namespace {

using namespace shardsweep;
using namespace shardsweep::testing;

constexpr int points = 100'000;
constexpr int ticks = 60;

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
      static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

/// The i-th of 160,000, all different.
Point point_at(int i) {
  Point point;
  point.nodes = 8;
  point.gpus = 64;
  point.seq_len = 4096;
  auto& layout = point.layout;
  layout.tp = 1 << (i % 5);
  layout.pp = 1 << (i / 5 % 2);
  layout.dp = 64 / layout.tp / layout.pp;
  layout.micro_batch = 1 + i / 10 % 16;
  layout.grad_accum = 1 + i / 160 % 50;
  layout.zero = i / 8000 % 2;
  layout.bucket_mb = 1 + i / 16000;
  return point;
}

/// Ends what has been assigned, some of it out of memory, through the world as a daemon does:
/// rows changed by hand have their index made anew in each pass.
void end_running(World& world, SweepSearch& search) {
  for (const auto& [id, row] : world.attempts()) {
    if (row.state == State::ended) continue;
    auto trial_edit = world.edit(world.trials().at(row.trial));
    auto& trial = *trial_edit;
    trial.state = State::ended;
    trial.outcome = trial.id % 7 == 0 ? Outcome::oom : Outcome::completed;
    auto attempt = world.edit(row);
    attempt->state = State::ended;
    attempt->ending = Ending{.outcome = *trial.outcome};
    const double speed = 3000.0 + static_cast<double>(trial.id * 7919 % 2000);
    search.end(trial.id, {*trial.outcome, *trial.outcome == Outcome::oom ? 0 : speed, 0});
  }
}

}  // namespace

int main() {
  SearchSettings settings{.policy = SearchPolicy::best_first};
  settings.until.regret = 0.01;
  SweepSearch search(settings, h100(), Predictor(h100(), **find_family("nanotron")));
  Case test;
  test.rows.sweeps[1].backend = test.input.sweeps[1].backend = Backend::slurm;
  test.input.searches[1] = &search;
  const double begin = cpu_s();
  for (int i = 0; i < points; ++i) {
    const auto point = point_at(i);
    search.add({.id = i + 1, .point = {.model = llama3_8b(), .point = point, .traits = {}}});
  }
  const double added_s = cpu_s() - begin;
  for (int i = 0; i < points; ++i) {
    auto& row = test.trial(i + 1, point_at(i).layout.micro_batch, std::to_string(i % 10));
    row.nodes = 8;
    row.gpus = 64;
  }
  World world(test.rows);
  std::vector<double> times;
  for (int i = 0; i < ticks; ++i) {
    const double start = cpu_s();
    decide(world, test.input);
    times.push_back(cpu_s() - start);
    (void)world.take_changes();
    end_running(world, search);
  }
  std::sort(times.begin(), times.end());
  fmt::print(
      "{{\"bench\":\"search\",\"points\":{},\"add_cpu_s\":{:.3f},\"ticks\":{},"
      "\"tick_cpu_s\":{:.3f},\"tick_cpu_s_most\":{:.3f}}}\n",
      points, added_s, ticks, times[times.size() / 2], times.back());
  return 0;
}
