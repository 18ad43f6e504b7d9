// SPDX-License-Identifier: Apache-2.0
// Finals: which runs are pairs, what is decided from them, and how often that is right.
#include "search/finals.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace shardsweep;

namespace {

constexpr TrialId a = 1;
constexpr TrialId b = 2;
constexpr TrialId c = 3;

/// A cluster in which a run is as fast as its layout, its allocation and chance make it.
class NoisyCluster {
 public:
  explicit NoisyCluster(std::uint64_t seed) : random_(seed) { allocate(); }

  void allocate() {
    ++allocation_;
    allocation_speed_ = 1 + 0.02 * normal_(random_);
  }
  FinalRun run(TrialId layout, std::int32_t round, double speed, double clock = 0) {
    const double factor = allocation_speed_ * (1 + 0.003 * normal_(random_));
    return {.layout = layout,
        .round = round,
        .allocation = allocation_,
        .speed = speed * factor,
        .sm_clock_mhz = clock};
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_{0, 1};
  AllocationId allocation_ = 0;
  double allocation_speed_ = 1;
};

struct Played {
  Finals finals;
  std::vector<FinalRun> runs;
  std::int32_t rounds = 0;
};

/// Of layouts with these speeds, a first one and so on.
Played play(NoisyCluster& cluster, const std::vector<double>& speeds,
    const std::vector<double>& clocks = {}) {
  std::vector<TrialId> finalists;
  for (std::size_t i = 0; i < speeds.size(); ++i)
    finalists.push_back(static_cast<TrialId>(i) + 1);
  Played played;
  while (true) {
    played.finals = finals_of(finalists, played.runs, {});
    REQUIRE_FALSE(played.finals.waits);
    if (played.finals.next.empty()) return played;
    played.rounds = played.finals.next_round;
    for (const TrialId one : played.finals.next) {
      const auto at = static_cast<std::size_t>(one) - 1;
      played.runs.push_back(
          cluster.run(one, played.rounds, speeds[at], clocks.empty() ? 0 : clocks[at]));
    }
  }
}

/// Two repeats of each layout, each in an allocation of its own, by the usual test of means.
bool unpaired_says_faster(NoisyCluster& cluster, double first, double second, int repeats) {
  const auto sample = [&](double speed) {
    std::vector<double> logs;
    for (int i = 0; i < repeats; ++i) {
      cluster.allocate();
      logs.push_back(std::log(cluster.run(a, 1, speed).speed));
    }
    return logs;
  };
  const auto x = sample(first);
  const auto y = sample(second);
  std::vector<double> differences;
  for (std::size_t i = 0; i < x.size(); ++i)
    differences.push_back(x[i] - y[i]);
  const Interval interval = interval_of(differences, 0.05);
  return interval.above(0);
}

struct Tally {
  int right = 0;
  int faster = 0;
  int wrong = 0;
  int same = 0;
  int undecided = 0;
  double pairs = 0;
};

Tally tally_of(double difference, int finals) {
  Tally tally;
  for (int seed = 1; seed <= finals; ++seed) {
    NoisyCluster cluster(static_cast<std::uint64_t>(seed));
    const Played played = play(cluster, {1, 1 + difference});
    const FinalVerdict& verdict = played.finals.verdicts.front();
    tally.pairs += static_cast<double>(verdict.share.pairs) / finals;
    const bool faster = verdict.difference == Difference::faster;
    const bool of_the_faster = faster && verdict.winner == b;
    tally.faster += of_the_faster ? 1 : 0;
    tally.wrong += faster && !of_the_faster ? 1 : 0;
    tally.same += verdict.difference == Difference::same ? 1 : 0;
    tally.undecided += verdict.difference == Difference::undecided ? 1 : 0;
    // Half a per cent is below what matters, and may be found out all the same.
    tally.right += difference == 0 ? !faster
        : difference < 0.01        ? !faster || of_the_faster
                                   : of_the_faster;
  }
  return tally;
}

FinalRun measured(TrialId layout, std::int32_t round, AllocationId allocation, double speed) {
  return {.layout = layout, .round = round, .allocation = allocation, .speed = speed};
}

}  // namespace

TEST_CASE("verdicts of 200 finals with realistic noise are right") {
  constexpr int finals = 200;
  for (const double difference : {0.0, 0.005, 0.01, 0.03}) {
    const Tally tally = tally_of(difference, finals);
    NoisyCluster cluster(99);
    int unpaired = 0;
    const int repeats = static_cast<int>(std::lround(tally.pairs));
    for (int i = 0; i < finals; ++i)
      unpaired += unpaired_says_faster(cluster, 1 + difference, 1, repeats) ? 1 : 0;
    MESSAGE(
        fmt::format("{:.1f} %: {} of {} right; {} FASTER, {} SAME, {} UNDECIDED, {} wrong; "
                    "{:.1f} pairs; {} repeats in allocations of their own find it in {}",
            100 * difference, tally.right, finals, tally.faster, tally.same, tally.undecided,
            tally.wrong, tally.pairs, repeats, unpaired));
    CHECK(tally.right >= 190);
    CHECK(tally.wrong <= 10);
    CHECK(tally.pairs < 12);
    if (difference >= 0.01 && difference < 0.03) CHECK(unpaired < finals / 2);
  }
}

TEST_CASE("what chance can't bring to the fastest takes no part in its finals") {
  CHECK(finalists_among({}, 3) == 0);
  CHECK(finalists_among({{100}}, 3) == 1);
  CHECK(finalists_among({{100}, {99}, {91}, {90.5}}, 3) == 3);
  CHECK(finalists_among({{100}, {95}, {80}}, 3) == 2);
  CHECK(finalists_among({{100}, {80}, {79}}, 3) == 1);
  // Beside steps that vary by a quarter, 20 % may be chance.
  CHECK(finalists_among({{100}, {80, 0.25}, {79}}, 3) == 2);
  CHECK(finalists_among({{100, 0.25}, {80}, {79}, {74}}, 4) == 3);
}

TEST_CASE("an interval holds at all looks together") {
  constexpr int trials = 2000;
  constexpr int looks = 30;
  int missed = 0;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 1);
  for (int i = 0; i < trials; ++i) {
    std::vector<double> sample;
    bool outside = false;
    for (int n = 0; n < looks; ++n) {
      sample.push_back(normal(random));
      const Interval interval = interval_of(sample, 0.05);
      outside = outside || interval.above(0) ||
          (interval.half_width && interval.mean + *interval.half_width < 0);
    }
    missed += outside ? 1 : 0;
  }
  CHECK(missed < trials / 20);
  CHECK(missed > 0);
  CHECK_FALSE(half_width(1, 1, 0.05).has_value());
}

TEST_CASE("a round runs forwards, the next one backwards") {
  std::vector<FinalRun> runs;
  Finals finals = finals_of({a, b}, runs, {});
  CHECK(finals.next == std::vector<TrialId>{a, b});
  CHECK(finals.next_round == 1);
  runs = {measured(a, 1, 1, 100), measured(b, 1, 1, 101)};
  finals = finals_of({a, b}, runs, {});
  CHECK(finals.next == std::vector<TrialId>{b, a});
  CHECK(finals.next_round == 2);
}

TEST_CASE("an open run keeps the next round back, and a cancelled one ends the finals") {
  std::vector<FinalRun> runs{measured(a, 1, 1, 100), {.layout = b, .round = 1, .open = true}};
  Finals finals = finals_of({a, b}, runs, {});
  CHECK(finals.waits);
  CHECK(finals.next.empty());
  runs[1].open = false;
  runs[1].cancelled = true;
  finals = finals_of({a, b}, runs, {});
  CHECK_FALSE(finals.waits);
  CHECK(finals.next.empty());
  CHECK(finals.verdicts.front().difference == Difference::undecided);
}

TEST_CASE("runs of two allocations, and runs whose partner failed, are no pair") {
  const std::vector<FinalRun> runs{measured(a, 1, 1, 100), measured(b, 1, 2, 90),
      measured(a, 2, 2, 100), measured(b, 2, 2, 0), measured(a, 3, 2, 100), measured(b, 3, 2, 99)};
  const FinalVerdict verdict = finals_of({a, b}, runs, {}).verdicts.front();
  CHECK(verdict.share.pairs == 1);
  CHECK(verdict.thrown_away == 3);
  CHECK(verdict.share.mean == doctest::Approx(std::log(100.0 / 99)));
}

TEST_CASE("finals have no end before a resolved difference, and one after it") {
  NoisyCluster cluster(3);
  const Played three = play(cluster, {1, 1.03, 1.0301});
  CHECK(three.finals.ranking.back() == a);
  // What is resolved drops out; what is too close goes on.
  const auto runs_of = [&](TrialId layout) {
    return std::count_if(three.runs.begin(), three.runs.end(),
        [&](const FinalRun& run) { return run.layout == layout; });
  };
  CHECK(runs_of(a) < runs_of(b));
  CHECK(runs_of(b) == runs_of(c));
  CHECK(three.rounds <= most_rounds);
}

TEST_CASE("a number of rounds is run whatever they say") {
  std::vector<FinalRun> runs;
  const FinalsSettings settings{.rounds = 3};
  for (std::int32_t round = 1; round <= 3; ++round) {
    CHECK(finals_of({a, b}, runs, settings).next_round == round);
    runs.push_back(measured(a, round, 1, 100));
    runs.push_back(measured(b, round, 1, 50));
  }
  CHECK(finals_of({a, b}, runs, settings).next.empty());
}

TEST_CASE("a layout that never runs in the finals ends its rounds") {
  std::vector<FinalRun> runs;
  std::int32_t rounds = 0;
  while (true) {
    const Finals finals = finals_of({a, b}, runs, {});
    if (finals.next.empty()) break;
    rounds = finals.next_round;
    REQUIRE(rounds <= most_rounds);
    runs.push_back(measured(a, rounds, 1, 100));
    runs.push_back(measured(b, rounds, 0, 0));
  }
  CHECK(rounds == 3);
}

TEST_CASE("a win by clocks alone is undecided and says so") {
  NoisyCluster cluster(5);
  const Played played = play(cluster, {1, 1.03}, {1900, 1957});
  const FinalVerdict& verdict = played.finals.verdicts.front();
  CHECK(verdict.winner == b);
  CHECK(verdict.difference == Difference::undecided);
  CHECK(verdict.by_clock);
  CHECK(verdict.clock_ratio == doctest::Approx(1957.0 / 1900).epsilon(0.001));
  CHECK(final_text(verdict, {}).find("SM clock") != std::string::npos);
  // More pairs would say the same.
  CHECK(played.rounds < most_rounds);
  // What held the slower one back in most of its runs is told with it.
  std::vector<FinalRun> runs = played.runs;
  for (FinalRun& run : runs)
    if (run.layout == a && run.round > 1) run.throttled = "power cap";
  const FinalVerdict capped = finals_of({a, b}, runs, {}).verdicts.front();
  CHECK(final_text(capped, {})
            .find("times the other's (held back: power cap): no difference "
                  "in clock cycles") != std::string::npos);
  NoisyCluster same_clocks(5);
  const Played clear = play(same_clocks, {1, 1.03}, {1900, 1900});
  CHECK(clear.finals.verdicts.front().difference == Difference::faster);
}

TEST_CASE("clocks that vary by chance make a win in cycles take longer, and take it away never") {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(0, 1);
  NoisyCluster cluster(11);
  std::vector<FinalRun> runs;
  Finals finals;
  while (true) {
    finals = finals_of({a, b}, runs, {});
    if (finals.next.empty()) break;
    for (const TrialId one : finals.next)
      runs.push_back(cluster.run(
          one, finals.next_round, one == b ? 1.03 : 1, 1900 * (1 + 0.008 * normal(random))));
  }
  CHECK(finals.verdicts.front().difference == Difference::faster);
  CHECK_FALSE(finals.verdicts.front().by_clock);
  CHECK(finals.verdicts.front().share.pairs > 4);
}

TEST_CASE("a verdict says its interval, its pairs, and what would settle it") {
  std::vector<FinalRun> runs;
  for (std::int32_t round = 1; round <= 6; ++round) {
    runs.push_back(measured(a, round, 1, 100 + 0.1 * (round % 2)));
    runs.push_back(measured(b, round, 1, 97));
  }
  CHECK(final_text(finals_of({a, b}, runs, {}).verdicts.front(), {}) ==
      "FASTER by 3.1 % (95 % interval of the difference: 3.0 % to 3.3 %, 6 pairs)");
  for (auto& run : runs)
    run.speed = run.layout == a ? 100 + (run.round % 3) : 100.5;
  const FinalVerdict open = finals_of({a, b}, runs, {}).verdicts.front();
  CHECK(open.difference == Difference::undecided);
  CHECK(open.more_pairs > 0);
  CHECK(final_text(open, {}).find("more pairs of final runs would decide it") != std::string::npos);
}

namespace {

/// Both layouts in so many rounds of one allocation, after `before` other rounds.
void add_rounds(std::vector<FinalRun>& runs, std::int32_t set, std::int32_t count, double gain) {
  const auto before = static_cast<std::int32_t>(runs.size() / 2);
  for (std::int32_t round = before + 1; round <= before + count; ++round) {
    for (const TrialId one : {a, b}) {
      FinalRun run = measured(one, round, set, one == b ? 100 * (1 + gain) : 100);
      run.speed *= 1 + 0.0001 * (round % 3);
      run.set = set;
      runs.push_back(run);
    }
  }
}

FinalVerdict verdict_on_two_sets(double first, double second) {
  std::vector<FinalRun> runs;
  add_rounds(runs, 1, 5, first);
  add_rounds(runs, 2, 5, second);
  const Finals finals = finals_of({a, b}, runs, {.node_sets = 2});
  CHECK(finals.next.empty());
  return finals.verdicts.front();
}

}  // namespace

TEST_CASE("what is resolved on one set of nodes runs on another before it is believed") {
  const FinalsSettings two{.node_sets = 2};
  std::vector<FinalRun> runs;
  add_rounds(runs, 1, 5, 0.03);
  const Finals first = finals_of({a, b}, runs, two);
  CHECK(first.next_set == 2);
  CHECK(first.next == std::vector<TrialId>{a, b});
  CHECK(first.next_round == 6);
  CHECK(first.verdicts.front().difference == Difference::undecided);
  CHECK(final_text(first.verdicts.front(), two).find("to be confirmed on other nodes") !=
      std::string::npos);
  // On one set it is settled.
  CHECK(finals_of({a, b}, runs, {}).next.empty());
}

TEST_CASE("a choice holds where both sets of nodes say so") {
  const FinalVerdict both = verdict_on_two_sets(0.03, 0.02);
  CHECK(both.difference == Difference::faster);
  CHECK(both.winner == b);
  CHECK(final_text(both, {}).find("on other nodes FASTER by 2.0 %, 5 pairs") != std::string::npos);
  for (const double second : {0.0, -0.02}) {
    const FinalVerdict split = verdict_on_two_sets(0.03, second);
    CHECK(split.difference == Difference::undecided);
    CHECK(final_text(split, {}).find("UNDECIDED: FASTER by 3.0 %") == 0);
  }
  CHECK(verdict_on_two_sets(0, 0).difference == Difference::same);
}

TEST_CASE("without other nodes the verdict says that it is not confirmed") {
  std::vector<FinalRun> runs;
  add_rounds(runs, 1, 5, 0.03);
  FinalRun none = runs.back();
  none.round = 6;
  none.set = 2;
  none.speed = 0;
  none.skipped = "The cluster does not have 1 node beside n1.";
  runs.push_back(none);
  const Finals finals = finals_of({a, b}, runs, {.node_sets = 2});
  CHECK(finals.next.empty());
  CHECK(finals.verdicts.front().difference == Difference::faster);
  CHECK(final_text(finals.verdicts.front(), {})
            .find("not confirmed on other nodes: The cluster does not have") != std::string::npos);
}

TEST_CASE("what is undecided on the first nodes runs on no others") {
  std::vector<FinalRun> runs;
  for (std::int32_t round = 1; round <= most_rounds; ++round) {
    runs.push_back(measured(a, round, 1, 100 + 10 * (round % 2)));
    runs.push_back(measured(b, round, 1, 105));
  }
  CHECK(finals_of({a, b}, runs, {.node_sets = 2}).next.empty());
}
