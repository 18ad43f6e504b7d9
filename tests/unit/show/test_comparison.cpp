// SPDX-License-Identifier: Apache-2.0
#include "show/comparison.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

TEST_CASE("noise is told from the spread of runs, and one run tells none") {
  CHECK_FALSE(noise_of_run({100, 1, std::nullopt}));
  CHECK(noise_of_run({100, 2, 0.01128}) == doctest::Approx(0.01));
  CHECK(noise_of_run({100, 3, 0.01693}) == doctest::Approx(0.01));
  // Of many runs the range says little more than of ten.
  CHECK(noise_of_run({100, 50, 0.03078}) == doctest::Approx(0.01));
  CHECK(common_noise({{1, 1, {}}, {1, 2, 0.01128}, {1, 2, 0.1128}, {1, 2, 0.02256}}) ==
        doctest::Approx(0.02));
  CHECK_FALSE(common_noise({{1, 1, {}}}));
}

TEST_CASE("a difference counts from twice its noise") {
  const Ranked fast{100, 2, 0.01128};
  const auto clear = compared(fast, {95, 2, 0.01128}, 0.01);
  CHECK(clear.certainty == Certainty::faster);
  CHECK(clear.noise_units == doctest::Approx(5));
  CHECK(comparison_text(clear) == "faster by 5.0 % (5.0 x noise)");
  const auto close = compared(fast, {99, 2, 0.01128}, 0.01);
  CHECK(close.certainty == Certainty::undecided);
  CHECK(close.runs_needed == 8);
  CHECK(comparison_text(close) ==
        "can't tell apart: 1.0 % is 1.0 x noise; about 8 runs of each would tell");
}

TEST_CASE("what both logs round away is no difference, however often they ran") {
  const Ranked fast{100, 9, 0.001, 0.004};
  const auto hidden = compared(fast, {99.3, 9, 0.001, 0.004}, 0.001);
  CHECK(hidden.certainty == Certainty::undecided);
  CHECK(comparison_text(hidden) ==
        "can't tell apart: 0.7 % is within the 0.8 % that their logs round away");
  CHECK(compared(fast, {99, 9, 0.001, 0.004}, 0.001).certainty == Certainty::faster);
  Table best{{"repeats", "runner_up_runs", "runner_up_spread", "gap_share", "repeat_spread",
              "resolution"},
             {{std::int64_t{1}, std::int64_t{1}, Value(), 0.004, Value(), 0.009}}};
  add_certainty(best);
  CHECK(std::get<std::string>(best.rows[0].back()).starts_with("can't tell apart: 0.4 %"));
}

TEST_CASE("as many runs as it names do tell") {
  const auto close = compared({100, 2, 0.01128}, {99, 2, 0.01128}, 0.01);
  const auto runs = close.runs_needed;
  const auto later = compared({100, runs, std::nullopt}, {99, runs, std::nullopt}, 0.01);
  CHECK(later.certainty == Certainty::faster);
}

TEST_CASE("without any repeat the noise is not known, however large the gap") {
  const auto once = compared({100, 1, {}}, {50, 1, {}}, std::nullopt);
  CHECK(once.certainty == Certainty::unknown);
  CHECK(comparison_text(once) == "50.0 % ahead; noise unknown: nothing ran twice");
}

TEST_CASE("a tie is said as one") {
  CHECK(comparison_text(compared({100, 1, {}}, {100, 1, {}}, std::nullopt)) ==
        "tied: to the last digit the same");
  CHECK(comparison_text(compared({100, 2, 0.01}, {100, 2, 0.01}, 0.02)) ==
        "tied: to the last digit the same");
}

TEST_CASE("two runs that agree by chance do not make a layout sure") {
  const auto lucky = compared({100, 2, 0.0}, {99, 2, 0.0}, 0.02);
  CHECK(lucky.certainty == Certainty::undecided);
}

TEST_CASE("best says of each winner how sure it is") {
  Table best{{"repeats", "runner_up_runs", "runner_up_spread", "gap_share", "repeat_spread"},
             {{std::int64_t{2}, std::int64_t{2}, 0.01128, 0.05, 0.01128},
              {std::int64_t{1}, Value(), Value(), Value(), Value()}}};
  add_certainty(best);
  CHECK(best.columns.back() == "certainty");
  CHECK(best.rows[0].back() == Value(std::string("faster by 5.0 % (5.0 x noise)")));
  CHECK(best.rows[1].back() == Value());
}
