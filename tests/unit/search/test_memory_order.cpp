// SPDX-License-Identifier: Apache-2.0
#include "search/cell_search.hpp"
#include "search/memory_order.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

Point point_of(std::int32_t tp, std::int32_t pp, std::int32_t micro_batch,
               std::int32_t zero = 1) {
  Point point;
  point.nodes = 4;
  point.gpus = 32;
  point.seq_len = 4096;
  auto& layout = point.layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.dp = 32 / tp / pp;
  layout.micro_batch = micro_batch;
  layout.grad_accum = 256 / layout.dp / micro_batch;
  layout.zero = zero;
  layout.sequence_parallel = tp > 1;
  return point;
}

Predictor predictor() {
  return {h100(), **find_family("nanotron")};
}

MemoryNeed need_of(const Point& point) {
  return memory_need(predictor(), llama3_8b(), point, {});
}

SearchPoint candidate(const Point& point, bool known = true) {
  return {.model = llama3_8b(), .point = point, .traits = {}, .memory_is_known = known};
}

constexpr SearchSettings best_first{.policy = SearchPolicy::best_first};

}  // namespace

TEST_CASE("what is larger in some way and smaller in none needs as much memory") {
  const auto base = need_of(point_of(4, 2, 4));
  CHECK(needs_as_much(base, base));
  for (const auto& larger : {point_of(4, 2, 8), point_of(2, 2, 4), point_of(4, 2, 4, 0)}) {
    CHECK(needs_as_much(need_of(larger), base));
    CHECK_FALSE(needs_as_much(base, need_of(larger)));
  }
}

TEST_CASE("layouts whose estimates may err in other ways are not held against each other") {
  const auto pipeline = need_of(point_of(2, 2, 1));
  const auto whole = need_of(point_of(2, 1, 8));
  CHECK_FALSE(needs_as_much(whole, pipeline));
  // TP's gathered rows are in the one that failed alone.
  const auto tensor = need_of(point_of(2, 2, 1));
  auto plain = need_of(point_of(1, 2, 4));
  CHECK(plain.stages[0].lower > tensor.stages[0].lower);
  CHECK_FALSE(needs_as_much(plain, tensor));
  CHECK(needs_as_much(need_of(point_of(2, 2, 8)), need_of(point_of(1, 2, 1))));
  // Of as many micro-batches as stages none waits for memory that another gives back.
  auto filled = need_of(point_of(2, 2, 8));
  filled.steady = false;
  CHECK(need_of(point_of(2, 2, 1)).steady);
  CHECK_FALSE(needs_as_much(filled, need_of(point_of(2, 2, 1))));
}

TEST_CASE("the stage that most likely failed is the one that is compared") {
  // With few layers the last stage, which has the logits, needs most.
  auto model = llama3_8b();
  model.layers = 4;
  auto point = point_of(1, 2, 8);
  point.layout.grad_accum = 1;
  const auto need = memory_need(predictor(), model, point, {});
  CHECK(need.worst == MemoryNeed::last);
  CHECK(need.stages[1].estimate > need.stages[0].estimate);
  auto more = need;
  more.stages[0] = {};
  CHECK(needs_as_much(more, need));
  more.stages[1].lower -= 1;
  CHECK_FALSE(needs_as_much(more, need));
}

TEST_CASE("an OOM rules out what needs as much unless the rule is off or a need is unknown") {
  const std::vector<Point> points{point_of(4, 2, 4), point_of(4, 2, 8), point_of(2, 2, 4),
                                  point_of(8, 2, 1)};
  for (const bool rule : {true, false}) {
    auto settings = best_first;
    settings.rules.memory = rule;
    CellSearch search(settings, h100(), predictor());
    for (const auto& point : points)
      search.add(candidate(point));
    search.add(candidate(point_of(4, 2, 16), false));
    search.end(0, {.outcome = Outcome::oom});
    CHECK(search.ruled_out_by(1).has_value() == rule);
    CHECK(search.ruled_out_by(2).has_value() == rule);
    CHECK_FALSE(search.ruled_out_by(3));
    CHECK_FALSE(search.ruled_out_by(4));
    if (rule) CHECK(*search.ruled_out_by(1) == 0);
  }
}

TEST_CASE("what most likely does not fit runs late and the least of it first") {
  CellSearch search(best_first, h100(), predictor());
  const auto tight = search.add(candidate(point_of(1, 2, 2)));
  const auto tighter = search.add(candidate(point_of(1, 2, 4)));
  const auto roomy = search.add(candidate(point_of(8, 2, 1)));
  CHECK(search.order() == std::vector<std::size_t>{roomy, tight, tighter});
}
