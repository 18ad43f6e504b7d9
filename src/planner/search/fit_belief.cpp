// SPDX-License-Identifier: Apache-2.0
// The error that estimates share is a grid of factors and amounts, and each lesson multiplies
// the weights: no shape of the distribution is assumed. Lessons are kept, as one may show that
// devices hold more than the cluster file says; then all of them are weighed again. Answers are
// remembered until the next lesson, since many points of a cell have the same bounds.
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
// That part is a factor: Student's t with three degrees of freedom of ln(bytes), so that a few
// runs say it where a family or a preset is another's.
constexpr int shift_steps = 81;
constexpr double shift_width = 0.8;
constexpr double shift_sigma = 0.06;
constexpr double freedom = 3;
// What a constant in bytes is off by: context, buffers, workspaces. Of the capacity.
constexpr int offset_steps = 7;
constexpr double most_offset = 0.12;
constexpr double offset_sigma = 0.02;
// Nothing is ever ruled out: one odd run must not settle all others.
constexpr double floor_of_likelihood = 0.01;

struct Scaled {
  double margin;  // ln(capacity / estimate)
  double sigma;   // of ln(bytes)
};

double log_of(std::int64_t bytes) {
  return std::log(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

// Rounded, so that what is alike is computed once.
Scaled scaled(const FitBelief::Bounds& bounds) {
  constexpr double narrowest = 0.005;
  constexpr double grain = 0.002;
  const auto rounded = [](double value) { return grain * std::round(value / grain); };
  const double lower = log_of(bounds.lower);
  const double upper = log_of(bounds.upper);
  return {rounded(log_of(bounds.capacity) - (lower + upper) / 2),
      std::max(rounded((upper - lower) / 2 / bound_sigmas), narrowest)};
}

// Of five degrees of freedom: what is a layout's own has heavy tails too, but lighter ones than
// what a family has wrong. Chosen by tests/tools/bench/planner, as the width: normal tails
// leave layouts out that fit, heavier ones launch what does not.
double student_cdf(double t) {
  constexpr double pi = 3.141592653589793;
  const double x = t / std::sqrt(5.0);
  const double q = 1 + x * x;
  return 0.5 + (x / q * (1 + 2 / (3 * q)) + std::atan(x)) / pi;
}

// A need is estimate x exp(shift) + offset, so that less of the capacity is left for the part
// that is estimated.
double probability_at(const Scaled& scaled, double shift, double offset) {
  const double margin = scaled.margin + std::log1p(-offset) - shift;
  return student_cdf(margin / (own_share * scaled.sigma));
}

double student(double value, double scale) {
  return std::pow(1 + value * value / (freedom * scale * scale), -0.5 * (freedom + 1));
}

// A need is at least the peak. What a trainer reports may be less than it needs by far: it
// leaves out other stages, contexts, and what its allocator could not give again. All its
// reports leave out the same, so that many of them say little more than a few.
double likelihood_of_peak(const Scaled& scaled, double shift, double offset) {
  constexpr double left_out = 0.25;
  constexpr double as_one = 0.3;
  const double margin = scaled.margin + std::log1p(-offset) - shift;
  const double above = 1 - probability_at(scaled, shift, offset);
  const double near = margin < 0 ? std::pow(student(margin, left_out), as_one) : 1;
  return floor_of_likelihood + (1 - floor_of_likelihood) * above * near;
}

double step_of(int step, int steps, double most) {
  return most * (2.0 * step / (steps - 1) - 1);
}

}  // namespace

FitBelief::FitBelief() {
  reset();
}

void FitBelief::reset() const {
  errors_.clear();
  for (int i = 0; i < shift_steps; ++i) {
    for (int j = 0; j < offset_steps; ++j) {
      const double shift = step_of(i, shift_steps, shift_width);
      const double offset = step_of(j, offset_steps, most_offset);
      errors_.push_back(
          {shift, offset, student(shift, shift_sigma) * student(offset, offset_sigma)});
    }
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

/// A cluster file may say less memory than devices have.
FitBelief::Bounds FitBelief::on_device(Bounds bounds) const {
  bounds.capacity = std::max(bounds.capacity, held_);
  return bounds;
}

/// Runs of earlier sweeps say together what so many of this one would.
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
  const auto believe = [weight](Error& error, double likelihood) {
    error.weight *= weight == 1 ? likelihood : std::pow(likelihood, weight);
  };
  const auto bounds = on_device(lesson.bounds);
  if (lesson.peak == 0) {
    const auto at = scaled(bounds);
    for (auto& error : errors_) {
      const double fits = probability_at(at, error.shift, error.offset);
      believe(error,
          floor_of_likelihood + (1 - floor_of_likelihood) * (lesson.fitted ? fits : 1 - fits));
    }
  } else {
    const auto at = scaled({bounds.lower, bounds.upper, lesson.peak});
    const double share = static_cast<double>(lesson.peak) / static_cast<double>(bounds.capacity);
    for (auto& error : errors_) {
      // Of the reported number the offset is the same amount, and so another share.
      const double offset = std::clamp(error.offset / std::max(share, 0.05), -0.9, 0.9);
      believe(error, likelihood_of_peak(at, error.shift, offset));
    }
  }
  normalize();
}

void FitBelief::take(const Lesson& lesson) {
  lessons_.push_back(lesson);
  if (!outdated_) weigh(lesson, lesson.weight);
}

void FitBelief::keep(const Lesson& lesson) {
  constexpr std::size_t most = 400;
  if (remembered_.size() == most) remembered_.erase(remembered_.begin());
  remembered_.push_back(lesson);
  outdated_ = true;
}

void FitBelief::learn(const Bounds& bounds, bool fitted) {
  if (bounds.capacity > 0) take({bounds, fitted, 0});
}

void FitBelief::learn_peak(const Bounds& reported, std::int64_t peak) {
  if (reported.capacity <= 0 || peak <= 0) return;
  learn_capacity(peak);
  take({reported, true, peak});
}

void FitBelief::remember(const Bounds& bounds, bool fitted, double weight) {
  if (bounds.capacity > 0) keep({bounds, fitted, 0, weight});
}

void FitBelief::remember_peak(const Bounds& reported, std::int64_t peak, double weight) {
  if (reported.capacity <= 0 || peak <= 0) return;
  learn_capacity(peak);
  keep({reported, true, peak, weight});
}

void FitBelief::learn_capacity(std::int64_t held) {
  if (held <= held_) return;
  held_ = held;
  // Where it is no news it changes nothing.
  const auto holds_less = [&](const Lesson& lesson) { return lesson.bounds.capacity < held; };
  known_.clear();
  outdated_ |= std::any_of(lessons_.begin(), lessons_.end(), holds_less) ||
      std::any_of(remembered_.begin(), remembered_.end(), holds_less);
}

double FitBelief::probability(const Bounds& bounds, double share) const {
  if (bounds.capacity <= 0) return 1;
  if (outdated_) weigh_all();
  auto at = scaled(on_device(bounds));
  at.margin += std::log(share);
  constexpr double per_unit = 1e4;
  const auto key = static_cast<std::uint64_t>(std::llround((at.margin + 100) * per_unit)) << 32U |
      static_cast<std::uint64_t>(std::llround(at.sigma * per_unit));
  const auto [found, fresh] = known_.try_emplace(key, 0);
  if (!fresh) return found->second;
  double fits = 0;
  for (const auto& error : likely_)
    fits += error.weight * probability_at(at, error.shift, error.offset);
  return found->second = fits;
}

double MemoryBelief::roomy(const Bounds& bounds) const {
  constexpr double roomy = 0.95;
  constexpr double least = 1e-9;
  return std::min(1.0, fit_.probability(bounds, roomy) / (fits(bounds) + least));
}

double MemoryBelief::fits_at_best(const Bounds& bounds) const {
  constexpr double about = 0.1;
  const auto lower = static_cast<double>(bounds.lower);
  return fit_.probability({static_cast<std::int64_t>(lower * (1 - about)),
      static_cast<std::int64_t>(lower * (1 + about)), bounds.capacity});
}

/// The bounds of the number that the trainer reports, where these are of all that it needs.
MemoryBelief::Bounds MemoryBelief::reported_of(
    const Predictor& predictor, const SearchPoint& point, const Bounds& bounds) const {
  const auto reported = predictor.reported_peak_bytes(point.model, point.point, point.traits);
  const double share = static_cast<double>(reported) /
      static_cast<double>(
          predictor.guess_memory(point.model, point.point, point.traits).estimate.total());
  const auto part = [&](std::int64_t bytes) {
    return static_cast<std::int64_t>(share * static_cast<double>(bytes));
  };
  return {part(bounds.lower), part(bounds.upper), bounds.capacity};
}

void MemoryBelief::hear(const Predictor& predictor, const SearchPoint& point, const Bounds& bounds,
    const SearchNews& news) {
  if (news.outcome == Outcome::oom) fit_.learn(bounds, false);
  if (news.outcome != Outcome::completed) return;
  fit_.learn(bounds, true);
  fit_.learn_peak(reported_of(predictor, point, bounds), news.peak_bytes);
}

void MemoryBelief::remember(const Predictor& predictor, const SearchPoint& point,
    const Bounds& bounds, const SearchNews& news, double weight) {
  if (news.outcome == Outcome::oom) fit_.remember(bounds, false, weight);
  if (news.outcome != Outcome::completed) return;
  fit_.remember(bounds, true, weight);
  fit_.remember_peak(reported_of(predictor, point, bounds), news.peak_bytes, weight);
}

void MemoryBelief::hear_oom(OutOfMemory oom) {
  const bool known = std::any_of(out_of_memory_.begin(), out_of_memory_.end(),
      [&](const OutOfMemory& other) { return !other.revoked && needs_as_much(oom.is, other.is); });
  const bool contradicted = std::any_of(fitting_.begin(), fitting_.end(),
      [&](const SearchPoint& ran) { return needs_as_much(ran, oom.is); });
  if (!known && !contradicted) out_of_memory_.push_back(std::move(oom));
}

void MemoryBelief::hear_fitting(const SearchPoint& point) {
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
