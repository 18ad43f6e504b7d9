// SPDX-License-Identifier: Apache-2.0
// Plans a grid of a million points, with excludes and a runner's rules, and writes the feasible
// ones as CSV to /dev/null. One JSON line; exit code 1 where it misses 2 s or 300 MB and
// --check is given. `--dense`: a grid in which almost every point is feasible.
#include "plan/plan.hpp"
#include "show/plan_view.hpp"
#include "unit/sweep_fixture.hpp"

#include <shardsweep/filter.hpp>

#include <fmt/format.h>

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>

namespace {

using namespace shardsweep;
using namespace shardsweep::testing;

struct Clock {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

AxisValues counted_axis(std::string_view name, std::int64_t count) {
  AxisValues axis = values(name, {});
  for (std::int64_t value = 1; value <= count; ++value)
    axis.values.push_back(value);
  return axis;
}

// A million points of choices as people write them.
SweepSpec usual_grid() {
  auto sweep = sweep_of(llama3_8b(),
      {values("nodes", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}), values("tp", {1, 2, 4, 8, 16}),
          values("pp", {1, 2, 4, 8, 16}),
          values("micro_batch", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}),
          values("zero", {0, 1, 2, 3}), values("recompute", {0, 2}),
          values("sequence_parallel", {0, 1}), values("bucket_mb", {25, 50, 100, 200, 400}),
          values("seq_len", {1024, 2048, 4096, 8192, 16384})},
      {automatic("dp"), automatic("grad_accum")});
  sweep.global_batch_tokens = 4 << 20;
  sweep.excludes = {
      {"tp > 8", "TP over InfiniBand", {}}, {"pp = 1 and zero = 0 and nodes > 4", "", {}}};
  return sweep;
}

// Almost every point of it is feasible: the worst case for memory.
SweepSpec dense_grid() {
  auto sweep = sweep_of(small_model(),
      {counted_axis("micro_batch", 100), counted_axis("grad_accum", 100),
          counted_axis("bucket_mb", 100)},
      {values("nodes", {1}), automatic("dp"), values("seq_len", {128})});
  sweep.excludes = {{"tp > 8", "", {}}};
  return sweep;
}

int run(bool dense, bool check) {
  const Clock clock;
  const auto sweep = dense ? dense_grid() : usual_grid();
  std::vector<std::string> expressions;
  for (const auto& rule : sweep.excludes)
    expressions.push_back(rule.when);
  const auto excludes = compile_filter(sweep, expressions);
  if (!excludes) return 2;
  const auto plan = make_plan(sweep, any_runner(), excludes->get(), nullptr);
  if (!plan) {
    fmt::print(stderr, "{}\n", plan.error().what);
    return 2;
  }
  const double planned_s = clock.seconds();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen("/dev/null", "w"), std::fclose);
  const Flush flush = [&](fmt::memory_buffer& text) {
    std::fwrite(text.data(), 1, text.size(), file.get());
    text.clear();
  };
  fmt::memory_buffer out;
  write_plan(out, sweep, any_runner(), *plan, {Format::csv, true, flush});
  flush(out);
  const double seconds = clock.seconds();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double rss_mb = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
  const auto cpu = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  const double cpu_s = cpu(usage.ru_utime) + cpu(usage.ru_stime);
  fmt::print(
      "{{\"bench\":\"{}\",\"points\":{},\"feasible\":{},\"seconds\":{:.3f},"
      "\"plan_s\":{:.3f},\"cpu_s\":{:.3f},\"points_per_s\":{:.0f},\"max_rss_mb\":{:.1f}}}\n",
      dense ? "plan_dense" : "plan", plan->points, plan->trials.size(), seconds, planned_s, cpu_s,
      static_cast<double>(plan->points) / seconds, rss_mb);
  return check && (seconds >= 2 || rss_mb >= 300) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool dense = false;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    dense = dense || std::string_view(argv[i]) == "--dense";
    check = check || std::string_view(argv[i]) == "--check";
  }
  return run(dense, check);
}
