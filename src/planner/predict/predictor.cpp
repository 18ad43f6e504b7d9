// SPDX-License-Identifier: Apache-2.0
// Of memory there are three numbers: the estimate, a bound below it with all that the trainer
// may do well, and one above it with what an allocator of segments holds in reserve. Only the
// bound below makes a point unfit: a layout that is left out by mistake is never measured, one
// that runs out of memory costs a start. A step takes what the time model says, times what an
// allocator loses near its limit, times the error that measured points have shown. Without a
// peak rate seconds are nominal: they order points, and no speed is told.
#include "predict/predictor.hpp"

#include "predict/rates.hpp"

#include <shardsweep/recorded.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>

namespace shardsweep {
namespace {

// Products, memory, host, TP, DP, stages, update, and all of them together.
constexpr std::array<double, 8> prior_sigma{0.1, 0.3, 0.25, 0.4, 0.5, 0.3, 0.3, 0.15};
// Error that the parts do not explain. Two thirds of the playbook's runs that are at least half as
// fast as their cell's best lie within it of the prediction.
constexpr double own_sigma = 0.1;
// Widens the error of a point while learning: its neighbours err together.
constexpr double learning_sigma = 0.4;

}  // namespace

const std::array<double, 8>& part_sigmas() {
  return prior_sigma;
}

StepResiduals::StepResiduals() {
  static_assert(prior_sigma.size() == size);
  for (std::size_t i = 0; i < size; ++i)
    covariance_[i][i] = prior_sigma[i] * prior_sigma[i];
}

StepResiduals::Projection StepResiduals::project(const TimeEstimate& time) const {
  Projection seen{};
  std::copy(time.weights.begin(), time.weights.end(), seen.features.begin());
  seen.features[parts] = 1;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j)
      seen.spread[i] += covariance_[i][j] * seen.features[j];
    seen.mean += mean_[i] * seen.features[i];
    seen.variance += seen.spread[i] * seen.features[i];
  }
  return seen;
}

StepResiduals::Off StepResiduals::predict(const TimeEstimate& time) const {
  const auto seen = project(time);
  return {seen.mean, std::sqrt(std::max(0.0, seen.variance) + own_sigma * own_sigma)};
}

void StepResiduals::learn(const TimeEstimate& time, double log_ratio) {
  const auto seen = project(time);
  const double off = log_ratio - seen.mean;
  double noise = learning_sigma * learning_sigma;
  const double bound = 2 * std::sqrt(seen.variance + noise);
  if (std::abs(off) > bound) noise *= off * off / (bound * bound);
  const double gain = 1 / (seen.variance + noise);
  for (std::size_t i = 0; i < size; ++i) {
    mean_[i] += seen.spread[i] * gain * off;
    for (std::size_t j = 0; j < size; ++j)
      covariance_[i][j] -= seen.spread[i] * seen.spread[j] * gain;
  }
}

namespace {

// An allocator of segments reserves up to so much more than tensors need, where it can.
constexpr double fragmented = 0.2;

/// Seconds from launch to the first train step: processes and sockets, or contexts,
/// communicators and weights on a GPU node.
constexpr double cpu_start_s = 0.5;
constexpr double gpu_start_s = 20;

// Words of attention kernels that keep no probabilities: flash attention, memory-efficient
// attention, cuDNN's and PyTorch's fused ones. "fused" alone is none of them: it is cuDNN's in
// Transformer Engine, and a fused softmax, which keeps them, in older Megatron.
constexpr std::array<std::string_view, 10> fused_attention{"flash", "sdpa", "xformers", "mem_eff",
    "memory_eff", "efficient", "cudnn", "te_fused", "transformer_engine", "flex"};
// Words of those that keep them.
constexpr std::array<std::string_view, 7> unfused_attention{
    "unfused", "eager", "local", "naive", "math", "megatron", "fused_softmax"};
constexpr std::array<std::string_view, 2> fused_norms{"rms", "norm"};

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
  const auto says = [&](const auto& words) {
    return std::any_of(words.begin(), words.end(),
        [&](std::string_view word) { return text.find(word) != std::string::npos; });
  };
  RunTraits traits;
  // A flash kernel of torch is asked for before torch.
  const bool torch =
      text == "torch" || text.rfind("torch ", 0) == 0 || text.rfind("torch+", 0) == 0;
  if (says(fused_attention)) {
    traits.flash_attention = true;
  } else if (says(unfused_attention) || torch) {
    traits.flash_attention = false;
  }
  // Tables that compare kernels name all fused ones: a text without norms has none that are fused.
  if (!text.empty()) traits.fused_norm = says(fused_norms);
  return traits;
}

Predictor::Predictor(const ClusterSpec& cluster, const Family& family)
    : cluster_(with_nominal_rates(cluster)), family_(&family) {}

namespace {

/// Heads of keys and values that a rank holds: of fewer than ranks of tp each lies on several.
bool copies_heads(const ModelSpec& model, const Point& point) {
  return point.layout.tp > model.kv_heads && !model.is_latent();
}

ModelSpec with_copies(ModelSpec model, const Point& point) {
  model.kv_heads = point.layout.tp;
  return model;
}

}  // namespace

Guess Predictor::guess(const ModelSpec& model, const Point& point, const RunTraits& traits) const {
  if (copies_heads(model, point)) return guess(with_copies(model, point), point, traits);
  return guess(model, point, bounds(model, point, traits), traits);
}

Guess Predictor::guess(const ModelSpec& model, const Point& point, const MemoryBounds& bounds,
    const RunTraits& traits) const {
  if (copies_heads(model, point)) return guess(with_copies(model, point), point, bounds, traits);
  Guess guess;
  guess.memory = guess_memory(model, bounds);
  guess.time = estimate_time(model, cluster_, point, family_->time, memory_family(), traits);
  guess.retries = retries(guess.memory);
  return corrected(guess);
}

Guess Predictor::corrected(Guess guess) const {
  const auto off = residuals_.predict(guess.time);
  guess.step_s = guess.time.step_s * guess.retries * std::exp(off.mean);
  guess.log_sigma = off.sigma;
  return guess;
}

double Predictor::least_step_s(
    const ModelSpec& model, const Point& point, bool any_pipeline) const {
  if (copies_heads(model, point))
    return least_step_s(with_copies(model, point), point, any_pipeline);
  const auto time = estimate_time(model, cluster_, point, family_->time, memory_family(), {});
  const double step_s = any_pipeline ? time.step_s - time.bubble_s : time.step_s;
  return step_s * std::exp(residuals_.predict(time).mean);
}

double Predictor::retries(const MemoryGuess& memory) const {
  if (!family_->retries_near_the_limit || cluster_.memory_bytes <= 0) return 1;
  // Longer step, by up to four times, from an optimistic bound of nine tenths of the device on.
  constexpr double begins = 0.9;
  constexpr double most = 3;
  const double filled =
      static_cast<double>(memory.lower_bytes) / static_cast<double>(cluster_.memory_bytes);
  return 1 + most * std::clamp((filled - begins) / (1 - begins), 0.0, 1.0);
}

Prediction Predictor::predict(
    const ModelSpec& model, const Measure& measure, const Point& point) const {
  const auto guessed = guess(model, point);
  Prediction prediction;
  if (model.unpredicted().empty()) prediction.memory_bytes = guessed.memory.estimate.total();
  const double start_s = cluster_.gpu.empty() ? cpu_start_s : gpu_start_s;
  prediction.attempt_s = start_s + (measure.warmup + measure.steps_of_trial()) * guessed.step_s;
  if (!guessed.time.nominal) {
    prediction.train_step_s = guessed.step_s;
    prediction.tokens_per_s_per_gpu = speed_of(guessed.step_s, point);
  }
  return prediction;
}

const MemoryFamily& Predictor::memory_family() const {
  // The only known trainer without GPUs is the benchmark's own CPU backend.
  return cluster_.gpu.empty() ? shardbench_cpu_memory() : family_->memory;
}

MemoryEstimate Predictor::least_memory(
    const ModelSpec& model, const Point& point, const RunTraits& traits) const {
  if (copies_heads(model, point)) return least_memory(with_copies(model, point), point, traits);
  if (!family_->least || cluster_.gpu.empty()) return optimistic_memory(model, point, traits);
  return estimate_memory(model, point, *family_->least, traits);
}

MemoryBounds Predictor::bounds(
    const ModelSpec& model, const Point& point, const RunTraits& traits) const {
  if (copies_heads(model, point)) return bounds(with_copies(model, point), point, traits);
  MemoryBounds bounds;
  bounds.estimate = estimate_memory(model, point, memory_family(), traits);
  bounds.optimistic = optimistic_memory(model, point, traits);
  bounds.least = !family_->least || cluster_.gpu.empty()
      ? bounds.optimistic
      : estimate_memory(model, point, *family_->least, traits);
  return bounds;
}

MemoryGuess Predictor::guess_memory(
    const ModelSpec& model, const Point& point, const RunTraits& traits) const {
  return guess_memory(model, bounds(model, point, traits));
}

MemoryGuess Predictor::guess_memory(const ModelSpec& model, const MemoryBounds& bounds) const {
  MemoryGuess memory;
  memory.estimate = bounds.estimate;
  const auto total = memory.estimate.total();
  memory.lower_bytes = std::min(total, bounds.least.total());
  memory.upper_bytes = total + static_cast<std::int64_t>(fragmented * static_cast<double>(total));
  // Layers that no formula knows are counted as attention: good for an order, not for a verdict.
  if (cluster_.memory_bytes > 0 && model.unpredicted().empty()) {
    if (memory.lower_bytes > cluster_.memory_bytes) {
      memory.fit = Fit::never;
    } else if (memory.upper_bytes > cluster_.memory_bytes) {
      memory.fit = Fit::doubtful;
    }
  }
  return memory;
}

MemoryEstimate Predictor::certain_memory(
    const ModelSpec& model, const Point& point, const RunTraits& traits) const {
  return certain_memory(model, point, bounds(model, point, traits));
}

MemoryEstimate Predictor::certain_memory(
    const ModelSpec& model, const Point& point, const MemoryBounds& bounds) const {
  if (!model.unpredicted().empty()) return {};
  const auto certain = [&](MemoryEstimate bytes) {
    auto& optimizer = bytes.bytes[static_cast<std::size_t>(MemoryClass::optimizer)];
    if (is_half(point.dtype))
      optimizer =
          static_cast<std::int64_t>(family_->certain_optimizer * static_cast<double>(optimizer));
    return bytes;
  };
  const auto sure = certain(bounds.optimistic);
  // Memory of processes is their host's to give: it is no device that ends at its size.
  if (cluster_.gpu.empty()) return sure;
  auto least = family_->constants_off_by > 0 ? certain(bounds.least) : bounds.estimate;
  for (auto& bytes : least.bytes)
    bytes -= static_cast<std::int64_t>(family_->constants_off_by * static_cast<double>(bytes));
  return sure.total() > least.total() ? sure : least;
}

std::int64_t Predictor::reported_peak_bytes(
    const ModelSpec& model, const Point& point, const RunTraits& traits) const {
  if (copies_heads(model, point))
    return reported_peak_bytes(with_copies(model, point), point, traits);
  const auto& family = memory_family();
  constexpr auto of_any_rank = RecordedRun::of_any_rank;
  const auto stage = traits.peak_stage.value_or(family_->reports_first_stage ? 0 : of_any_rank);
  const auto estimate = stage == of_any_rank ? estimate_memory(model, point, family, traits)
                                             : estimate_stage(model, point, family, traits, stage);
  return estimate.total() - static_cast<std::int64_t>(family.overhead_bytes);
}

void Predictor::learn(const Observation& seen) {
  const double measured = measured_step_s(seen);
  if (measured <= 0) return;
  if (copies_heads(seen.model, seen.point)) {
    Observation held = seen;
    held.model = with_copies(seen.model, seen.point);
    return learn(held);
  }
  const auto time =
      estimate_time(seen.model, cluster_, seen.point, family_->time, memory_family(), seen.traits);
  const auto memory = guess_memory(seen.model, seen.point, seen.traits);
  residuals_.learn(time, std::log(measured / (time.step_s * retries(memory))));
}

}  // namespace shardsweep
