// SPDX-License-Identifier: Apache-2.0
#include "text/placeholders.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

const Placeholders values{
    {"dp", "4"}, {"sequence_parallel", "true"}, {"overlap", "false"}, {"recompute", "full"}};

std::string text(std::string_view from, DoubleBraces braces = DoubleBraces::make_single) {
  return filled(from, values, braces);
}

std::string fault_of(std::string_view from) {
  const auto checked = check_placeholders(from, {"dp", "micro_batch", "recompute"});
  return checked ? "" : checked.error().what;
}

}  // namespace

TEST_CASE("a placeholder becomes its value, everything else stays as it is") {
  CHECK(text("--dp={dp}, {dp}{dp}") == "--dp=4, 44");
  CHECK(text(R"({"dp": {dp}, "other": {"dp": 1}, "list": [{}]})") ==
      R"({"dp": 4, "other": {"dp": 1}, "list": [{}]})");
  CHECK(text("{rank} {Dp} {dp {2x} {") == "{rank} {Dp} {dp {2x} {");
  CHECK(text("").empty());
}

TEST_CASE("double braces are a placeholder's text") {
  CHECK(text("{{dp}} of {{x}}") == "{dp} of {x}");
  CHECK(text("{{dp}} {dp}", DoubleBraces::keep) == "{{dp}} 4");
  CHECK(text(R"({"a": {"b": {dp}}})") == R"({"a": {"b": 4}})");
}

TEST_CASE("a conditional word is there or not") {
  const auto words = [](const char* word) {
    return filled_words({"x", word}, values, DoubleBraces::make_single);
  };
  using Words = std::vector<std::string>;
  CHECK(words("{sequence_parallel?--sp}") == Words{"x", "--sp"});
  CHECK(words("{overlap?--overlap}") == Words{"x"});
  CHECK(words("{recompute=full?--recompute={recompute}}") == Words{"x", "--recompute=full"});
  CHECK(words("{recompute=none?--none}") == Words{"x"});
  CHECK(words("{rank?--rank}") == Words{"x", "{rank?--rank}"});
}

TEST_CASE("an unknown placeholder is a fault with the nearest one") {
  CHECK(fault_of("{dp} {{nothing}} {\"json\": 1} {recompute=full?--x}").empty());
  CHECK(fault_of("--mbs={micro_bach}") ==
      "unknown placeholder {micro_bach}, did you mean 'micro_batch'? Write {{micro_bach}} for "
      "the text itself.");
  CHECK(fault_of("{zzzzzzzz}") ==
      "unknown placeholder {zzzzzzzz}. Write {{zzzzzzzz}} for the text itself.");
  CHECK(fault_of("{recompue?--x}").starts_with("unknown placeholder {recompue}"));
}

TEST_CASE("a placeholder in capitals is refused, and a shell's variable is not") {
  CHECK(fault_of("--mbs={MICRO_BATCH}").find("write {micro_batch}") != std::string::npos);
  CHECK(fault_of("exec x --mbs=${MICRO_BATCH} {OTHER} {{MICRO_BATCH}}").empty());
}
