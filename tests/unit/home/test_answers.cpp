// SPDX-License-Identifier: Apache-2.0
// Answers as they are kept beside what was done.
#include <shardsweep/requests.hpp>

#include <doctest/doctest.h>

using namespace shardsweep;

TEST_CASE("the kind of a fault is kept as its word") {
  for (std::size_t i = 0; i < word_table<FaultKind>.size(); ++i) {
    const auto kind = static_cast<FaultKind>(i);
    const Answer answer{.id = "1-a", .fault = Fault{kind, "why"}, .text = "t", .counts = {}};
    const std::string text = encode(answer);
    CHECK(text.find(word_of(kind)) != std::string::npos);
    const auto back = decode_answer("1-a", text);
    REQUIRE(back);
    CHECK(back->fault == answer.fault);
    CHECK(back->text == "t");
  }
}

TEST_CASE("an answer of an earlier version has its kind of fault as a number") {
  const auto kind_of = [](const std::string& kind) {
    return decode_answer(
        "1-a", R"({"text":"","counts":{},"fault":{"kind":)" + kind + R"(,"what":"x"}})");
  };
  REQUIRE(kind_of("0"));
  CHECK(kind_of("0")->fault->kind == FaultKind::invalid_input);
  REQUIRE(kind_of("4"));
  CHECK(kind_of("4")->fault->kind == FaultKind::busy);
  for (const char* wrong : {"-1", "8", "1.5", "null", R"("no such kind")", "18446744073709551615"})
    CHECK_MESSAGE(!kind_of(wrong), wrong);
}
