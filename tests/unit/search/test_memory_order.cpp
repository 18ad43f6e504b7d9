// SPDX-License-Identifier: Apache-2.0
#include "search/cell_search.hpp"
#include "search/search_point.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

Point ordered_point(
    std::int32_t tp, std::int32_t pp, std::int32_t micro_batch, std::int32_t zero = 1) {
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

SearchPoint candidate(const Point& point) {
  return {.model = llama3_8b(), .point = point};
}

SearchPoint with(SearchPoint at, void (*change)(SearchPoint&)) {
  change(at);
  return at;
}

constexpr SearchSettings best_first{.policy = SearchPolicy::best_first};

}  // namespace

TEST_CASE("what is larger in some way and smaller in none needs as much memory") {
  const auto base = candidate(ordered_point(4, 2, 4));
  CHECK(needs_as_much(base, base));
  for (const auto& larger : {ordered_point(4, 2, 8), ordered_point(4, 2, 4, 0)}) {
    CHECK(needs_as_much(candidate(larger), base));
    CHECK_FALSE(needs_as_much(base, candidate(larger)));
  }
  const auto less =
      with(base, [](SearchPoint& at) { at.point.layout.recompute = Recompute::full; });
  CHECK(needs_as_much(base, less));
  CHECK_FALSE(needs_as_much(less, base));
}

TEST_CASE("layouts that differ in a mechanism are not held against each other") {
  const auto base = candidate(ordered_point(4, 2, 4));
  const auto larger = candidate(ordered_point(4, 2, 8));
  // Other degrees: it takes an estimate to say which needs more.
  CHECK_FALSE(needs_as_much(candidate(ordered_point(2, 2, 8)), base));
  CHECK_FALSE(needs_as_much(candidate(ordered_point(4, 1, 8)), base));
  constexpr std::array<void (*)(SearchPoint&), 5> changes{
      [](SearchPoint& at) { at.traits.flash_attention = false; },
      [](SearchPoint& at) { at.software = "another kernel"; },
      [](SearchPoint& at) { at.point.vars = {1}; }, [](SearchPoint& at) { at.unknown.zero = true; },
      [](SearchPoint& at) { at.point.layout.sequence_parallel = false; }};
  for (const auto change : changes)
    CHECK_FALSE(needs_as_much(with(larger, change), base));
  // Of as many micro-batches as stages none waits for memory that another gives back.
  const auto filled = with(larger, [](SearchPoint& at) { at.point.layout.grad_accum = 2; });
  CHECK_FALSE(needs_as_much(filled, base));
}

namespace {

/// The same degrees of TP and PP on another number of GPUs.
SearchPoint on_gpus(std::int32_t gpus, const Point& at) {
  auto other = candidate(at);
  other.point.gpus = gpus;
  other.point.nodes = gpus / 8;
  auto& layout = other.point.layout;
  layout.dp = gpus / layout.tp / layout.pp;
  layout.grad_accum = 256 / layout.dp / layout.micro_batch;
  return other;
}

}  // namespace

TEST_CASE("without ZeRO a rank holds the same on any number of nodes, with it less on more") {
  const auto whole = ordered_point(4, 2, 4, 0);
  const auto sharded = ordered_point(4, 2, 4, 1);
  CHECK(needs_as_much(on_gpus(64, whole), on_gpus(32, whole)));
  CHECK(needs_as_much(on_gpus(64, whole), on_gpus(32, sharded)));
  CHECK(needs_as_much(on_gpus(32, sharded), on_gpus(64, sharded)));
  CHECK_FALSE(needs_as_much(on_gpus(64, sharded), on_gpus(32, sharded)));
  // More ranks need larger buffers for each other; one alone needs none, and no buckets.
  CHECK_FALSE(needs_as_much(on_gpus(32, whole), on_gpus(64, whole)));
  CHECK_FALSE(needs_as_much(on_gpus(8, sharded), on_gpus(32, sharded)));
}

TEST_CASE("an OOM of another cell rules out what needs as much here") {
  for (const bool rule : {true, false}) {
    auto settings = best_first;
    settings.rules.memory = rule;
    CellSearch search(settings, h100(), predictor());
    search.add(candidate(ordered_point(4, 2, 4, 0)));
    search.add(candidate(ordered_point(4, 2, 4, 1)));
    constexpr std::size_t lesson = 7;
    search.learn(on_gpus(16, ordered_point(4, 2, 4, 0)), {.outcome = Outcome::oom}, lesson);
    search.learn(with(on_gpus(16, ordered_point(4, 2, 1, 1)),
                     [](SearchPoint& at) { at.model.name = "another"; }),
        {.outcome = Outcome::oom}, lesson);
    REQUIRE((search.ruled_out_by(0) != nullptr) == rule);
    if (rule) {
      CHECK_FALSE(search.ruled_out_by(0)->number);
      CHECK(search.ruled_out_by(0)->lesson == lesson);
    }
    CHECK(search.ruled_out_by(1) == nullptr);
  }
}

TEST_CASE("an OOM rules out what needs as much unless the rule is off or a need is unknown") {
  const std::vector<Point> points{ordered_point(4, 2, 4), ordered_point(4, 2, 8),
      ordered_point(4, 2, 4, 0), ordered_point(8, 2, 1)};
  for (const bool rule : {true, false}) {
    auto settings = best_first;
    settings.rules.memory = rule;
    CellSearch search(settings, h100(), predictor());
    for (const auto& point : points)
      search.add(candidate(point));
    search.add(with(
        candidate(ordered_point(4, 2, 16)), [](SearchPoint& at) { at.unknown.recompute = true; }));
    search.end(0, {.outcome = Outcome::oom});
    CHECK((search.ruled_out_by(1) != nullptr) == rule);
    CHECK((search.ruled_out_by(2) != nullptr) == rule);
    CHECK(search.ruled_out_by(3) == nullptr);
    CHECK(search.ruled_out_by(4) == nullptr);
    if (rule) CHECK(search.ruled_out_by(1)->number == 0U);
  }
}

TEST_CASE("an OOM rules nothing out if what needs as much has run, before it or after") {
  // Two kernels, of which the table says nothing: a layout that ran beside its twin that did
  // not.
  for (const bool ran_first : {true, false}) {
    CAPTURE(ran_first);
    CellSearch search(best_first, h100(), predictor());
    const auto failing = search.add(candidate(ordered_point(4, 2, 4)));
    const auto twin = search.add(candidate(ordered_point(4, 2, 4)));
    const auto larger = search.add(candidate(ordered_point(4, 2, 8)));
    const auto smaller = search.add(candidate(ordered_point(4, 2, 2)));
    const SearchNews ran{.outcome = Outcome::completed, .tokens_per_s_per_gpu = 3000};
    search.end(smaller, ran);
    if (ran_first) search.end(twin, ran);
    search.end(failing, {.outcome = Outcome::oom});
    // One that needs less says nothing against it.
    CHECK((search.ruled_out_by(larger) != nullptr) == !ran_first);
    if (!ran_first) search.end(twin, ran);
    CHECK(search.ruled_out_by(larger) == nullptr);
  }
}

TEST_CASE("the chance to fit is a factor of the order and no tier") {
  // Predicted above the GPU's memory, and twice as fast as what surely fits.
  CellSearch search(best_first, h100(), predictor());
  const auto slow = search.add(candidate(ordered_point(8, 4, 1)));
  const auto doubtful = search.add(candidate(ordered_point(2, 2, 4)));
  const auto hopeless = search.add(candidate(ordered_point(1, 1, 8, 0)));
  const auto order = search.order();
  CHECK(order == std::vector<std::size_t>{doubtful, slow, hopeless});
}

TEST_CASE("what most likely does not fit is left out, and taken back by measurements") {
  CellSearch search(best_first, h100(), predictor());
  const auto small = search.add(candidate(ordered_point(8, 4, 1)));
  const auto tight = search.add(candidate(ordered_point(2, 2, 4)));
  const auto hopeless = search.add(candidate(ordered_point(1, 2, 4)));
  // Not before the cell has run anything.
  CHECK_FALSE(search.wont_fit(hopeless));
  search.start(small);
  search.end(small, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = 3000});
  REQUIRE(search.wont_fit(hopeless));
  CHECK(search.wont_fit(hopeless)->find("Judging by the memory of runs so far") == 0);
  CHECK_FALSE(search.wont_fit(tight));
  CHECK_FALSE(search.wont_fit(small));
  search.spare(hopeless);
  CHECK(search.to_reopen(0).empty());
  // A trainer that needs half of what its family says.
  for (int i = 0; i < 6; ++i)
    search.end(search.add(candidate(ordered_point(2, 2, 8))),
        {.outcome = Outcome::completed,
            .tokens_per_s_per_gpu = 3000,
            .peak_bytes = 50'000'000'000});
  CHECK(search.to_reopen(0) == std::vector<std::size_t>{hopeless});
}

TEST_CASE("what links carry in one cell is known in the next, and memory is a cell's own") {
  CellSearch search(best_first, h100(), predictor());
  const auto across = search.add(candidate(ordered_point(16, 1, 4)));
  const auto inside = search.add(candidate(ordered_point(4, 2, 4)));
  const auto across_before = search.outlook(across);
  const auto inside_before = search.outlook(inside);
  auto elsewhere = candidate(ordered_point(16, 1, 4));
  elsewhere.point.nodes = 2;
  elsewhere.point.gpus = 16;
  elsewhere.point.layout.dp = 1;
  const double predicted =
      speed_of(predictor().guess(elsewhere.model, elsewhere.point).step_s, elsewhere.point);
  for (int i = 0; i < 3; ++i)
    search.learn(elsewhere, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = predicted / 4});
  for (int i = 0; i < 3; ++i)
    search.learn(elsewhere, {.outcome = Outcome::oom});
  const auto across_after = search.outlook(across);
  const auto inside_after = search.outlook(inside);
  const auto ratio = [](const CellSearch::Outlook& after, const CellSearch::Outlook& before) {
    return after.tokens_per_s_per_gpu / before.tokens_per_s_per_gpu;
  };
  CHECK(ratio(across_after, across_before) < 0.6);
  CHECK(ratio(inside_after, inside_before) > 1.3 * ratio(across_after, across_before));
  CHECK(across_after.fits == across_before.fits);
  CHECK(inside_after.fits == inside_before.fits);
}

TEST_CASE("a network that was slow twice is slow for all whose tensor parallelism leaves a node") {
  CellSearch search(best_first, h100(), predictor());
  const auto first = search.add(candidate(ordered_point(16, 1, 4)));
  const auto second = search.add(candidate(ordered_point(16, 1, 2)));
  const auto across = search.add(candidate(ordered_point(16, 1, 8)));
  const auto inside = search.add(candidate(ordered_point(4, 2, 4)));
  const double expected = search.outlook(first).tokens_per_s_per_gpu;
  const double expected_next = search.outlook(second).tokens_per_s_per_gpu;
  const double across_before = search.outlook(across).tokens_per_s_per_gpu;
  const double inside_before = search.outlook(inside).tokens_per_s_per_gpu;
  search.start(first);
  search.end(first, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = expected / 6});
  CHECK(search.outlook(across).tokens_per_s_per_gpu > across_before / 3);
  search.start(second);
  search.end(second, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = expected_next / 6});
  CHECK(search.outlook(across).tokens_per_s_per_gpu < across_before / 3);
  CHECK(search.outlook(inside).tokens_per_s_per_gpu > inside_before / 1.5);
}

TEST_CASE("who computes less again needs as much, if it is a part of what the other does") {
  const auto recomputing = [](std::string_view word) {
    auto point = ordered_point(2, 1, 8);
    const auto* found = std::find(recompute_words.begin(), recompute_words.end(), word);
    REQUIRE(found != recompute_words.end());
    point.layout.recompute = static_cast<Recompute>(found - recompute_words.begin());
    return candidate(point);
  };
  const auto as_much = [&](std::string_view mine, std::string_view other) {
    return needs_as_much(recomputing(mine), recomputing(other));
  };
  CHECK(as_much("none", "selective"));
  CHECK(as_much("selective", "full"));
  CHECK(as_much("mlp", "layernorm+mlp"));
  CHECK(as_much("none", "moe"));
  CHECK(as_much("mla_up_proj+layernorm+moe_act", "full"));
  CHECK_FALSE(as_much("full", "layernorm"));
  CHECK_FALSE(as_much("layernorm+mlp", "mlp"));
  CHECK_FALSE(as_much("layernorm", "mlp"));
  CHECK_FALSE(as_much("selective", "layernorm"));
}
