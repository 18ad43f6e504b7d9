// SPDX-License-Identifier: Apache-2.0
// Decision: The whole change, and the pair that confirms what was found, are told from zero by
// the confidence sequence of finals. In between only two levels are expected, that of the first
// version and that of the last one, so a sequential ratio test decides between these: beside a
// noise of 2 % a change of 5 % takes it 5 pairs, and the interval around a mean would need 20.
// A wrong choice is made in one step of 200; the pair of the version found with the one before
// it shows it then.
#include "search/bisect.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

namespace shardsweep {
namespace {

constexpr double shown_error = 0.05;  // error of the intervals that are printed
constexpr double end_error = 0.01;    // error of steps that are told from zero (is_end())
constexpr double step_error = 0.005;  // error of each step between two levels
constexpr double exact = 1e-6;        // noise of a runner that always tells the same
/// Two levels are told apart once the distance between them is known this well.
constexpr double known_to = 0.45;
constexpr std::int64_t most_at_once = 8;

double mean_of(const std::vector<double>& sample) {
  return sample.empty()
      ? 0
      : std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
}

/// Standard deviation of one pair, pooled over all steps, since each step has a mean of its own.
double noise_over(const BisectFacts& facts) {
  double squares = 0;
  double freedom = 0;
  for (const auto& [step, pairs] : facts.measured) {
    if (pairs.slower_by.size() < 2) continue;
    const double mean = mean_of(pairs.slower_by);
    for (const double one : pairs.slower_by)
      squares += (one - mean) * (one - mean);
    freedom += static_cast<double>(pairs.slower_by.size()) - 1;
  }
  // A few pairs make the noise look small as easily as large; small would decide too soon.
  const double sure = freedom > 2 ? freedom - 2 : std::max(freedom, 1.0);
  return std::max(std::sqrt(squares / sure), exact);
}

class Bisection {
 public:
  Bisection(const BisectFacts& facts, const BisectSettings& settings)
      : facts_(facts), settings_(settings), noise_(noise_over(facts)) {}

  BisectDecision decide() {
    decision_.last = facts_.versions - 1;
    if (is_broken(0)) return ended(BisectEnd::first_broken);
    if (is_broken(decision_.last)) return ended(BisectEnd::last_broken);
    const BisectStep whole{0, decision_.last};
    const auto verdict = from_zero(whole);
    const bool open = verdict.difference == Difference::undecided;
    const bool vague = verdict.difference == Difference::slower && facts_.versions > 2 &&
        *verdict.share.half_width > known_to * verdict.share.mean;
    if ((open || vague) && may_go_on(whole)) return more(whole, verdict.missing);
    if (open) return ended(BisectEnd::undecided);
    if (verdict.difference == Difference::same) return ended(BisectEnd::absent);
    if (verdict.difference == Difference::faster) return ended(BisectEnd::faster);
    change_ = verdict.share.mean;
    return halve();
  }

 private:
  [[nodiscard]] bool is_broken(std::size_t version) const {
    return version < facts_.broken.size() && facts_.broken[version];
  }

  [[nodiscard]] const BisectPairs& pairs_of(BisectStep step) const {
    static const BisectPairs none;
    const auto found = facts_.measured.find(step);
    return found == facts_.measured.end() ? none : found->second;
  }

  [[nodiscard]] bool may_go_on(BisectStep step) const {
    return pairs_of(step).begun() < settings_.most_pairs;
  }

  BisectDecision ended(BisectEnd end) {
    decision_.end = end;
    for (const auto& [step, pairs] : facts_.measured)
      decision_.verdicts.push_back(is_end(step) ? from_zero(step) : between_levels(step));
    return std::move(decision_);
  }

  /// Neighbours, and the ends of the row, are told from zero.
  [[nodiscard]] bool is_end(BisectStep step) const {
    return step.good != 0 || change_ <= 0 || step.candidate + 1 == facts_.versions;
  }

  BisectDecision more(BisectStep step, std::int64_t missing) {
    decision_.next = step;
    const std::int64_t begun = pairs_of(step).begun();
    const std::int64_t least = begun == 0 && is_end(step) ? settings_.first_pairs
        : begun == 0                                      ? 2
                                                          : 1;
    decision_.pairs = std::min(
        std::clamp(missing, least, std::max(least, most_at_once)), settings_.most_pairs - begun);
    std::size_t left = decision_.last - decision_.first;
    decision_.steps_left = begun == 0 ? 1 : 0;
    for (; left > 1; left = (left + 1) / 2)
      ++decision_.steps_left;
    return ended(BisectEnd::goes_on);
  }

  [[nodiscard]] BisectVerdict shown(BisectStep step) const {
    const auto& sample = pairs_of(step).slower_by;
    return {.step = step, .share = interval_of(sample, shown_error), .noise = noise_};
  }

  [[nodiscard]] BisectVerdict from_zero(BisectStep step) const {
    const auto& sample = pairs_of(step).slower_by;
    BisectVerdict verdict = shown(step);
    const auto sure = interval_of(sample, end_error);
    if (sure.within(settings_.resolve)) {
      verdict.difference = Difference::same;
    } else if (sure.above(0)) {
      verdict.difference = Difference::slower;
    } else if (sure.half_width && sure.mean + *sure.half_width < 0) {
      verdict.difference = Difference::faster;
    }
    // Twice the pairs there are narrow the interval enough to see how far it is.
    const auto begun = std::ssize(sample);
    verdict.missing = std::max<std::int64_t>(begun / 2, 2);
    if (begun == 0) verdict.missing = settings_.first_pairs;
    return verdict;
  }

  /// The logarithm of how much better the last version's level explains it than the first's.
  [[nodiscard]] double odds_of(BisectStep step) const {
    double odds = 0;
    for (const double one : pairs_of(step).slower_by)
      odds += (one - change_ / 2) * change_ / (noise_ * noise_);
    return odds;
  }

  [[nodiscard]] BisectVerdict between_levels(BisectStep step) const {
    const double enough = std::log((1 - step_error) / step_error);
    BisectVerdict verdict = shown(step);
    // The noise is known from all steps: two pairs have an interval, too.
    constexpr double deviations = 1.96;
    if (verdict.share.pairs > 0)
      verdict.share.half_width =
          deviations * noise_ / std::sqrt(static_cast<double>(verdict.share.pairs));
    const double odds = odds_of(step);
    if (odds > enough) verdict.difference = Difference::slower;
    if (odds < -enough) verdict.difference = Difference::same;
    const double of_pair = change_ * change_ / (2 * noise_ * noise_);
    const double pairs = std::ceil((enough - std::abs(odds)) / of_pair);
    verdict.missing = static_cast<std::int64_t>(std::clamp(pairs, 1.0, 1000.0));
    return verdict;
  }

  /// True for a version that decides nothing: it is broken, or its step stays open after all pairs.
  [[nodiscard]] bool is_passed_over(std::size_t version) const {
    const BisectStep step{0, version};
    return is_broken(version) ||
        (!may_go_on(step) && between_levels(step).difference == Difference::undecided);
  }

  BisectDecision halve() {
    for (const auto& [step, pairs] : facts_.measured) {
      if (step.good == 0 && between_levels(step).difference == Difference::slower)
        decision_.last = std::min(decision_.last, step.candidate);
    }
    for (const auto& [step, pairs] : facts_.measured) {
      if (step.good != 0 || step.candidate >= decision_.last || is_broken(step.candidate)) continue;
      const auto verdict = between_levels(step);
      if (verdict.difference == Difference::same)
        decision_.first = std::max(decision_.first, step.candidate);
    }
    for (const auto& [step, pairs] : facts_.measured) {
      const bool within = step.good == 0 && step.candidate > decision_.first &&
          step.candidate < decision_.last && !is_broken(step.candidate);
      const auto verdict = between_levels(step);
      if (within && verdict.difference == Difference::undecided && may_go_on(step))
        return more(step, verdict.missing);
    }
    if (decision_.last - decision_.first == 1) return confirm();
    if (const auto version = next_version()) {
      const BisectStep step{0, *version};
      return more(step, between_levels(step).missing);
    }
    return ended(BisectEnd::range);
  }

  /// Version to measure next: the middle one, or one near it. A fault in one version breaks its
  /// neighbours as well. So the more of them were passed over, the farther away the next one is
  /// looked for: 1, 3, 7, … places, to either side in turn.
  [[nodiscard]] std::optional<std::size_t> next_version() const {
    const auto middle = (decision_.first + decision_.last) / 2;
    const auto begin = static_cast<std::int64_t>(decision_.first) + 1;
    const auto end = static_cast<std::int64_t>(decision_.last);
    std::vector<std::int64_t> left;
    for (auto version = begin; version < end; ++version) {
      if (!is_passed_over(static_cast<std::size_t>(version))) left.push_back(version);
    }
    if (left.empty()) return std::nullopt;
    std::int64_t around = 0;
    for (auto version = middle; version > decision_.first && is_passed_over(version); --version)
      ++around;
    for (auto version = middle + 1; version < decision_.last && around > 0; ++version) {
      if (!is_passed_over(version)) break;
      ++around;
    }
    constexpr std::int64_t farthest = 30;
    const std::int64_t away = (std::int64_t{1} << std::min((around + 1) / 2, farthest)) - 1;
    const auto wanted = static_cast<std::int64_t>(middle) + (around % 2 == 1 ? -away : away);
    const auto nearest = std::min_element(left.begin(), left.end(),
        [&](auto a, auto b) { return std::abs(a - wanted) < std::abs(b - wanted); });
    return static_cast<std::size_t>(*nearest);
  }

  BisectDecision confirm() {
    const BisectStep step{decision_.first, decision_.last};
    if (step.good == 0) {
      // Keep the verdict of halving: its last step has compared these very versions.
      return ended(BisectEnd::found);
    }
    const auto verdict = from_zero(step);
    const bool open = verdict.difference == Difference::undecided;
    if (open && may_go_on(step)) return more(step, verdict.missing);
    return ended(
        verdict.difference == Difference::slower ? BisectEnd::found : BisectEnd::unconfirmed);
  }

  const BisectFacts& facts_;
  const BisectSettings& settings_;
  double noise_;
  double change_ = 0;  ///< ln(speed of the first version / of the last); 0: not known yet
  BisectDecision decision_;
};

}  // namespace

BisectDecision decide_bisect(const BisectFacts& facts, const BisectSettings& settings) {
  return Bisection(facts, settings).decide();
}

}  // namespace shardsweep
