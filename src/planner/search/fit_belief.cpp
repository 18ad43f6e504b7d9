// SPDX-License-Identifier: Apache-2.0
// The error that estimates share is a grid of factors, and the likelihood of each run multiplies
// the weights: no shape of the posterior is assumed. Answers are kept until the next run, since
// many points of a cell have the same bounds.
#include "search/fit_belief.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

// Bounds are this many standard deviations apart on either side; that share of one is a
// layout's own, the rest is what all estimates of a trainer have in common.
constexpr double bound_sigmas = 2;
constexpr double own_share = 0.9;
// Prior of the shared error, a factor: Student's t with three degrees of freedom in ln(bytes). Its
// tails let a few runs show that the estimates are those of another family or preset.
constexpr int shift_steps = 81;
constexpr double shift_width = 0.8;
constexpr double shift_sigma = 0.06;
constexpr double freedom = 3;
// Least likelihood of any outcome: one odd run must not decide all others.
constexpr double floor_of_likelihood = 0.01;

double log_of(std::int64_t bytes) {
  return std::log(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

// Distribution function of Student's t with five degrees of freedom. A layout's own error has heavy
// tails too, but lighter ones than the error of a family. Chosen by tests/tools/bench/planner, as
// the width is: heavier ones launch layouts that do not fit. With normal ones up to 10 % of the
// good layouts of an unknown trainer are left out, and one cell finds none (made machines, 20
// seeds).
double student_cdf(double t) {
  constexpr double pi = 3.141592653589793;
  const double x = t / std::sqrt(5.0);
  const double q = 1 + x * x;
  return 0.5 + (x / q * (1 + 2 / (3 * q)) + std::atan(x)) / pi;
}

/// The chance to fit if the shared error is `shift`: a need is estimate x exp(shift).
double chance_at(double margin, double sigma, double shift) {
  return student_cdf((margin - shift) / (own_share * sigma));
}

}  // namespace

/// Rounded, so that what is alike is computed once.
FitBelief::Margin FitBelief::margin_of(const Bounds& bounds) const {
  constexpr double narrowest = 0.005;
  constexpr double grain = 0.002;
  const auto rounded = [](double value) { return grain * std::round(value / grain); };
  const double lower = log_of(bounds.lower);
  const double upper = log_of(bounds.upper);
  return {rounded(log_of(capacity_) - (lower + upper) / 2),
      std::max(rounded((upper - lower) / 2 / bound_sigmas), narrowest)};
}

void FitBelief::update_posterior() const {
  constexpr double worth = 4;  // of runs of this sweep: all of earlier sweeps together, at most
  constexpr double negligible = 1e-8;
  double remembered = 0;
  for (const auto& lesson : remembered_)
    remembered += lesson.weight;
  const double share = std::min(1.0, worth / std::max(remembered, worth));
  double sum = 0;
  for (int i = 0; i < shift_steps; ++i) {
    const double shift = shift_width * (2.0 * i / (shift_steps - 1) - 1);
    const double scaled = shift / shift_sigma;
    double log_weight = -0.5 * (freedom + 1) * std::log1p(scaled * scaled / freedom);
    const auto weigh = [&](const std::vector<Lesson>& lessons, double part) {
      for (const auto& [of, fitted, weight] : lessons) {
        const double fits = chance_at(of.margin, of.sigma, shift);
        log_weight += part * weight *
            std::log(floor_of_likelihood + (1 - floor_of_likelihood) * (fitted ? fits : 1 - fits));
      }
    };
    weigh(remembered_, share);
    weigh(lessons_, 1);
    errors_.push_back({shift, log_weight});
  }
  const double most =
      std::max_element(errors_.begin(), errors_.end(), [](const Error& a, const Error& b) {
        return a.weight < b.weight;
      })->weight;
  for (auto& error : errors_)
    sum += error.weight = std::exp(error.weight - most);
  for (auto& error : errors_)
    error.weight /= sum;
  std::erase_if(errors_, [](const Error& error) { return error.weight <= negligible; });
}

void FitBelief::learn(
    std::vector<Lesson>& lessons, const Bounds& bounds, Outcome outcome, double weight) {
  if (capacity_ <= 0 || (outcome != Outcome::oom && outcome != Outcome::completed)) return;
  lessons.push_back({margin_of(bounds), outcome == Outcome::completed, weight});
  errors_.clear();
  known_.clear();
}

double FitBelief::fits(const Bounds& bounds, double share) const {
  if (capacity_ <= 0) return 1;
  if (errors_.empty()) update_posterior();
  auto [margin, sigma] = margin_of(bounds);
  margin += std::log(share);
  constexpr double per_unit = 1e4;
  const auto key = static_cast<std::uint64_t>(std::llround((margin + 100) * per_unit)) << 32U |
      static_cast<std::uint64_t>(std::llround(sigma * per_unit));
  const auto [found, fresh] = known_.try_emplace(key, 0);
  if (!fresh) return found->second;
  double fits = 0;
  for (const auto& error : errors_)
    fits += error.weight * chance_at(margin, sigma, error.shift);
  return found->second = fits;
}

double FitBelief::headroom(const Bounds& bounds) const {
  constexpr double headroom = 0.95;
  constexpr double least = 1e-9;
  return std::min(1.0, fits(bounds, headroom) / (fits(bounds) + least));
}

void FitBelief::observe_oom(OutOfMemory oom) {
  const bool known = std::any_of(out_of_memory_.begin(), out_of_memory_.end(),
      [&](const OutOfMemory& other) { return !other.revoked && needs_as_much(oom.is, other.is); });
  const bool contradicted = std::any_of(fitting_.begin(), fitting_.end(),
      [&](const SearchPoint& ran) { return needs_as_much(ran, oom.is); });
  if (!known && !contradicted) out_of_memory_.push_back(std::move(oom));
}

void FitBelief::observe_fit(const SearchPoint& point) {
  for (auto& oom : out_of_memory_)
    oom.revoked |= needs_as_much(point, oom.is);
  const bool known = std::any_of(fitting_.begin(), fitting_.end(),
      [&](const SearchPoint& ran) { return needs_as_much(ran, point); });
  if (!known) fitting_.push_back(point);
}

const OutOfMemory* FitBelief::ruled_out_by(
    const SearchPoint& point, std::size_t& held_against) const {
  for (; held_against < out_of_memory_.size(); ++held_against) {
    const auto& other = out_of_memory_[held_against];
    if (!other.revoked && needs_as_much(point, other.is)) return &other;
  }
  return nullptr;
}

}  // namespace shardsweep
