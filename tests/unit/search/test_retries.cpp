// SPDX-License-Identifier: Apache-2.0
// A trainer whose allocator asks again and again near the limit loses most of its speed there.
// Which layouts are that near is in doubt as long as nothing has shown it.
#include "search/cell_search.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct Found {
  SearchPoint point;
  Guess guess;
};

SearchPoint with_tokens(std::int32_t seq_len) {
  SearchPoint at{.model = llama3_8b(), .point = {.nodes = 1, .gpus = 8, .seq_len = seq_len}};
  at.point.layout = {.dp = 2, .tp = 4, .micro_batch = 4, .grad_accum = 8};
  return at;
}

/// A layout whose estimate is near enough to what a device holds that retries are predicted.
std::optional<Found> predicted_to_retry(const Predictor& predictor) {
  constexpr double log_retries = 1.5;
  for (std::int32_t seq_len = 1024; seq_len <= 65536; seq_len += 128) {
    auto point = with_tokens(seq_len);
    const auto guess = predictor.guess(point.model, point.point);
    if (guess.retries > log_retries && guess.memory.fit != Fit::never) return Found{point, guess};
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a layout that may have room is not believed to be slowed down by retries") {
  const Predictor predictor(h100(), **find_family("nanotron"));
  const auto found = predicted_to_retry(predictor);
  REQUIRE(found);
  CellSearch search({.policy = SearchPolicy::best_first}, h100(), predictor);
  const auto near = search.add(found->point);
  search.add(with_tokens(1024));
  const auto outlook = search.outlook(near);
  const double with_room = speed_of(found->guess.step_s / found->guess.retries, found->point.point);
  CHECK(outlook.tokens_per_s_per_gpu * std::exp(2 * outlook.sigma) > with_room);
  CHECK(outlook.tokens_per_s_per_gpu < with_room);
}

TEST_CASE("a run that had room for all that was said says nothing of the time of others") {
  const Predictor predictor(h100(), **find_family("nanotron"));
  const auto found = predicted_to_retry(predictor);
  REQUIRE(found);
  CellSearch search({.policy = SearchPolicy::best_first}, h100(), predictor);
  const auto near = search.add(found->point);
  const auto other = search.add(with_tokens(1024));
  const double before = search.outlook(other).tokens_per_s_per_gpu;
  search.start(near);
  search.end(near,
      {.outcome = Outcome::completed,
          .tokens_per_s_per_gpu =
              speed_of(found->guess.step_s / found->guess.retries, found->point.point)});
  CHECK(search.outlook(other).tokens_per_s_per_gpu == doctest::Approx(before).epsilon(0.1));
}
