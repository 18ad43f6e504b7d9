// SPDX-License-Identifier: Apache-2.0
// Predictions per second on one core: time with its uncertainty, memory with its bounds, after
// some runs have been learnt. One JSON line per family; exit code 1 where one makes less than a
// million per second and --check is given.
#include "predict/predictor.hpp"
#include "unit/sweep_fixture.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <string_view>
#include <vector>

namespace {

using namespace shardsweep;
using namespace shardsweep::testing;

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
      static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

std::vector<Point> grid() {
  std::vector<Point> points;
  for (std::int32_t nodes = 1; nodes <= 64; nodes *= 2) {
    for (std::int32_t tp = 1; tp <= 16; tp *= 2) {
      for (std::int32_t pp = 1; pp <= 16; pp *= 2) {
        for (std::int32_t micro_batch = 1; micro_batch <= 16; micro_batch *= 2) {
          for (std::int32_t zero = 0; zero < 4; ++zero) {
            if (nodes * 8 % (tp * pp) != 0) continue;
            Point point;
            point.nodes = nodes;
            point.gpus = nodes * 8;
            point.seq_len = 4096;
            auto& layout = point.layout;
            layout.tp = tp;
            layout.pp = pp;
            layout.dp = point.gpus / tp / pp;
            layout.micro_batch = micro_batch;
            layout.grad_accum = 8;
            layout.zero = zero;
            layout.sequence_parallel = tp > 1;
            points.push_back(point);
          }
        }
      }
    }
  }
  return points;
}

bool measure(const Family& family, const std::vector<Point>& points) {
  constexpr int most = 2'000'000;
  const auto model = llama3_8b();
  Predictor predictor(h100(), family);
  for (std::size_t i = 0; i < points.size(); i += 100) {
    Observation run{.model = model, .point = points[i]};
    run.step_s = 1.1 * predictor.guess(model, points[i]).step_s;
    predictor.learn(run);
  }
  double sum = 0;  // so that nothing is optimised away
  const double start = cpu_s();
  for (int i = 0; i < most; ++i) {
    const auto guess = predictor.guess(model, points[static_cast<std::size_t>(i) % points.size()]);
    sum += guess.step_s + guess.log_sigma + static_cast<double>(guess.memory.upper_bytes);
  }
  const double seconds = cpu_s() - start;
  const double rate = most / seconds;
  fmt::print(
      "{{\"bench\":\"predict\",\"family\":\"{}\",\"predictions\":{},\"cpu_s\":{:.3f},"
      "\"per_s\":{:.0f},\"checksum\":{:.3g}}}\n",
      family.name, most, seconds, rate, sum);
  return rate >= 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc > 1 && std::string_view(argv[1]) == "--check";
  const auto points = grid();
  bool fast = true;
  for (const auto& family : families())
    fast = measure(family, points) && fast;
  return check && !fast ? 1 : 0;
}
