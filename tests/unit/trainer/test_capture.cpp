// SPDX-License-Identifier: Apache-2.0
#include "trainer/log_reader.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace shardsweep;

namespace {

/// "key=value key=value", or the fault.
std::string taken(std::string_view pattern, std::string_view line) {
  const auto parsed = CapturePattern::parse(pattern);
  if (!parsed) return parsed.error().what;
  std::string text;
  for (const auto& [key, number] : parsed->capture(line)) {
    if (!text.empty()) text += ' ';
    text += std::string(key) + '=' + std::to_string(number.value);
  }
  return text;
}

}  // namespace

TEST_CASE("{iteration:next} takes no text, and fits a line that the rest of the pattern fits") {
  CHECK(taken("{iteration:next}*'loss': {loss}", "{'loss': 5.5, 'epoch': 1}") ==
      "iteration:next=0.000000 loss=5.500000");
  CHECK(taken("{iteration:next}*'loss': {loss}", "{'eval_loss': 5.5}").empty());
  CHECK(taken("step is over{iteration:next}", "12:00 step is over") == "iteration:next=0.000000");
}

TEST_CASE("numbers are read as trainers print them") {
  const auto value = [](std::string_view text, bool human = false) {
    const auto read = read_number(text, human);
    return read ? read->first.value : -1;
  };
  CHECK(value("512.4 |") == doctest::Approx(512.4));
  CHECK(value("1.083120E+01 |") == doctest::Approx(10.8312));
  CHECK(value("3e-05") == doctest::Approx(3e-5));
  CHECK(value("12,345,678 tps") == 12345678);
  CHECK(value("12, 34") == 12);
  CHECK(value("1,2345") == 1);
  CHECK(value("-0.5") == doctest::Approx(-0.5));
  CHECK(value("4.") == 4);
  CHECK(value("12.3K", true) == doctest::Approx(12300));
  CHECK(value("12.3K") == doctest::Approx(12.3));
  CHECK(value("55.1MiB", true) == doctest::Approx(55.1));
  CHECK(value("1.05M|", true) == doctest::Approx(1.05e6));
  CHECK(std::isnan(value("nan")));
  CHECK(std::isinf(value("inf")));
  CHECK_FALSE(read_number("", false));
  CHECK_FALSE(read_number("None", false));
  CHECK_FALSE(read_number("-", false));
  CHECK_FALSE(read_number(",123", false));
  CHECK(std::isfinite(value("1e999999999")) == false);
}

TEST_CASE("a printed number says what rounding may hide") {
  CHECK(read_number("512.4", false)->first.half_unit == doctest::Approx(0.05));
  CHECK(read_number("12.3K", true)->first.half_unit == doctest::Approx(50));
  CHECK(read_number("1.083120E+01", false)->first.half_unit == doctest::Approx(5e-6));
  CHECK(read_number("6,123", false)->first.half_unit == doctest::Approx(0.5));
}

TEST_CASE("a pattern takes numbers out of a line") {
  CHECK(taken("took {step_ms} ms", "step 7 took 12.5 ms") == "step_ms=12.500000");
  CHECK(taken("step {iteration}*took {step_ms} ms", "the step 7, it took  12.5 ms") ==
      "iteration=7.000000 step_ms=12.500000");
  CHECK(taken("step {iteration} took {step_ms}", "step 7 and then took 12.5") == "");
  CHECK(taken("loss {loss}", "loss is 3, loss 2.5") == "loss=2.500000");
  CHECK(taken("took {step_ms}", "it took long") == "");
  CHECK(taken("a*b{loss}", "b1 a b2") == "loss=2.000000");
  CHECK(taken("{iteration}: done", "12: done") == "iteration=12.000000");
}

TEST_CASE("a time of hours, minutes and seconds is taken as seconds") {
  CHECK(taken("[{elapsed_s:clock}<", "10/69 [10:55<1:11:19, 72.53s/it]") == "elapsed_s=655.000000");
  CHECK(taken("took {elapsed_s:clock},", "took 1 day, 1:02:03, and") == "elapsed_s=90123.000000");
  CHECK(taken("'{elapsed_s:clock}'", "'1h 6m 5s'") == "elapsed_s=3965.000000");
  CHECK(taken("'{elapsed_s:clock}'", "'2d 7s'") == "elapsed_s=172807.000000");
  // Rounding hides half of the last unit, whichever that is.
  for (const auto& [text, half] : {std::pair{"2h 5m", 30.0}, {"2h", 1800.0}, {"2h 5m 3s", 0.5},
           {"2h 5", 1800.0}, {"1 day, 1:02:03", 0.5}, {"0:01.5", 0.05}}) {
    const auto clock = read_clock(text);
    REQUIRE(clock);
    CHECK_MESSAGE(clock->first.half_unit == doctest::Approx(half), text);
  }
  CHECK(taken("at {elapsed_s:clock}", "at 0:01.5") == "elapsed_s=1.500000");
  CHECK(taken("at {elapsed_s:clock}", "at 12 and 3 months") == "");
  CHECK(taken("at {elapsed_s:clock}", "at 3months") == "");
  CHECK(taken("at {elapsed_s:clock}", "at ?") == "");
}

TEST_CASE("a pattern that can't be one says why") {
  CHECK(taken("took ms", "") ==
      "pattern 'took ms': no key takes a number; write for example {step_ms} in the number's "
      "place");
  CHECK(taken("took {step_ms ms", "") == "pattern 'took {step_ms ms': a '{' has no '}'");
  CHECK(
      taken("took {}", "") == "pattern 'took {}': '{}' is not a key; write for example {step_ms}");
  CHECK(taken("{loss}{step_ms}", "") ==
      "pattern '{loss}{step_ms}': text must stand in front of each {key}");
}

TEST_CASE("a line loses what terminals and launchers add") {
  CHECK(clean_line("\x1b[32mstep: 1\x1b[0m\r") == "step: 1");
  CHECK(clean_line("[default15]: iteration 3/") == " iteration 3/");
  CHECK(clean_line("[rank0]:loss") == "loss");
  CHECK(clean_line("15: [default3]:loss") == "loss");
  CHECK(clean_line("[Rank 0] step=1") == "[Rank 0] step=1");
  CHECK(clean_line("12:30:00 loss") == "12:30:00 loss");
  CHECK(clean_line("\x1b[") == "");
  CHECK(clean_line(std::string(100'000, 'x')).size() == longest_log_line);
}
