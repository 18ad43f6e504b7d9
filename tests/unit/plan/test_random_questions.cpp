// SPDX-License-Identifier: Apache-2.0
#include "unit/plan/random_questions.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <ostream>
#include <string_view>

using namespace shardsweep;
using namespace shardsweep::testing;

// 1,000 questions on up to 2,048 GPUs by hand: scripts/bench locks.
TEST_CASE("no lock and no layout beats the answer to a random question") {
  constexpr int questions = 40;
  constexpr int axes_held = 3;
  constexpr int layouts = 15;
  constexpr std::int32_t most_gpus = 64;
  RandomQuestions random(51);
  int held = 0;
  for (int number = 0; number < questions; ++number) {
    const auto asked = random.next(most_gpus);
    const auto tried = random.try_to_beat(asked, axes_held, layouts);
    held += tried.locks;
    CHECK_MESSAGE(tried.gap <= tie, question_text(asked) << ": " << tried.locked);
  }
  CHECK(held > 60);
}

TEST_CASE("splits whose usual layout can't start are looked at in other ways to run them") {
  struct Beaten {
    std::uint64_t seed;
    std::string_view axis;
    std::int64_t value;
  };
  // Nanotron's 1F1B needs more micro-batches than its all-forward-all-backward; 32 layers make no
  // three equal stages, but thirty equal pieces.
  constexpr std::array<Beaten, 2> known{{{20005, "schedule", 1}, {5230, "rank_order", 1}}};
  for (const auto& [seed, name, value] : known) {
    RandomQuestions random(seed);
    const auto asked = random.next(2048);
    auto held = asked;
    held.locks = {{find_axis(name), false, {value}}};
    const auto answer = judge_layouts(asked).value();
    const auto its = judge_layouts(held).value();
    REQUIRE(!answer.fitting.empty());
    REQUIRE(!its.fitting.empty());
    CHECK_MESSAGE(
        answer.fitting.front().guess.step_s <= (1 + tie) * its.fitting.front().guess.step_s,
        question_text(asked) << " with " << name);
  }
}
