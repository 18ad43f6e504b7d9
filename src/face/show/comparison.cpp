// SPDX-License-Identifier: Apache-2.0
#include "show/comparison.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace shardsweep {

std::optional<double> noise_of_run(const Ranked& layout) {
  // The mean range of n draws from a normal distribution, in its standard deviations.
  constexpr std::array<double, 9> mean_range{1.128, 1.693, 2.059, 2.326, 2.534,
                                             2.704, 2.847, 2.970, 3.078};
  if (layout.runs < 2 || !layout.spread) return std::nullopt;
  const auto at = std::min(static_cast<std::size_t>(layout.runs - 2), mean_range.size() - 1);
  return *layout.spread / mean_range[at];
}

std::optional<double> common_noise(const std::vector<Ranked>& layouts) {
  std::vector<double> known;
  for (const auto& layout : layouts) {
    if (const auto noise = noise_of_run(layout)) known.push_back(*noise);
  }
  if (known.empty()) return std::nullopt;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  return *middle;
}

std::optional<DifferenceNoise> noise_of_difference(const Ranked& a, const Ranked& b,
                                                   std::optional<double> common) {
  // Two runs may agree by chance: no layout is less noisy than most are.
  const auto noise = [&](const Ranked& layout) {
    const auto own = noise_of_run(layout);
    return own && common ? std::optional(std::max(*own, *common)) : own ? own : common;
  };
  const auto first = noise(a);
  const auto second = noise(b);
  if (!first || !second) return std::nullopt;
  const auto runs = [](const Ranked& layout) {
    return static_cast<double>(std::max<std::int64_t>(layout.runs, 1));
  };
  return DifferenceNoise{std::hypot(*first, *second),
                         std::sqrt(*first * *first / runs(a) + *second * *second / runs(b))};
}

Comparison compared(const Ranked& faster, const Ranked& slower, std::optional<double> common) {
  Comparison verdict;
  const double resolution = faster.resolution + slower.resolution;
  if (faster.value > 0) verdict.gap_share = 1 - slower.value / faster.value;
  // Runs again would round the same way.
  if (resolution > 0 && verdict.gap_share <= resolution) {
    verdict.certainty = Certainty::undecided;
    verdict.hidden_share = resolution;
    return verdict;
  }
  const auto noise = noise_of_difference(faster, slower, common);
  if (!noise) return verdict;
  if (noise->of_medians <= 0) {
    // Runs that agree to the last digit.
    verdict.certainty = verdict.gap_share > 0 ? Certainty::faster : Certainty::undecided;
    return verdict;
  }
  verdict.noise_units = verdict.gap_share / noise->of_medians;
  const bool clear = *verdict.noise_units >= clear_difference;
  verdict.certainty = clear ? Certainty::faster : Certainty::undecided;
  if (clear || verdict.gap_share <= 0) return verdict;
  const double ratio = clear_difference * noise->of_one_run_each / verdict.gap_share;
  const double needed = std::ceil(ratio * ratio);
  constexpr double sensible = 1000;
  if (needed <= sensible) verdict.runs_needed = static_cast<std::int64_t>(needed);
  return verdict;
}

std::string rounding_text(double share) {
  return fmt::format("the {} that their logs round away", percent_text(share));
}

std::string comparison_text(const Comparison& verdict) {
  if (verdict.gap_share == 0 && verdict.hidden_share == 0)
    return "tied: to the last digit the same";
  const auto gap = percent_text(verdict.gap_share);
  if (verdict.hidden_share > 0)
    return fmt::format("can't tell apart: {} is within {}", gap,
                       rounding_text(verdict.hidden_share));
  const auto units =
      verdict.noise_units ? fmt::format("{:.1f} x noise", *verdict.noise_units) : "no noise";
  switch (verdict.certainty) {
    case Certainty::faster:
      return fmt::format("faster by {} ({})", gap, units);
    case Certainty::undecided:
      return fmt::format("can't tell apart: {} is {}", gap, units) +
             (verdict.runs_needed > 0
                  ? fmt::format("; about {} runs of each would tell", verdict.runs_needed)
                  : "");
    case Certainty::unknown:
      break;
  }
  return fmt::format("{} ahead; noise unknown: nothing ran twice", gap);
}

namespace {

std::optional<double> number_of(const Value& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return static_cast<double>(*integer);
  return std::nullopt;
}

/// Winner and runner-up of a row, the runner-up's value as a share of the winner's.
struct RankedPair {
  Ranked first;
  std::optional<Ranked> second;
  std::string of_finals{};  ///< what finals say of them; empty: there were none
};

std::vector<RankedPair> pairs_of(const Table& best) {
  const auto place = [&best](std::string_view name) {
    const auto found = std::find(best.columns.begin(), best.columns.end(), name);
    return static_cast<std::size_t>(found - best.columns.begin());
  };
  const auto repeats = place("repeats");
  const auto spread = place("repeat_spread");
  const auto second_runs = place("runner_up_runs");
  const auto second_spread = place("runner_up_spread");
  const auto gap = place("gap_share");
  const auto resolution = place("resolution");
  const auto reason = place("verdict_reason");
  std::vector<RankedPair> pairs;
  for (const auto& row : best.rows) {
    const auto runs = [&row](std::size_t at) {
      return static_cast<std::int64_t>(number_of(row[at]).value_or(0));
    };
    RankedPair pair{{1, runs(repeats), number_of(row[spread])}, std::nullopt};
    // That of both logs.
    if (resolution < row.size()) pair.first.resolution = number_of(row[resolution]).value_or(0);
    if (reason < row.size()) {
      if (const auto* text = std::get_if<std::string>(&row[reason])) pair.of_finals = *text;
    }
    if (const auto behind = number_of(row[gap]))
      pair.second = Ranked{1 - *behind, runs(second_runs), number_of(row[second_spread])};
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace

void add_certainty(Table& best) {
  const auto pairs = pairs_of(best);
  std::vector<Ranked> all;
  for (const auto& pair : pairs) {
    all.push_back(pair.first);
    if (pair.second) all.push_back(*pair.second);
  }
  const auto common = common_noise(all);
  best.columns.emplace_back("certainty");
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const auto& [first, second, of_finals] = pairs[row];
    best.rows[row].push_back(!of_finals.empty() ? Value(of_finals)
                             : second ? Value(comparison_text(compared(first, *second, common)))
                                      : Value());
  }
}

}  // namespace shardsweep
