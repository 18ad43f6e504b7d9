// SPDX-License-Identifier: Apache-2.0
// A daemon that was started again makes its searches anew from rows: all runs at once. What it
// launches next must be what the daemon before would have launched, which had observed them one
// by one and had been asked in between.
#include "search/sweep_search.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Layouts of cells on 2 and 4 nodes, with groups of tensor-parallel ranks that leave a node.
std::vector<Point> points_of(std::int32_t accumulations) {
  std::vector<Point> points;
  for (const std::int32_t nodes : {2, 4}) {
    for (std::int32_t tp = 1; tp <= 16; tp *= 2) {
      for (std::int32_t pp = 1; pp <= 2; pp *= 2) {
        for (std::int32_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
          for (std::int32_t more = 0; more < accumulations; ++more) {
            Point point{.nodes = nodes, .gpus = 8 * nodes, .seq_len = 4096};
            auto& layout = point.layout;
            layout.tp = tp;
            layout.pp = pp;
            layout.dp = point.gpus / tp / pp;
            if (layout.dp < 1) continue;
            layout.micro_batch = micro_batch;
            layout.grad_accum = 8 + more;
            layout.zero = more % 2;
            layout.sequence_parallel = tp > 1;
            points.push_back(point);
          }
        }
      }
    }
  }
  return points;
}

/// A sweep whose runs are a formula: tensor parallelism is slower than predicted, by its degree,
/// and each run is off by some percent.
class Made {
 public:
  explicit Made(std::int32_t accumulations, bool learn_across = true)
      : points_(points_of(accumulations)), settings_{.policy = SearchPolicy::best_first} {
    settings_.learn_across = learn_across;
    // A point that is ruled out would be skipped, and not be compared.
    settings_.rules.memory = false;
  }

  [[nodiscard]] SweepSearch search() const {
    SweepSearch search(settings_, h100(), predictor_);
    search.remember({.model = small_model(), .point = points_.front()}, {.outcome = Outcome::oom});
    for (std::size_t i = 0; i < points_.size(); ++i)
      search.add({.id = id_of(i), .point = {.model = llama3_8b(), .point = points_[i]}});
    return search;
  }

  [[nodiscard]] SearchNews news_of(TrialId trial) const {
    const auto& point = points_.at(static_cast<std::size_t>(trial - 1));
    const auto guess = predictor_.guess(llama3_8b(), point);
    if (guess.memory.estimate.total() > h100().memory_bytes)
      return {.outcome = Outcome::oom, .seconds = 5};
    const auto number = static_cast<double>(trial);
    const double off = 0.03 * std::sin(number * number) - 0.2 * std::log2(point.layout.tp) -
        (trial % 11 == 0 ? 0.5 : 0);
    return {.tokens_per_s_per_gpu = speed_of(guess.step_s, point) * std::exp(off),
        .seconds = 70.0 + 50.0 * static_cast<double>(trial % 5)};
  }

  [[nodiscard]] std::vector<TrialId> trials() const {
    std::vector<TrialId> ids;
    for (std::size_t i = 0; i < points_.size(); ++i)
      ids.push_back(id_of(i));
    return ids;
  }

 private:
  static TrialId id_of(std::size_t place) { return static_cast<TrialId>(place) + 1; }

  std::vector<Point> points_;
  SearchSettings settings_;
  Predictor predictor_{h100(), **find_family("nanotron")};
};

/// Order of what waits, and what is expected of each.
using Seen = std::vector<std::pair<TrialId, std::array<double, 4>>>;
Seen advice_of(SweepSearch& search, const Made& made, const std::set<TrialId>& ended) {
  std::vector<TrialRow> rows;
  for (const TrialId id : made.trials())
    if (!ended.contains(id)) rows.push_back({.id = id});
  std::vector<const TrialRow*> waiting;
  for (const auto& row : rows)
    waiting.push_back(&row);
  Seen seen;
  for (const auto* row : search.advise(waiting).order) {
    const auto outlook = *search.outlook_of(row->id);
    seen.push_back(
        {row->id, {outlook.tokens_per_s_per_gpu, outlook.sigma, outlook.better, outlook.seconds}});
  }
  return seen;
}

/// Runs the first of both cells after each advice, and sometimes one or two more. Holds a search
/// that gets all of it at once against the one that lived through it, after so many rounds each.
void compare(const Made& made, int rounds, int each = 1) {
  auto living = made.search();
  std::vector<TrialId> ran;
  std::set<TrialId> ended;
  for (int round = 0; round < rounds; ++round) {
    const auto expected = advice_of(living, made, ended);
    if ((round + 1) % each == 0) {
      auto anew = made.search();
      for (const TrialId id : ran)
        anew.end(id, made.news_of(id));
      const auto seen = advice_of(anew, made, ended);
      CAPTURE(round);
      REQUIRE(seen == expected);
    }
    const std::vector<std::size_t> places{0, expected.size() - 1, expected.size() / 2};
    for (int i = 0; i <= round % 3; ++i) {
      const TrialId next = expected[places[static_cast<std::size_t>(i)]].first;
      living.end(next, made.news_of(next));
      ran.push_back(next);
      ended.insert(next);
    }
  }
}

}  // namespace

TEST_CASE("a search made anew from rows picks what one picks that has lived through them") {
  compare(Made(2), 24);
}

TEST_CASE("so it does in cells of thousands, of which few get a new posterior each time") {
  compare(Made(100), 12);
}

TEST_CASE("so it does after as many runs as let a cell of thousands choose between its points") {
  compare(Made(150, false), 60, 10);
}
