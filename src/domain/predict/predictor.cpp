// SPDX-License-Identifier: Apache-2.0
#include "domain/predict/predictor.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

namespace shardsweep {
namespace {

// Before anything is measured: how far a prediction is off in common with its neighbours, and
// alone. In ln(step).
constexpr double common_sigma = 0.4;
constexpr double own_sigma = 0.3;
// An allocator of segments reserves up to so much more than tensors need, where it can.
constexpr double fragmented = 0.2;

double measured_step_s(const Observation& seen) {
  if (seen.outcome != Outcome::completed) return 0;
  if (seen.step_s > 0) return seen.step_s;
  if (seen.tokens_per_s_per_gpu <= 0) return 0;
  return speed_of(1, seen.point) / seen.tokens_per_s_per_gpu;
}

}  // namespace

RunTraits traits_of_kernel(std::string_view kernel) {
  std::string text(kernel);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto says = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  RunTraits traits;
  if (says("flash")) {
    traits.flash_attention = true;
  } else if (says("torch") || says("megatron") || says("eager") || says("unfused")) {
    traits.flash_attention = false;
  }
  if (says("rms") || says("norm")) traits.fused_norm = true;
  return traits;
}

double speed_of(double step_s, const Point& point) {
  const auto tokens = static_cast<double>(point.layout.global_batch()) * point.seq_len;
  return tokens / step_s / static_cast<double>(point.layout.world());
}

Predictor::Predictor(const ClusterSpec& cluster, const Family& family)
    : cluster_(cluster), family_(&family) {}

Guess Predictor::guess(const ModelSpec& model, const Point& point,
                       const RunTraits& traits) const {
  Guess guess;
  // Shrunk towards the prediction as if common_sigma had been seen once.
  constexpr double prior = own_sigma * own_sigma / (common_sigma * common_sigma);
  const double shift = residuals_ / (count_ + prior);
  guess.step_s = estimate_time(model, cluster_, point).step_s * std::exp(shift);
  guess.log_sigma = own_sigma * std::sqrt(1 + 1 / (count_ + prior));
  guess.memory = guess_memory(model, point, traits);
  return guess;
}

const MemoryFamily& Predictor::memory_family() const {
  // Without GPUs only the benchmark's own CPU backend is known.
  return cluster_.gpu.empty() ? shardbench_cpu_memory() : family_->memory;
}

MemoryEstimate Predictor::least_memory(const ModelSpec& model, const Point& point,
                                       const RunTraits& traits) const {
  if (family_->least.name.empty() || cluster_.gpu.empty())
    return optimistic_memory(model, point);
  return estimate_memory(model, point, family_->least, traits);
}

MemoryGuess Predictor::guess_memory(const ModelSpec& model, const Point& point,
                                    const RunTraits& traits) const {
  MemoryGuess memory;
  memory.estimate = estimate_memory(model, point, memory_family(), traits);
  const auto total = memory.estimate.total();
  memory.lower_bytes = std::min(total, least_memory(model, point, traits).total());
  memory.upper_bytes =
      total + static_cast<std::int64_t>(fragmented * static_cast<double>(total));
  if (cluster_.memory_bytes > 0) {
    if (memory.lower_bytes > cluster_.memory_bytes) {
      memory.fit = Fit::never;
    } else if (memory.upper_bytes > cluster_.memory_bytes) {
      memory.fit = Fit::doubtful;
    }
  }
  return memory;
}

std::int64_t Predictor::reported_peak_bytes(const ModelSpec& model, const Point& point,
                                            const RunTraits& traits) const {
  const auto& family = memory_family();
  const auto estimate = family_->reports_first_stage
                            ? estimate_stage(model, point, family, traits, 0)
                            : estimate_memory(model, point, family, traits);
  return estimate.total() - static_cast<std::int64_t>(family.overhead_bytes);
}

void Predictor::learn(const Observation& seen) {
  const double measured = measured_step_s(seen);
  if (measured <= 0) return;
  residuals_ += std::log(measured / estimate_time(seen.model, cluster_, seen.point).step_s);
  ++count_;
}

}  // namespace shardsweep
