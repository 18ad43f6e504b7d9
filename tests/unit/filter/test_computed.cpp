// SPDX-License-Identifier: Apache-2.0
// What `exclude` says, a placeholder says too.
#include "sweep/trainer_command.hpp"
#include "text/expression.hpp"
#include "unit/sweep_fixture.hpp"

#include <shardsweep/filter.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>

using namespace shardsweep;

namespace {

class Expressions {
 public:
  std::string one(int depth) {
    if (depth == 0 || pick(4) == 0) return leaf();
    const std::string a = one(depth - 1);
    if (pick(7) == 0) return pick(2) == 0 ? "not " + a : "-(" + a + ")";
    static constexpr const char* signs[] = {
        "+", "-", "*", "/", "%", "=", "==", "!=", "<>", "<", ">", "<=", ">=", "and", "or"};
    const std::string b = one(depth - 1);
    const std::string both = a + " " + signs[pick(std::size(signs))] + " " + b;
    return pick(3) == 0 ? "(" + both + ")" : both;
  }

 private:
  std::string leaf() {
    static constexpr const char* names[] = {"tp", "pp", "dp", "micro_batch", "seq_len", "zero"};
    return pick(3) == 0 ? std::to_string(pick(9)) : names[pick(std::size(names))];
  }
  std::size_t pick(std::size_t of) { return random_() % of; }
  std::mt19937 random_{7};
};

}  // namespace

TEST_CASE("a placeholder computes what an exclusion does") {
  const SweepSpec sweep = testing::sweep_of(testing::llama3_8b(), {});
  Point point;
  point.nodes = 2;
  point.gpus = 16;
  point.seq_len = 4096;
  point.layout.tp = 4;
  point.layout.dp = 4;
  point.layout.micro_batch = 3;
  const auto values = placeholder_values(sweep, point, "attempt", 8);
  const auto text_of = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
  Expressions expressions;
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string expression = expressions.one(4);
    const auto value = computed(expression, text_of);
    // A division by zero is nothing to SQL, and a fault here.
    if (!value) continue;
    auto filter = compile_filter(sweep, {fmt::format("({}) = {}", expression, *value)});
    REQUIRE_MESSAGE(filter, expression);
    CHECK_MESSAGE((*filter)->first_match(point) == 0, expression, " is not ", *value);
    ++compared;
  }
  CHECK(compared > 1500);
}
