// SPDX-License-Identifier: Apache-2.0
#include "unit/plan/random_questions.hpp"

#include <doctest/doctest.h>

#include <ostream>

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
