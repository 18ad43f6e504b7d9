// SPDX-License-Identifier: Apache-2.0
#include "search/cell_search.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// The i-th layout of 8 nodes: more than a search looks at closely.
Point point_at(int i) {
  Point point;
  point.nodes = 8;
  point.gpus = 64;
  point.seq_len = 4096;
  auto& layout = point.layout;
  layout.tp = 1 << (i % 4);
  layout.pp = 1 << (i / 4 % 2);
  layout.dp = 64 / layout.tp / layout.pp;
  layout.micro_batch = 1 << (i / 8 % 3);
  layout.grad_accum = 8 + i / 24;
  layout.zero = 1;
  layout.sequence_parallel = layout.tp > 1;
  return point;
}

/// TP is three times as slow as the model thinks.
double speed_at(const Point& point, const Predictor& model) {
  const double predicted = speed_of(model.guess(llama3_8b(), point).step_s, point);
  return point.layout.tp > 1 ? predicted / 3 : predicted;
}

/// Counts the posteriors that a search computes: each asks for its point's weights.
class CountingAlternatives : public Alternatives {
 public:
  explicit CountingAlternatives(std::size_t& asked) : asked_(asked) {}
  [[nodiscard]] std::vector<Alternative> of(const SearchPoint& point) const override {
    return {{point.point, point.traits}, {point.point, point.traits}};
  }
  [[nodiscard]] std::size_t add(const SearchPoint&, bool) override { return 0; }
  [[nodiscard]] std::vector<double> weights(std::size_t) const override {
    ++asked_;
    return {0.5, 0.5};
  }
  std::vector<double> learn(std::size_t, std::vector<double>) override { return {0.5, 0.5}; }

 private:
  std::size_t& asked_;
};

}  // namespace

TEST_CASE("a cell of thousands is searched by what its measurements say of all of it") {
  constexpr int size = 6000;
  const Predictor model(h100(), **find_family("nanotron"));
  CellSearch search({.policy = SearchPolicy::best_first}, h100(), model);
  double best = 0;
  for (int i = 0; i < size; ++i) {
    search.add({.model = llama3_8b(), .point = point_at(i), .traits = {}});
    best = std::max(best, speed_at(point_at(i), model));
  }
  const auto order = search.order();
  CHECK(std::set<std::size_t>(order.begin(), order.end()).size() == size);
  double found = 0;
  for (int run = 0; run < 12 && found < 0.99 * best; ++run) {
    const auto next = search.order().front();
    const double speed = speed_at(point_at(static_cast<int>(next)), model);
    search.start(next);
    CHECK(search.order().size() == static_cast<std::size_t>(size - run - 1));
    search.end(next, {.outcome = Outcome::completed, .tokens_per_s_per_gpu = speed});
    found = std::max(found, speed);
  }
  // The last percents cost train steps twice as long, as their batches are larger, and others
  // may be twice as fast if they have room.
  CHECK(found >= 0.97 * best);
  // What was handed out and comes back waits in its old place.
  const auto first = search.order().front();
  search.start(first);
  CHECK(search.order().front() != first);
  search.put_back(first);
  CHECK(search.order().front() == first);
}

TEST_CASE("what a cell of thousands leaves out costs it no pass over its points") {
  constexpr std::size_t size = 6000;
  std::size_t posteriors = 0;
  CellSearch search({.policy = SearchPolicy::best_first}, h100(),
      Predictor(h100(), **find_family("nanotron")), {},
      std::make_unique<CountingAlternatives>(posteriors));
  for (std::size_t i = 0; i < size; ++i)
    search.add({.model = llama3_8b(), .point = point_at(static_cast<int>(i)), .traits = {}});
  posteriors = 0;
  search.end(0, {.outcome = Outcome::oom});
  for (std::size_t i = 1; i < size / 10; ++i)
    search.end(i, {.outcome = Outcome::skipped});
  CHECK(posteriors <= size);
  CHECK(search.order().size() == size - size / 10);
  // The rest of it has one pass too, for the OOM.
  CHECK(posteriors <= 2 * size);
}

TEST_CASE("a cell of thousands believes what is remembered in any order") {
  const auto fits = [](bool oom_first) {
    CellSearch search(
        {.policy = SearchPolicy::best_first}, h100(), Predictor(h100(), **find_family("nanotron")));
    for (int i = 0; i < 2500; ++i)
      search.add({.model = llama3_8b(), .point = point_at(i), .traits = {}});
    const SearchPoint then{.model = llama3_8b(), .point = point_at(0), .traits = {}};
    for (const bool oom : {oom_first, !oom_first}) {
      if (oom) {
        search.remember(then, {.outcome = Outcome::oom});
      } else {
        search.remember(then, {.tokens_per_s_per_gpu = 3000});
      }
    }
    return search.outlook(0).fits;
  };
  CHECK(fits(true) == doctest::Approx(fits(false)));
}
