// SPDX-License-Identifier: Apache-2.0
// Random questions to `suggest`, each with random locks and whole layouts that try to beat its
// answer: bench_locks [QUESTIONS [SEED [GPUS [each]]]]. With `each` every axis is also held at
// every value that a layout of the question may have. Each question has a seed of its own, SEED for
// the first one, so that `bench_locks 1 SEED` asks one of them again. A line for each answer that
// is beaten; at the end figures as JSON. The exit code is 1 if one is beaten by more than what
// counts as a tie.
#include "sweep/layout_text.hpp"
#include "unit/plan/random_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace shardsweep;

int main(int argc, char** argv) {
  const int questions = argc > 1 ? std::atoi(argv[1]) : 1000;
  const auto seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const int gpus = argc > 3 ? std::atoi(argv[3]) : 2048;
  const bool each = argc > 4 && std::string_view(argv[4]) == "each";
  constexpr int axes = 4;
  constexpr int layouts = 40;
  int beaten = 0;
  int shorter = 0;
  int unanswered = 0;
  std::int64_t locks = 0;
  double largest = 0;
  double slowest_s = 0;
  for (auto number = seed; number < seed + static_cast<std::uint64_t>(questions); ++number) {
    testing::RandomQuestions random(number);
    const auto asked = random.next(gpus);
    const auto began = std::chrono::steady_clock::now();
    const auto answer = judge_layouts(asked);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    slowest_s = std::max(slowest_s, took.count());
    auto tried = random.try_to_beat(asked, axes, layouts);
    locks += tried.locks;
    if (each) {
      const auto more = testing::RandomQuestions::try_each_lock(asked);
      locks += more.locks;
      if (more.gap > tried.gap) tried = more;
    }
    constexpr double rounding = 1e-9;
    if (tried.gap > rounding) ++shorter;
    if (tried.gap <= testing::tie) continue;
    ++beaten;
    if (tried.gap == 1)
      ++unanswered;
    else
      largest = std::max(largest, tried.gap);
    fmt::print("{}: {}: {:.3f} %, {} in place of {}\n", number, testing::question_text(asked),
        100 * tried.gap, tried.locked,
        answer && !answer->fitting.empty() ? layout_text(answer->fitting.front().point) : "none");
    std::fflush(stdout);
  }
  fmt::print(
      "{{\"bench\": \"locks\", \"questions\": {}, \"locks\": {}, \"beaten\": {}, "
      "\"beaten_within_a_tie\": {}, \"beaten_without_answer\": {}, \"largest_gap\": {:.5f}, "
      "\"slowest_s\": {:.2f}}}\n",
      questions, locks, beaten, shorter - beaten, unanswered, largest, slowest_s);
  return beaten > 0 ? 1 : 0;
}
