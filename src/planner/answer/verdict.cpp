// SPDX-License-Identifier: Apache-2.0
#include "answer/verdict.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace shardsweep {
namespace {

/// The mean range of n draws from a normal distribution, in its standard deviations.
double mean_range(std::int64_t n) {
  constexpr std::array<double, 9> of_two_on{
      1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078};
  return of_two_on[std::min(static_cast<std::size_t>(n - 2), of_two_on.size() - 1)];
}

/// Student's t that 2.5 % exceed.
double t_quantile(std::int64_t freedom) {
  constexpr std::array<double, 10> of_one_on{
      12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
  if (freedom <= static_cast<std::int64_t>(of_one_on.size()))
    return of_one_on[static_cast<std::size_t>(std::max<std::int64_t>(freedom, 1) - 1)];
  constexpr double normal = 1.96;
  constexpr double slope = 2.5;
  return normal + slope / static_cast<double>(freedom);
}

/// Standard deviation of the median of so many runs, in that of one; of two it is the lower
/// one.
double deviation_of_median(std::int64_t runs) {
  constexpr double of_two = 0.826;
  constexpr double of_many = 1.2533;  // sqrt(pi / 2)
  if (runs < 2) return 1;
  return runs == 2 ? of_two : of_many / std::sqrt(static_cast<double>(runs));
}

/// Standard deviation of a layout's value, a mean or a median, in that of one run.
double deviation_of_value(const LayoutSpeed& layout) {
  return layout.mean && layout.runs > 0 ? 1 / std::sqrt(static_cast<double>(layout.runs))
                                        : deviation_of_median(layout.runs);
}

double deviation_of(const LayoutSpeed& layout, const Noise& noise) {
  return std::max({noise_of_run(layout).value_or(0), noise.of_run, layout.step_noise});
}

/// A difference in speed that vanishes in clock cycles comes from power and cooling. Both clocks
/// have to be known.
bool is_by_clock(const LayoutSpeed& first, const LayoutSpeed& second, const SpeedVerdict& verdict) {
  if (first.sm_clock_mhz <= 0 || second.sm_clock_mhz <= 0) return false;
  const double in_cycles = (1 + verdict.share) * second.sm_clock_mhz / first.sm_clock_mhz - 1;
  const double half = *verdict.half_width;
  return verdict.difference == Difference::faster ? in_cycles - half <= 0 : in_cycles + half >= 0;
}

std::string signed_percent(double share) {
  return (share < 0 ? "-" : "+") + percent_text(std::abs(share));
}

std::string clock_reason(
    const LayoutSpeed& first, const LayoutSpeed& second, const SpeedVerdict& verdict) {
  return fmt::format(
      "{} because of its SM clock: {:.0f} MHz against {:.0f} MHz; in clock cycles the difference "
      "is {}. Runs at the same clock would decide it",
      signed_percent(verdict.share), first.sm_clock_mhz, second.sm_clock_mhz,
      signed_percent((1 + verdict.share) * second.sm_clock_mhz / first.sm_clock_mhz - 1));
}

SpeedVerdict undecided(SpeedVerdict verdict, Open open) {
  verdict.difference = Difference::undecided;
  verdict.open = open;
  return verdict;
}

/// Runs of each side after which the interval ends before zero, or within `resolve`. Runs again
/// round the same way.
std::int64_t runs_for(double noise_of_one, double share, double resolve, double rounding) {
  constexpr double sensible = 1000;
  constexpr double two_sided_95 = 1.96;
  constexpr double of_median = 1.2533;
  const double room = std::max(std::abs(share), resolve - std::abs(share)) - rounding;
  if (room <= 0) return 0;
  const double ratio = two_sided_95 * of_median * noise_of_one / room;
  const double runs = std::max(std::ceil(ratio * ratio), 3.0);
  return runs <= sensible ? static_cast<std::int64_t>(runs) : 0;
}

std::string interval_text(const SpeedVerdict& verdict) {
  return fmt::format("95 % interval of the difference: {} to {}",
      signed_percent(verdict.share - *verdict.half_width),
      signed_percent(verdict.share + *verdict.half_width));
}

std::string unknown_reason(
    const LayoutSpeed& first, const LayoutSpeed& second, const SpeedVerdict& verdict) {
  if (verdict.within_rounding)
    return fmt::format("{} is within {}", signed_percent(verdict.share),
        rounding_text(first.resolution + second.resolution));
  return first.mean ? "noise unknown: too few measurements"
                    : "noise unknown: no layout ran twice on either side";
}

}  // namespace

bool is_loaded(double others_cpu) {
  // Even on a quiet machine the system itself takes some CPU time.
  constexpr double tolerance = 0.1;
  return others_cpu > tolerance;
}

std::optional<double> noise_of_run(const LayoutSpeed& layout) {
  if (layout.runs < 2 || !layout.spread) return std::nullopt;
  return *layout.spread / mean_range(layout.runs);
}

Noise common_noise(const std::vector<LayoutSpeed>& layouts) {
  // The median of estimates from two or three runs is lower than the true value.
  constexpr std::array<double, 2> below{0.845, 0.938};
  std::vector<double> known;
  Noise noise;
  for (const auto& layout : layouts) {
    const auto own = noise_of_run(layout);
    if (!own) continue;
    const auto at = static_cast<std::size_t>(layout.runs - 2);
    known.push_back(*own / (at < below.size() ? below[at] : 1));
    noise.freedom += layout.runs - 1;
  }
  if (known.empty()) return noise;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  noise.of_run = *middle;
  return noise;
}

double step_noise_of(double spread, std::int64_t steps) {
  if (spread <= 0 || steps < 2) return 0;
  constexpr std::int64_t count_at_most = 4;
  return spread / mean_range(steps) * deviation_of_median(std::min(steps, count_at_most));
}

namespace {

SpeedVerdict compared_at_rest(
    const LayoutSpeed& first, const LayoutSpeed& second, const Noise& noise, double resolve) {
  SpeedVerdict verdict{.first_runs = first.runs, .second_runs = second.runs};
  if (second.value > 0) verdict.share = first.value / second.value - 1;
  const double rounding = first.resolution + second.resolution;
  verdict.within_rounding = rounding > 0 && std::abs(verdict.share) <= rounding;
  if (!noise.known()) {
    verdict.reason = unknown_reason(first, second, verdict);
    return verdict;
  }
  const double a = deviation_of(first, noise);
  const double b = deviation_of(second, noise);
  const double medians = std::hypot(a * deviation_of_value(first), b * deviation_of_value(second));
  verdict.half_width = t_quantile(noise.freedom) * medians + rounding;
  verdict.reason = interval_text(verdict);
  const double half = *verdict.half_width;
  verdict.open = Open::nothing;
  if (verdict.share - half > 0 || verdict.share + half < 0) {
    verdict.difference = verdict.share > 0 ? Difference::faster : Difference::slower;
    if (is_by_clock(first, second, verdict)) {
      verdict.reason = clock_reason(first, second, verdict);
      return undecided(std::move(verdict), Open::clocks);
    }
    return verdict;
  }
  if (std::abs(verdict.share) + half <= resolve) {
    verdict.difference = Difference::same;
    verdict.reason += fmt::format(", within {}", percent_text(resolve));
    return verdict;
  }
  if (verdict.within_rounding) {
    verdict.reason += fmt::format("; within {}", rounding_text(rounding));
  } else {
    verdict.more = runs_for(std::hypot(a, b), verdict.share, resolve, rounding);
    if (verdict.more > 0) verdict.reason += "; " + decided_by(verdict.more, "runs of each");
  }
  const bool once = first.runs < 2 && second.runs < 2;
  return undecided(std::move(verdict), once ? Open::too_little_data : Open::overlapping);
}

}  // namespace

SpeedVerdict compared(
    const LayoutSpeed& first, const LayoutSpeed& second, const Noise& noise, double resolve) {
  auto verdict = compared_at_rest(first, second, noise, resolve);
  const double load = std::max(first.others_cpu, second.others_cpu);
  const bool explained = verdict.open == Open::nothing || verdict.open == Open::too_little_data;
  if (!is_loaded(load) || !explained || verdict.share == 0) return verdict;
  verdict.reason = fmt::format(
      "other processes used up to {} of the CPUs; {}", percent_text(load), verdict.reason);
  return undecided(std::move(verdict), Open::load);
}

SpeedVerdict verdict_of_finals(const FinalVerdict& held, const FinalsSettings& settings) {
  SpeedVerdict verdict{.difference = held.difference, .open = Open::nothing};
  verdict.share = std::expm1(held.share.mean);
  if (held.share.half_width) {
    const double half = *held.share.half_width;
    verdict.half_width =
        (std::expm1(held.share.mean + half) - std::expm1(held.share.mean - half)) / 2;
  }
  verdict.pairs = held.share.pairs;
  verdict.first_runs = verdict.second_runs = held.share.pairs;
  verdict.more = held.more_pairs;
  verdict.reason = final_text(held, settings);
  if (held.difference != Difference::undecided) return verdict;
  verdict.open = held.by_clock                         ? Open::clocks
      : held.on_first != Difference::undecided         ? Open::mixed_state
      : held.share.half_width && held.share.pairs >= 2 ? Open::overlapping
                                                       : Open::too_little_data;
  return verdict;
}

SpeedVerdict reversed(SpeedVerdict verdict) {
  if (verdict.difference == Difference::faster) {
    verdict.difference = Difference::slower;
  } else if (verdict.difference == Difference::slower) {
    verdict.difference = Difference::faster;
  }
  const double ratio = 1 / (1 + verdict.share);
  // Interval of the inverse, scaled by its slope.
  if (verdict.half_width) verdict.half_width = *verdict.half_width * ratio * ratio;
  verdict.share = ratio - 1;
  std::swap(verdict.first_runs, verdict.second_runs);
  return verdict;
}

namespace {

std::string evidence_text(const SpeedVerdict& verdict) {
  if (verdict.pairs > 0) return counted(verdict.pairs, "pair");
  if (verdict.first_runs == verdict.second_runs)
    return counted(verdict.first_runs, "run") + " each";
  return fmt::format("{} and {} runs", verdict.first_runs, verdict.second_runs);
}

std::string margin_text(const SpeedVerdict& verdict) {
  const auto share = percent_text(std::abs(verdict.share));
  return verdict.half_width ? fmt::format("{} +/- {}", share, percent_text(*verdict.half_width))
                            : share;
}

}  // namespace

std::string verdict_text(const SpeedVerdict& verdict) {
  const auto evidence = evidence_text(verdict);
  switch (verdict.difference) {
    case Difference::faster:
      return fmt::format("faster by {} ({})", margin_text(verdict), evidence);
    case Difference::slower:
      return fmt::format("slower by {} ({})", margin_text(verdict), evidence);
    case Difference::same:
      return fmt::format("tie: {} ({})", margin_text(verdict), evidence);
    case Difference::undecided:
      break;
  }
  if (verdict.share == 0 && verdict.pairs == 0) return fmt::format("tie: equal ({})", evidence);
  const auto* const side = verdict.share < 0 ? "behind" : "ahead";
  const auto share = percent_text(std::abs(verdict.share));
  switch (verdict.open) {
    case Open::overlapping:
      return fmt::format("tie: {} ({})", margin_text(verdict), evidence);
    case Open::clocks:
      return fmt::format(
          "open: {} {}, but only because of its SM clock ({})", share, side, evidence);
    case Open::load:
      return fmt::format(
          "open: {} {} ({}), but other processes used the CPUs", share, side, evidence);
    case Open::mixed_state:
      return fmt::format("open: {} {}, but not on all nodes ({})", share, side, evidence);
    case Open::too_little_data:
    case Open::nothing:
      break;
  }
  return fmt::format("{} {} ({})", share, side, evidence);
}

bool is_sure(const SpeedVerdict& verdict) {
  return verdict.difference == Difference::faster || verdict.difference == Difference::slower;
}

std::string_view short_form(const SpeedVerdict& verdict) {
  switch (verdict.difference) {
    case Difference::faster:
      return "faster";
    case Difference::slower:
      return "slower";
    case Difference::same:
      return "tie";
    case Difference::undecided:
      break;
  }
  if (verdict.open == Open::overlapping || verdict.share == 0) return "tie";
  const bool once = verdict.pairs == 0 && std::min(verdict.first_runs, verdict.second_runs) < 2;
  return verdict.open == Open::too_little_data && once ? "1 run" : "open";
}

std::string rounding_text(double share) {
  return fmt::format("the {} that their logs round away", percent_text(share));
}

}  // namespace shardsweep
