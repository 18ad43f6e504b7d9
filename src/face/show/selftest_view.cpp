// SPDX-License-Identifier: Apache-2.0
#include "show/selftest_view.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace shardsweep {
namespace {

using Trials = std::vector<SelfTestTrial>;

Trials those_with(const Trials& trials, std::string_view fault) {
  Trials found;
  std::copy_if(trials.begin(), trials.end(), std::back_inserter(found),
      [&](const SelfTestTrial& trial) { return trial.fault.starts_with(fault); });
  return found;
}

std::string ended_as(const SelfTestTrial& trial) {
  if (trial.outcome.empty()) return fmt::format("{} has not ended", trial.slug);
  return fmt::format("{} ended {}: {}", trial.slug, trial.outcome, trial.cause);
}

/// The first trial that has not this outcome; empty: all have it.
std::string other_outcome(const Trials& trials, std::string_view outcome) {
  if (trials.empty()) return "no trial of this kind ran";
  for (const SelfTestTrial& trial : trials) {
    if (trial.outcome != outcome) return ended_as(trial);
  }
  return "";
}

SelfTestVerdict judge_gradients(const Trials& healthy) {
  SelfTestVerdict verdict{"gradients", false, other_outcome(healthy, "completed")};
  if (!verdict.detail.empty()) return verdict;
  double lowest = healthy.front().loss;
  double highest = lowest;
  std::string layouts;
  for (const SelfTestTrial& trial : healthy) {
    lowest = std::min(lowest, trial.loss);
    highest = std::max(highest, trial.loss);
    layouts += (layouts.empty() ? "" : ", ") + trial.layout;
  }
  const double apart = highest - lowest;
  verdict.passed = lowest > 0 && apart <= selftest_loss_tolerance;
  verdict.detail =
      fmt::format("losses after 7 train steps are {:.1e} apart (allowed {:.0e}) in {}: {}", apart,
          selftest_loss_tolerance, counted(static_cast<std::int64_t>(healthy.size()), "layout"),
          layouts);
  return verdict;
}

SelfTestVerdict judge_bandwidth(const Trials& healthy) {
  double best = 0;
  std::int32_t ranks = 1;
  for (const SelfTestTrial& trial : healthy) {
    best = std::max(best, trial.bus_bandwidth);
    ranks = std::max(ranks, trial.ranks);
  }
  if (best <= 0) return {"bus bandwidth", false, "no all-reduce was timed"};
  return {"bus bandwidth", true,
      fmt::format("{:.3g} GB/s, an all-reduce over {} ranks", best / 1e9, ranks)};
}

SelfTestVerdict judge_memory(const Trials& healthy) {
  SelfTestVerdict verdict{"memory", false, "no peak was measured"};
  double lowest = 0;
  double highest = 0;
  for (const SelfTestTrial& trial : healthy) {
    if (trial.peak_memory_bytes <= 0 || trial.predicted_memory_bytes <= 0) continue;
    const double ratio = static_cast<double>(trial.peak_memory_bytes) /
        static_cast<double>(trial.predicted_memory_bytes);
    lowest = lowest == 0 ? ratio : std::min(lowest, ratio);
    highest = std::max(highest, ratio);
  }
  if (highest == 0) return verdict;
  verdict.passed =
      lowest >= 1 - selftest_memory_tolerance && highest <= 1 + selftest_memory_tolerance;
  verdict.detail = fmt::format("measured is {:.3f} to {:.3f} of predicted (allowed {:.0f} %)",
      lowest, highest, selftest_memory_tolerance * 100);
  return verdict;
}

SelfTestVerdict judge_hang(const Trials& hung) {
  SelfTestVerdict verdict{"hang", false, other_outcome(hung, "hung")};
  if (!verdict.detail.empty()) return verdict;
  const SelfTestTrial& trial = hung.front();
  const bool named =
      trial.cause.find(fmt::format("rank {} ", trial.ranks - 1)) != std::string::npos;
  verdict.passed = named;
  verdict.detail = fmt::format("{} {}", named ? "named:" : "the rank is not named:", trial.cause);
  return verdict;
}

SelfTestVerdict judge_leak(const Trials& leaky) {
  SelfTestVerdict verdict{"leak", false, other_outcome(leaky, "completed")};
  if (!verdict.detail.empty()) return verdict;
  const std::int64_t ended = leaky.front().leaked;
  verdict.passed = ended > 0;
  verdict.detail = ended > 0
      ? fmt::format("{} outlived its rank and was ended", counted(ended, "process"))
      : "the process that outlived its rank was not seen";
  return verdict;
}

SelfTestVerdict judge_kill(const Trials& killed) {
  SelfTestVerdict verdict{"kill", false, other_outcome(killed, "crashed")};
  if (!verdict.detail.empty()) return verdict;
  verdict.passed = !killed.front().cause.empty();
  verdict.detail = killed.front().cause;
  return verdict;
}

}  // namespace

std::vector<SelfTestVerdict> judge_selftest(const Trials& trials) {
  const Trials healthy = those_with(trials, "none");
  return {judge_gradients(healthy), judge_bandwidth(healthy), judge_memory(healthy),
      judge_hang(those_with(trials, "hang@")), judge_leak(those_with(trials, "fork@")),
      judge_kill(those_with(trials, "kill@"))};
}

Table selftest_table(const std::vector<SelfTestVerdict>& verdicts) {
  Table table;
  table.columns = {"check", "verdict", "detail"};
  for (const SelfTestVerdict& each : verdicts)
    table.rows.push_back({each.check, std::string(each.passed ? "pass" : "FAIL"), each.detail});
  return table;
}

}  // namespace shardsweep
