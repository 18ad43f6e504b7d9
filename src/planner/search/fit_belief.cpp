// SPDX-License-Identifier: Apache-2.0
// The error that estimates share is a grid of factors, and each lesson multiplies the weights:
// no shape of the distribution is assumed. Answers are remembered until the next lesson, since
// many points of a cell have the same bounds.
#include "search/fit_belief.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

struct MemoryMargin {
  double margin;  // ln(capacity / estimate)
  double sigma;   // standard deviation of ln(bytes)
};

double log_of(std::int64_t bytes) {
  return std::log(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

// Rounded, so that what is alike is computed once.
MemoryMargin scaled(const FitBelief::Bounds& bounds) {
  constexpr double narrowest = 0.005;
  constexpr double grain = 0.002;
  const auto rounded = [](double value) { return grain * std::round(value / grain); };
  const double lower = log_of(bounds.lower);
  const double upper = log_of(bounds.upper);
  return {rounded(log_of(bounds.capacity) - (lower + upper) / 2),
      std::max(rounded((upper - lower) / 2 / bound_sigmas), narrowest)};
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

// A need is estimate x exp(shift).
double probability_at(const MemoryMargin& scaled, double shift) {
  return student_cdf((scaled.margin - shift) / (own_share * scaled.sigma));
}

double student(double value, double scale) {
  return std::pow(1 + value * value / (freedom * scale * scale), -0.5 * (freedom + 1));
}

}  // namespace

FitBelief::FitBelief() {
  reset();
}

void FitBelief::reset() const {
  errors_.clear();
  for (int i = 0; i < shift_steps; ++i) {
    const double shift = shift_width * (2.0 * i / (shift_steps - 1) - 1);
    errors_.push_back({shift, student(shift, shift_sigma)});
  }
  normalize();
}

void FitBelief::normalize() const {
  double sum = 0;
  for (const auto& error : errors_)
    sum += error.weight;
  constexpr double negligible = 1e-8;
  likely_.clear();
  for (auto& error : errors_) {
    error.weight /= sum;
    if (error.weight > negligible) likely_.push_back(error);
  }
  known_.clear();
}

/// Weighs all lessons anew. Runs of earlier sweeps together count as `worth` runs of this one, at
/// most.
void FitBelief::weigh_all() const {
  constexpr double worth = 4;
  outdated_ = false;
  reset();
  double sum = 0;
  for (const auto& lesson : remembered_)
    sum += lesson.weight;
  for (const auto& lesson : remembered_)
    weigh(lesson, lesson.weight * std::min(1.0, worth / sum));
  for (const auto& lesson : lessons_)
    weigh(lesson, lesson.weight);
}

void FitBelief::weigh(const Lesson& lesson, double weight) const {
  const auto at = scaled(lesson.bounds);
  for (auto& error : errors_) {
    const double fits = probability_at(at, error.shift);
    const double likelihood =
        floor_of_likelihood + (1 - floor_of_likelihood) * (lesson.fitted ? fits : 1 - fits);
    error.weight *= weight == 1 ? likelihood : std::pow(likelihood, weight);
  }
  normalize();
}

void FitBelief::learn(const Bounds& bounds, bool fitted) {
  if (bounds.capacity <= 0) return;
  lessons_.push_back({bounds, fitted});
  if (!outdated_) weigh(lessons_.back(), 1);
}

void FitBelief::remember(const Bounds& bounds, bool fitted, double weight) {
  if (bounds.capacity <= 0) return;
  constexpr std::size_t most = 400;
  if (remembered_.size() == most) remembered_.erase(remembered_.begin());
  remembered_.push_back({bounds, fitted, weight});
  outdated_ = true;
}

double FitBelief::probability(const Bounds& bounds, double share) const {
  if (bounds.capacity <= 0) return 1;
  if (outdated_) weigh_all();
  auto at = scaled(bounds);
  at.margin += std::log(share);
  constexpr double per_unit = 1e4;
  const auto key = static_cast<std::uint64_t>(std::llround((at.margin + 100) * per_unit)) << 32U |
      static_cast<std::uint64_t>(std::llround(at.sigma * per_unit));
  const auto [found, fresh] = known_.try_emplace(key, 0);
  if (!fresh) return found->second;
  double fits = 0;
  for (const auto& error : likely_)
    fits += error.weight * probability_at(at, error.shift);
  return found->second = fits;
}

double MemoryBelief::headroom(const Bounds& bounds) const {
  constexpr double headroom = 0.95;
  constexpr double least = 1e-9;
  return std::min(1.0, fit_.probability(bounds, headroom) / (fits(bounds) + least));
}

void MemoryBelief::observe(const Bounds& bounds, Outcome outcome) {
  if (outcome == Outcome::oom || outcome == Outcome::completed)
    fit_.learn(bounds, outcome == Outcome::completed);
}

void MemoryBelief::remember(const Bounds& bounds, Outcome outcome, double weight) {
  if (outcome == Outcome::oom || outcome == Outcome::completed)
    fit_.remember(bounds, outcome == Outcome::completed, weight);
}

void MemoryBelief::observe_oom(OutOfMemory oom) {
  const bool known = std::any_of(out_of_memory_.begin(), out_of_memory_.end(),
      [&](const OutOfMemory& other) { return !other.revoked && needs_as_much(oom.is, other.is); });
  const bool contradicted = std::any_of(fitting_.begin(), fitting_.end(),
      [&](const SearchPoint& ran) { return needs_as_much(ran, oom.is); });
  if (!known && !contradicted) out_of_memory_.push_back(std::move(oom));
}

void MemoryBelief::observe_fit(const SearchPoint& point) {
  for (auto& oom : out_of_memory_)
    oom.revoked |= needs_as_much(point, oom.is);
  const bool known = std::any_of(fitting_.begin(), fitting_.end(),
      [&](const SearchPoint& ran) { return needs_as_much(ran, point); });
  if (!known) fitting_.push_back(point);
}

const OutOfMemory* MemoryBelief::ruled_out_by(
    const SearchPoint& point, std::size_t& held_against) const {
  for (; held_against < out_of_memory_.size(); ++held_against) {
    const auto& other = out_of_memory_[held_against];
    if (!other.revoked && needs_as_much(point, other.is)) return &other;
  }
  return nullptr;
}

}  // namespace shardsweep
