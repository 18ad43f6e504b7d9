// SPDX-License-Identifier: Apache-2.0
// The first version of the memory model: formulas only, nothing fitted. Sums are doubles: exact
// up to 2^53 bytes, and no product of axis values can overflow.
#include "domain/predict/memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace shardsweep {
namespace {

constexpr double kib = 1024;
constexpr double mib = kib * kib;

constexpr MemoryFamily cuda_family{"shardbench", 4, true, 500e6 + 32 * mib};
constexpr MemoryFamily cpu_family{"shardbench-cpu", 4, false, 16 * mib};

std::int64_t whole(double bytes) {
  constexpr double most = 9e18;
  return static_cast<std::int64_t>(std::min(bytes, most));
}

double real(std::int64_t value) {
  return static_cast<double>(value);
}

// The shapes of one point as doubles.
struct Shape {
  double layers, hidden, ffn, heads, kv_share, vocab;  // kv_share: g/a
  double seq, batch, tp, pp, dp, accum;
  double element;
  Shape(const ModelSpec& model, const Point& point)
      : layers(real(model.layers)),
        hidden(real(model.hidden)),
        ffn(real(model.ffn)),
        heads(real(model.heads)),
        kv_share(real(model.kv_heads) / heads),
        vocab(real(model.vocab)),
        seq(point.seq_len),
        batch(point.layout.micro_batch),
        tp(point.layout.tp),
        pp(point.layout.pp),
        dp(point.layout.dp),
        accum(point.layout.grad_accum),
        element(real(bytes_of(point.dtype))) {}

  [[nodiscard]] double layer_matrices() const {
    return 2 * hidden * hidden * (1 + kv_share) + 3 * hidden * ffn;
  }
  [[nodiscard]] double token_row() const { return seq * batch * hidden; }
  [[nodiscard]] double ffn_row() const { return seq * batch * ffn; }
};

struct StateBytes {
  double weights, gradients, optimizer;  // per parameter
};

StateBytes state_bytes(const Point& point, double bf16_gradient) {
  const auto element = real(bytes_of(point.dtype));
  const bool mixed = point.dtype == Dtype::bf16;
  // Adam's two moments, and a master copy where the weights are too coarse to be added to.
  StateBytes bytes{element, mixed ? bf16_gradient : element, mixed ? 12 : 2 * element};
  const double shards = point.layout.shard_ranks();
  const auto zero = point.layout.zero;
  if (zero >= 1) bytes.optimizer /= shards;
  if (zero >= 2) bytes.gradients /= shards;
  if (zero >= 3) bytes.weights /= shards;
  return bytes;
}

// Elements of one layer's activations, between (sequence-parallel) and inside TP regions.
struct LayerActivations {
  double between, inside;            // kept when nothing is recomputed
  double kept_between, kept_inside;  // kept under the point's recompute
};

LayerActivations layer_activations(const Shape& shape, Recompute recompute) {
  const double row = shape.token_row();
  const double ffn = shape.ffn_row();
  LayerActivations all{4 * row, row * (2 + 2 * shape.kv_share) + 3 * ffn, 0, 0};
  switch (recompute) {
    case Recompute::none:
      all.kept_between = all.between;
      all.kept_inside = all.inside;
      break;
    case Recompute::selective:
      all.kept_between = 2 * row;
      all.kept_inside = all.inside - ffn;
      break;
    case Recompute::full:
      all.kept_between = row;
      break;
  }
  return all;
}

// What attention keeps beside its inputs and output, in bytes: log-sum-exp in fp32, or P.
double attention_bytes(const Shape& shape, bool flash) {
  const double rows = shape.seq * shape.batch * shape.heads / shape.tp;
  return flash ? 4 * rows : shape.element * rows * shape.seq;
}

double in_flight(const Shape& shape, Schedule schedule, double stage) {
  if (schedule == Schedule::afab) return shape.accum;
  return std::min(shape.accum, shape.pp - stage);
}

double stage_layers(const Shape& shape, double stage) {
  const double even = std::floor(shape.layers / shape.pp);
  return even + (stage < shape.layers - even * shape.pp ? 1 : 0);
}

double activation_bytes(const Shape& shape, const Point& point, const MemoryFamily& family,
                        double stage) {
  const double between = point.layout.sequence_parallel ? shape.tp : 1;
  const auto recompute = point.layout.recompute;
  const auto layer = layer_activations(shape, recompute);
  const double attention = attention_bytes(shape, family.flash_attention);
  const double whole_layer =
      shape.element * (layer.between / between + layer.inside / shape.tp) + attention;
  double kept = shape.element * (layer.kept_between / between + layer.kept_inside / shape.tp);
  if (recompute != Recompute::full) kept += attention;
  double bytes =
      in_flight(shape, point.layout.schedule, stage) * stage_layers(shape, stage) * kept;
  if (recompute != Recompute::none) bytes += whole_layer - kept;
  if (stage + 1 == shape.pp) bytes += shape.element * shape.token_row() / between;
  return bytes;
}

// A bucket is never larger than all the gradients there are.
double communication_bytes(const Shape& shape, const Point& point, double gradient_bytes) {
  const auto& layout = point.layout;
  const double between = layout.sequence_parallel ? shape.tp : 1;
  double bytes = 0;
  if (layout.pp > 1) bytes += 2 * shape.element * shape.token_row() / between;
  if (layout.dp > 1) bytes += std::min(layout.bucket_mb * mib, gradient_bytes);
  if (layout.zero >= 3) {
    const double layer = shape.layer_matrices() / shape.tp + 2 * shape.hidden;
    const double embedding = shape.vocab * shape.hidden / shape.tp;
    bytes += 2 * shape.element * std::max(layer, embedding);
  }
  return bytes;
}

std::int64_t& at(MemoryEstimate& estimate, MemoryClass part) {
  return estimate.bytes[static_cast<std::size_t>(part)];
}

double stage_parameters(const Shape& shape, bool tied, double stage) {
  const double embedding = shape.vocab * shape.hidden / shape.tp;
  const bool first = stage == 0;
  const bool last = stage + 1 == shape.pp;
  double count =
      stage_layers(shape, stage) * (shape.layer_matrices() / shape.tp + 2 * shape.hidden);
  if (first) count += embedding;
  // Tied embeddings are one tensor on one stage, two copies on two.
  if (last && !(first && tied)) count += embedding;
  if (last) count += shape.hidden;
  return count;
}

MemoryEstimate stage_memory(const ModelSpec& model, const Point& point,
                            const MemoryFamily& family, std::int32_t stage) {
  const Shape shape(model, point);
  const auto per_parameter = state_bytes(point, family.bf16_gradient_bytes);
  const double count = stage_parameters(shape, model.tied_embeddings, stage);
  const double gradient =
      point.dtype == Dtype::bf16 ? family.bf16_gradient_bytes : shape.element;
  MemoryEstimate estimate;
  estimate.stage = stage;
  at(estimate, MemoryClass::weights) = whole(count * per_parameter.weights);
  at(estimate, MemoryClass::gradients) = whole(count * per_parameter.gradients);
  at(estimate, MemoryClass::optimizer) = whole(count * per_parameter.optimizer);
  at(estimate, MemoryClass::activations) = whole(activation_bytes(shape, point, family, stage));
  if (stage + 1 == point.layout.pp) {
    at(estimate, MemoryClass::logits) =
        whole(shape.element * shape.seq * shape.batch * shape.vocab / shape.tp);
  }
  at(estimate, MemoryClass::communication) =
      whole(communication_bytes(shape, point, count * gradient));
  at(estimate, MemoryClass::overhead) = whole(family.overhead_bytes);
  return estimate;
}

}  // namespace

std::int64_t parameters(const ModelSpec& model) {
  const auto head_dim = model.hidden / model.heads;
  const auto layer = 2 * model.hidden * model.hidden +
                     2 * model.hidden * model.kv_heads * head_dim +
                     3 * model.hidden * model.ffn + 2 * model.hidden;
  const auto embeddings = model.tied_embeddings ? 1 : 2;
  return model.layers * layer + embeddings * model.vocab * model.hidden + model.hidden;
}

const MemoryFamily& shardbench_cuda_memory() {
  return cuda_family;
}

const MemoryFamily& shardbench_cpu_memory() {
  return cpu_family;
}

const MemoryFamily& memory_family(const ClusterSpec& cluster) {
  return cluster.gpu.empty() ? cpu_family : cuda_family;
}

MemoryEstimate estimate_memory(const ModelSpec& model, const Point& point,
                               const MemoryFamily& family) {
  const auto first = stage_memory(model, point, family, 0);
  if (point.layout.pp == 1) return first;
  const auto last = stage_memory(model, point, family, point.layout.pp - 1);
  return last.total() > first.total() ? last : first;
}

MemoryEstimate optimistic_memory(const ModelSpec& model, const Point& point) {
  constexpr double gradient = 2;
  const Shape shape(model, point);
  const auto state = state_bytes(point, gradient);
  const auto layer = layer_activations(shape, point.layout.recompute);
  const double kept =
      shape.element * (layer.kept_between + layer.kept_inside) / shape.tp;  // per layer
  // Some stage has at least ceil(L/p) layers; some stage has at least the mean of everything.
  const double most_layers = std::ceil(shape.layers / shape.pp);
  const double by_layers = most_layers * shape.layer_matrices() / shape.tp;
  const double matrices = shape.layers * shape.layer_matrices() +
                          (model.tied_embeddings ? 1 : 2) * shape.vocab * shape.hidden;
  const double by_mean = matrices / shape.tp / shape.pp;
  const double per_parameter = state.weights + state.gradients + state.optimizer;
  const double mean_layers = shape.layers / shape.pp;
  const bool mean = by_mean * per_parameter + mean_layers * kept >
                    by_layers * per_parameter + most_layers * kept;
  const double count = mean ? by_mean : by_layers;

  MemoryEstimate estimate;
  at(estimate, MemoryClass::weights) = whole(count * state.weights);
  at(estimate, MemoryClass::gradients) = whole(count * state.gradients);
  at(estimate, MemoryClass::optimizer) = whole(count * state.optimizer);
  at(estimate, MemoryClass::activations) = whole((mean ? mean_layers : most_layers) * kept);
  return estimate;
}

}  // namespace shardsweep
