// SPDX-License-Identifier: Apache-2.0
// An axis that a table leaves out.
#include "search/cell_search.hpp"
#include "tools/lab/readings.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

SearchPoint read_point(std::int32_t tp, std::int32_t pp, std::int32_t micro_batch) {
  SearchPoint at{.model = llama3_8b()};
  at.point.nodes = 2;
  at.point.gpus = 16;
  at.point.seq_len = 4096;
  auto& layout = at.point.layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.dp = 16 / tp / pp;
  layout.micro_batch = micro_batch;
  layout.grad_accum = 256 / layout.dp / micro_batch;
  layout.sequence_parallel = tp > 1;
  return at;
}

}  // namespace

TEST_CASE("a point has one reading where nothing is unknown, else all that it may be") {
  auto at = read_point(2, 2, 1);
  CHECK(readings_of(at).size() == 1);
  at.unknown.zero = true;
  CHECK(readings_of(at).size() == 2);
  at.unknown.recompute = true;
  at.unknown.sequence_parallel = true;
  const auto readings = readings_of(at);
  CHECK(readings.size() == 2 * 3 * 2);
  CHECK(std::any_of(readings.begin(), readings.end(), [](const Reading& one) {
    return one.point.layout.zero == 1 && one.point.layout.recompute == Recompute::full &&
        !one.point.layout.sequence_parallel;
  }));
  auto kernel = read_point(2, 2, 1);
  kernel.unknown.attention = true;
  const auto kernels = readings_of(kernel);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].traits.flash_attention == true);
  CHECK(kernels[1].traits.flash_attention == false);
  CHECK(kernels[0].kind != kernels[1].kind);
  // Without data or tensor parallelism there is nothing to shard.
  auto alone = read_point(1, 16, 1);
  alone.unknown = {.zero = true, .sequence_parallel = true};
  CHECK(readings_of(alone).size() == 1);
}

TEST_CASE("each set of recomputed modules is a kind of its own") {
  ReadingBelief belief;
  std::set<std::size_t> kinds;
  for (std::size_t i = 0; i < recompute_words.size(); ++i) {
    auto at = read_point(2, 2, 1);
    at.point.layout.recompute = static_cast<Recompute>(i);
    at.point.layout.zero = 3;
    const auto kind = readings_of(at).front().kind;
    kinds.insert(kind);
    CHECK(belief.learn(std::array{kind}, std::array{0.5}, true) == std::vector<double>{1.0});
  }
  CHECK(kinds.size() == recompute_words.size());
}

TEST_CASE("what most rows turn out to be is what the next one is taken for") {
  const std::array<std::size_t, 2> kinds{0, 6};
  ReadingBelief belief;
  CHECK(belief.weights(kinds, true)[0] == doctest::Approx(0.5));
  for (int i = 0; i < 5; ++i)
    belief.learn(kinds, std::array<double, 2>{0.9, 0.1}, true);
  CHECK(belief.weights(kinds, true)[0] > 0.85);
  CHECK(belief.weights(kinds, true)[1] > 0.02);
}

TEST_CASE("a table that mixes no readings has one after a few runs") {
  auto point = read_point(1, 2, 1);
  point.unknown.zero = true;
  std::vector<std::size_t> kinds;
  for (const auto& reading : readings_of(point))
    kinds.push_back(reading.kind);
  REQUIRE(kinds.size() >= 2);
  std::vector<double> likelihoods(kinds.size(), 0.1);
  likelihoods[1] = 1;
  ReadingBelief one;
  ReadingBelief mixed;
  for (int run = 0; run < 3; ++run) {
    (void)one.learn(kinds, likelihoods, false);
    (void)mixed.learn(kinds, likelihoods, true);
  }
  CHECK(one.weights(kinds, false)[1] > 0.99);
  CHECK(mixed.weights(kinds, true)[1] < 0.9);
}

TEST_CASE("a layout whose ZeRO stage is unknown may fit as with ZeRO 1") {
  // With ZeRO 0 eight billion parameters of 20 bytes on two GPUs are 80 GB.
  const auto at = read_point(1, 2, 1);
  auto unknown = at;
  unknown.unknown.zero = true;
  const Predictor predictor{h100(), **find_family("nanotron")};
  CellSearch search({.policy = SearchPolicy::best_first}, h100(), predictor, {}, make_readings());
  const auto small = search.add(read_point(8, 2, 1));
  const auto known = search.add(at);
  const auto open = search.add(unknown);
  const auto order = search.order();
  const auto place = [&](std::size_t number) {
    return std::find(order.begin(), order.end(), number) - order.begin();
  };
  CHECK(place(open) < place(small));
  CHECK(place(open) < place(known));
}

TEST_CASE("of two rows that their table does not tell apart each is what the other is not") {
  auto at = read_point(4, 2, 1);  // it fits with ZeRO 0 as with 1
  at.unknown.zero = true;
  const Predictor predictor{h100(), **find_family("nanotron")};
  const auto speed_with = [&](std::int32_t zero) {
    auto known = at.point;
    known.layout.zero = zero;
    return speed_of(predictor.guess(at.model, known).step_s, known);
  };
  const auto outlook_after = [&](std::int32_t zero, int alike) {
    CellSearch search({.policy = SearchPolicy::best_first}, h100(), predictor, {}, make_readings());
    std::vector<std::size_t> numbers;
    numbers.reserve(static_cast<std::size_t>(alike));
    for (int i = 0; i < alike; ++i)
      numbers.push_back(search.add(at));
    auto known = at.point;
    known.layout.zero = zero;
    search.start(numbers.front());
    search.end(numbers.front(),
        {.outcome = Outcome::completed,
            .tokens_per_s_per_gpu = speed_with(zero),
            .peak_bytes = predictor.reported_peak_bytes(at.model, known)});
    return search.outlook(numbers.back());
  };
  const double zero_0 = speed_with(0);
  const double zero_1 = speed_with(1);
  const double half_way = std::sqrt(zero_0 * zero_1);
  const bool faster = zero_1 > zero_0;
  CHECK((outlook_after(0, 2).tokens_per_s_per_gpu > half_way) == faster);
  CHECK((outlook_after(1, 2).tokens_per_s_per_gpu < half_way) == faster);
  // More rows than readings: some layout was run twice, and less follows.
  const auto of_two = outlook_after(0, 2).tokens_per_s_per_gpu;
  CHECK((outlook_after(0, 4).tokens_per_s_per_gpu < of_two) == faster);
}
