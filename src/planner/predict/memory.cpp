// SPDX-License-Identifier: Apache-2.0
// Sums are doubles: exact up to 2^53 bytes, and no product of axis values can overflow.
#include "predict/memory.hpp"

#include "predict/layer_activations.hpp"
#include "predict/layer_shape.hpp"
#include "predict/units.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace shardsweep {

namespace {

std::int64_t all_of_attention(const ModelSpec& model) {
  if (!model.is_latent()) {
    const auto keys = model.kv_heads * model.head_size();
    return 2 * model.hidden * (model.query_width() + keys);
  }
  const auto latent = latent_attention(model);
  return latent.down + latent.norms + latent.up + latent.output;
}

// Parameters if each layer with experts has `experts` of them.
std::int64_t parameters_with(const ModelSpec& model, std::int64_t experts) {
  const auto attention = all_of_attention(model);
  const auto norms = 2 * model.hidden;
  const auto matrices = model.matrices_of_ffn() * model.hidden;
  const auto dense = matrices * model.ffn;
  const auto sparse =
      matrices * (model.expert_ffn * experts + model.shared_width()) + model.hidden * model.experts;
  const auto embeddings = model.tied_embeddings ? 1 : 2;
  const auto mtp = attention + norms + (model.experts > 0 ? sparse : dense) +
      mtp_projection(model) + mtp_norms(model);
  return model.layers * norms + model.with_attention() * attention + model.with_dense() * dense +
      model.with_experts() * sparse + model.state_layers * state_mixer(model) +
      embeddings * model.vocab * model.hidden + model.hidden + model.mtp_layers * mtp;
}

}  // namespace

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t multiple) {
  const auto step = tp * multiple;
  return (vocab + step - 1) / step * step;
}

std::int64_t parameters(const ModelSpec& model) {
  return parameters_with(model, model.experts);
}

std::int64_t active_parameters(const ModelSpec& model) {
  return parameters_with(model, model.experts_per_token);
}

namespace {

// Habits that keep least of a layer, which no trainer's bound may exceed.
constexpr MemoryFamily least_kept{.fp8_inputs = true, .selective = Selective::second_products};
constexpr MemoryFamily cpu_family{.flash_attention = false,
    .stages_parts = true,
    .half_beside_fp8 = false,
    .vocab_multiple = shardbench_vocab_multiple};

std::int64_t whole(double bytes) {
  constexpr double most = 9e18;
  return static_cast<std::int64_t>(std::min(bytes, most));
}

struct StateBytes {
  double weights, gradients, optimizer;  // bytes per parameter
};

StateBytes state_bytes(const Point& point, double bf16_gradient, double shards) {
  const auto element = real(bytes_of(point.dtype));
  const bool mixed = is_half(point.dtype);
  // Adam's two moments, and a master copy where the weights are too coarse to be added to.
  StateBytes bytes{element, mixed ? bf16_gradient : element, mixed ? 12 : 2 * element};
  const auto zero = point.layout.zero;
  if (zero >= 1) bytes.optimizer /= shards;
  if (zero >= 2) bytes.gradients /= shards;
  if (zero >= 3) bytes.weights /= shards;
  // Offloaded state is in the host's memory. Weights that ZeRO 2 gathers for a step stay until it
  // ends.
  if (point.layout.offload != Offload::none) bytes.optimizer = 0;
  if (point.layout.offload == Offload::all) {
    bytes.gradients = 0;
    if (zero >= 3) bytes.weights = 0;
  }
  return bytes;
}

// Micro-batches in flight on a rank; each of its v chunks counts 1/v. On the first rank
// p + (p - 1)/v [arXiv 2205.05198, section 4.2.1].
double in_flight(const LayerShape& shape, const Layout& layout, double stage) {
  if (layout.schedule == Schedule::afab) return shape.accum;
  // Stages that wait for fewer gradients keep work for the weights' [arXiv 2401.10241].
  // Folded, each rank has as many pieces of half a stage as rank 0 of 1F1B has of whole ones.
  if (layout.schedule == Schedule::zb_h1 || layout.schedule == Schedule::zb_v)
    return std::min(shape.accum, shape.pp);
  if (layout.vpp == 1 || shape.pp == 1) return std::min(shape.accum, shape.pp - stage);
  const double chunks = 2 * (shape.pp - stage - 1) + (layout.vpp - 1) * shape.pp + 1;
  return std::min(shape.accum, chunks / layout.vpp);
}

// Bytes that a stage's layers keep of one micro-batch, and those that are computed again at a time.
struct StageKeeps {
  double kept, again;
};

StageKeeps kept_by_stage(
    const RunTraits& traits, Recompute recompute, double layers, double whole_layer, double kept) {
  if (recompute == Recompute::none) return {layers * kept, 0};
  const auto at_a_time = real(traits.recompute_layers);
  if (recompute != Recompute::full || at_a_time == 0) return {layers * kept, whole_layer - kept};
  if (traits.recompute_by_block) {
    const double again = std::min(layers, at_a_time);
    return {again * kept + (layers - again) * whole_layer, whole_layer - kept};
  }
  const double together = std::min(layers, at_a_time);
  return {std::ceil(layers / at_a_time) * kept, together * whole_layer - kept};
}

struct ActivationBytes {
  double in_flight, one;  // bytes of all micro-batches in flight, and of one
};

// One layer's on a rank: all that it makes, and what of it is kept.
struct LayerBytes {
  double whole, kept;
};

LayerBytes layer_bytes(
    const LayerShape& shape, const Point& point, const Habits& habits, bool experts) {
  const double between = point.layout.sequence_parallel ? shape.tp : 1;
  const auto layer = layer_activations(
      shape, habits, point.layout.recompute, attention_bytes(shape, habits), experts);
  const double parts = shape.row_parts(point.layout.sequence_parallel);
  return {layer.between / between + layer.inside / shape.tp + layer.routed / parts,
      layer.kept_between / between + layer.kept_inside / shape.tp + layer.kept_routed / parts};
}

// Where a stage has layers with and without experts, the mean of what they keep.
LayerBytes stage_layer_bytes(const LayerShape& shape, const Point& point, const Habits& habits,
    double layers, double dense) {
  if (layers <= dense) return layer_bytes(shape, point, habits, false);
  const auto sparse = layer_bytes(shape, point, habits, true);
  if (dense <= 0) return sparse;
  const auto other = layer_bytes(shape, point, habits, false);
  const double share = dense / layers;
  return {std::max(sparse.whole, other.whole), share * other.kept + (1 - share) * sparse.kept};
}

// Bytes that layers for later tokens keep of the micro-batches in flight, beside one layer each.
// The layers keep the states and the embedding that come, both normed in one row of 2h, and the
// output before and after its norm. If computed again as a whole, they keep what comes and what
// leaves. Of a rank's pieces the last alone has them, whose gradients come at once.
double mtp_bytes(
    const LayerShape& shape, const Point& point, const Habits& habits, double micro_batches) {
  if (shape.mtp == 0) return 0;
  const double between = point.layout.sequence_parallel ? shape.tp : 1;
  const double row = shape.element * shape.token_row() / between;
  const double kept = point.layout.recompute == Recompute::full
      ? 4 * row
      : 6 * row + layer_bytes(shape, point, habits, shape.experts > 0).kept;
  return shape.mtp * kept * (point.layout.vpp > 1 && shape.pp > 1 ? 1 : micro_batches);
}

ActivationBytes activation_bytes(const LayerShape& shape, const Point& point, const Habits& habits,
    double stage, double layers, double dense) {
  const double between = point.layout.sequence_parallel ? shape.tp : 1;
  const auto recompute = point.layout.recompute;
  const auto [whole_layer, kept] = stage_layer_bytes(shape, point, habits, layers, dense);
  const auto stage_keeps = kept_by_stage(habits.run, recompute, layers, whole_layer, kept);
  double working = habits.family.working_layers * whole_layer + stage_keeps.again;
  const double micro_batches = in_flight(shape, point.layout, stage);
  ActivationBytes all{0, 0};
  if (stage == shape.head) {
    working += shape.element * shape.token_row() / between;
    all = {mtp_bytes(shape, point, habits, micro_batches), mtp_bytes(shape, point, habits, 1)};
  }
  all.in_flight += micro_batches * stage_keeps.kept + working;
  all.one += stage_keeps.kept + working;
  return all;
}

// Ring: keys and values that are here and that come, and gradients to them: own ones, those
// that leave and those that come; among few ranks not all at once. Ulysses: queries, keys and
// values as they leave and as they come.
double shared_sequence_bytes(const LayerShape& shape, const Layout& layout) {
  if (layout.cp == 1) return 0;
  const double query = shape.element * shape.tokens() * shape.query / layout.tp;
  if (layout.cp_mode == ContextMode::ring)
    return std::min(layout.cp + 1, 5) * shape.key_values() * query;
  return 2 * query * (1 + shape.key_values());
}

// A bucket is never larger than all the gradients there are.
double communication_bytes(const LayerShape& shape, const Point& point, const MemoryFamily& family,
    double gradient_bytes) {
  const auto& layout = point.layout;
  const double between = layout.sequence_parallel ? shape.tp : 1;
  const double row = shape.element * shape.token_row();
  double bytes = 0;
  if (layout.pp > 1) bytes += 2 * row / between;
  // Where bf16 gradients lie in buckets, they are counted whole.
  if (layout.data_ranks() > 1 && family.bucket_bytes == 0) {
    bytes +=
        std::min(layout.bucket_mb * mib, gradient_bytes) / (family.stages_parts ? shape.dp : 1);
  }
  bytes += shared_sequence_bytes(shape, layout);
  // Gradients of dispatched rows as they leave and, if other ranks have the experts, as they
  // come.
  bytes += shape.chosen * row * (layout.ep > 1 ? 2 : 1) / shape.row_parts(layout.sequence_parallel);
  if (layout.tp > 1) {
    bytes += family.tp_buffer_rows * row;
    if (layout.pp == 1) bytes += family.tp_retained_rows * row;
  }
  if (layout.zero >= 3) {
    double layer = shape.layer_matrices() / shape.tp + shape.whole_parameters();
    if (shape.experts > 0) {
      layer = shape.beside_experts() / shape.tp + shape.own_experts() + shape.router() +
          shape.whole_parameters();
    }
    const double embedding = shape.vocab * shape.hidden / shape.tp;
    bytes += 2 * shape.element * std::max(layer, embedding);
  }
  return bytes;
}

std::int64_t& at(MemoryEstimate& estimate, MemoryClass part) {
  return estimate.bytes[static_cast<std::size_t>(part)];
}

// Parameters of a stage on one rank: those that all of dp x cp share, and those of its experts.
struct StageParameters {
  double shared = 0;
  double experts = 0;
};

StageParameters stage_parameters(const LayerShape& shape, const Habits& habits, bool tied,
    double stage, double layers, double dense) {
  const double embedding = shape.vocab * shape.hidden / shape.tp;
  const bool first = stage == 0;
  const bool last = stage == shape.head;
  // Layers that predict later tokens are as the last ones.
  const double mtp = last ? shape.mtp : 0;
  const double dense_mtp = shape.experts > 0 ? 0 : mtp;
  const double sparse = layers - dense + (mtp - dense_mtp);
  StageParameters count;
  count.shared = (dense + dense_mtp) *
      (shape.layer_matrices(habits.plain) / shape.tp + shape.whole_parameters());
  count.shared +=
      sparse * (shape.beside_experts() / shape.tp + shape.router() + shape.whole_parameters());
  count.shared += mtp * (shape.projection / shape.tp + shape.mtp_norms);
  count.experts = sparse * shape.own_experts();
  if (first) count.shared += embedding;
  // Tied embeddings are one tensor on one stage, two copies on two.
  if (last && !(first && tied)) count.shared += embedding;
  // MTP layers read the embedding too: a stage that is not the first has a copy of it.
  if (mtp > 0 && !first && !tied) count.shared += embedding;
  if (last) count.shared += shape.hidden;
  return count;
}

// Layers of the stages before `stage`, split by cost. The border is where the cost so far
// exceeds the share of the stages before it: a block that reaches it exactly stays behind.
double layers_before(const LayerShape& shape, double stage) {
  if (stage <= 0) return 0;
  if (stage >= shape.pp) return shape.layers;
  const double layer = 4 * shape.hidden * shape.hidden + shape.matrices * shape.hidden * shape.ffn;
  const double all = shape.layers * layer + shape.vocab * shape.hidden;
  constexpr double rounding = 1e-9;
  return std::min(shape.layers, std::floor(all * stage / shape.pp / layer + rounding) + 1);
}

double stage_layers(const LayerShape& shape, StageSplit split, double stage) {
  if (shape.first_layers + shape.last_layers > 0) {
    if (stage == 0 && shape.first_layers > 0) return shape.first_layers;
    if (stage == shape.pp - 1 && shape.last_layers > 0) return shape.last_layers;
    return shape.middle_layers;
  }
  if (split == StageSplit::by_cost)
    return layers_before(shape, stage + 1) - layers_before(shape, stage);
  const double even = std::floor(shape.layers / shape.pp);
  return even + (stage < shape.layers - even * shape.pp ? 1 : 0);
}

// Layers of all stages before this one.
double layers_before(const LayerShape& shape, StageSplit split, double stage) {
  if (shape.first_layers + shape.last_layers > 0) {
    double before = 0;
    for (double earlier = 0; earlier < stage; ++earlier)
      before += stage_layers(shape, split, earlier);
    return before;
  }
  if (split == StageSplit::by_cost) return layers_before(shape, stage);
  const double even = std::floor(shape.layers / shape.pp);
  return stage * even + std::min(stage, shape.layers - even * shape.pp);
}

// Layers of a stage without experts. Interleaved, a stage has them in its first chunk.
double stage_dense_layers(
    const LayerShape& shape, const Layout& layout, StageSplit split, double stage, double layers) {
  if (shape.experts == 0) return layers;
  if (layout.vpp > 1) return shape.dense_of(stage * layers / layout.vpp, layers / layout.vpp);
  return shape.dense_of(layers_before(shape, split, stage), layers);
}

// Time at which a stage needs most.
enum class Moment : std::uint8_t { in_flight, last_backward, update };

// The model of one stage: what it always holds, and what it holds at a moment.
class Stage {
 public:
  Stage(const LayerShape& shape, const ModelSpec& model, const Point& point,
      const MemoryFamily& family, const RunTraits& traits, std::int32_t stage)
      : shape_(shape),
        point_(point),
        habits_(model, family, traits, point.dtype, point.layout.cuda_graphs),
        stage_(stage),
        layers_(stage_layers(shape_, family.split, stage)),
        dense_(stage_dense_layers(shape_, point.layout, family.split, stage, layers_)),
        parts_(stage_parameters(shape_, habits_, model.tied_embeddings, stage, layers_, dense_)),
        count_(parts_.shared + parts_.experts) {}

  [[nodiscard]] MemoryEstimate most() const {
    const auto activations = activation_bytes(shape_, point_, habits_, stage_, layers_, dense_);
    return at_moment(worst_moment(activations), activations);
  }

  [[nodiscard]] MemoryEstimate at_update() const { return at_moment(Moment::update, {}); }

 private:
  // The moments differ in gradients, activations and communication alone.
  [[nodiscard]] Moment worst_moment(const ActivationBytes& activations) const {
    const auto& family = habits_.family;
    if (family.bucket_bytes + family.step_gather_bytes == 0) return Moment::in_flight;
    const double flight = count_ * bucket_bytes(Moment::in_flight) + activations.in_flight;
    const double last = count_ * bucket_bytes(Moment::last_backward) + activations.one;
    const double backward =
        std::max(flight, last) + head_bytes() + transfer_bytes(Moment::in_flight);
    const double update = count_ * bucket_bytes(Moment::update) + transfer_bytes(Moment::update);
    if (update > backward) return Moment::update;
    return last > flight ? Moment::last_backward : Moment::in_flight;
  }

  [[nodiscard]] MemoryEstimate at_moment(Moment moment, const ActivationBytes& activations) const {
    const auto& family = habits_.family;
    const auto state = held();
    MemoryEstimate estimate;
    estimate.stage = stage_;
    at(estimate, MemoryClass::weights) = whole(state.weights);
    at(estimate, MemoryClass::gradients) = whole(state.gradients + count_ * bucket_bytes(moment));
    at(estimate, MemoryClass::optimizer) = whole(state.optimizer);
    at(estimate, MemoryClass::communication) = whole(transfer_bytes(moment));
    at(estimate, MemoryClass::overhead) = whole(family.overhead_bytes + family.allocator_bytes);
    if (moment == Moment::update) return estimate;
    at(estimate, MemoryClass::activations) =
        whole(moment == Moment::in_flight ? activations.in_flight : activations.one);
    at(estimate, MemoryClass::logits) = whole(head_bytes());
    return estimate;
  }

  // Bytes of the state of all parameters. ZeRO shards experts over the ranks that have the same
  // ones.
  [[nodiscard]] StateBytes held() const {
    const double gradient = habits_.family.bf16_gradient_bytes;
    const auto shared = state_bytes(point_, gradient, point_.layout.shard_ranks());
    const auto experts = state_bytes(point_, gradient, shape_.expert_replicas);
    StateBytes held{parts_.shared * shared.weights + parts_.experts * experts.weights,
        parts_.shared * shared.gradients + parts_.experts * experts.gradients,
        parts_.shared * shared.optimizer + parts_.experts * experts.optimizer};
    const auto& layout = point_.layout;
    constexpr double fp32 = 4;
    if (habits_.family.whole_in_pipeline && layout.pp > 1 && layout.data_ranks() > 1) {
      if (layout.zero >= 2) held.gradients = std::max(held.gradients, count_ * fp32);
      if (layout.zero >= 3) held.weights += count_ * shape_.element;
    }
    return held;
  }

  [[nodiscard]] double transfer_bytes(Moment moment) const {
    const auto& family = habits_.family;
    if (moment == Moment::update) {
      // State aside, the gathered weights and the parts that they are gathered from.
      const double shards = point_.layout.shard_ranks();
      const bool gathers = shards > 1 && point_.layout.zero > 0;
      double bytes = gathers ? count_ * (family.step_gather_bytes * (1 + 1 / shards)) : 0;
      if (point_.layout.tp > 1)
        bytes += family.tp_buffer_rows * shape_.element * shape_.token_row();
      return bytes;
    }
    const double gradient = is_half(point_.dtype) ? family.bf16_gradient_bytes : shape_.element;
    return communication_bytes(shape_, point_, family, count_ * gradient);
  }

  // DDP makes its buckets for the backward that is reduced. Without ZeRO they stay; with it
  // they are given back after the update.
  [[nodiscard]] double bucket_bytes(Moment moment) const {
    if (point_.layout.data_ranks() == 1) return 0;
    if (moment == Moment::in_flight && point_.layout.zero > 0) return 0;
    return habits_.family.bucket_bytes;
  }

  [[nodiscard]] double head_bytes() const {
    if (stage_ != head_stage(point_.layout)) return 0;
    const double bytes =
        habits_.family.logits_bytes > 0 ? habits_.family.logits_bytes : shape_.element;
    return (1 + shape_.mtp) * bytes * shape_.seq * shape_.batch * shape_.vocab / shape_.tp;
  }

  const LayerShape& shape_;
  const Point& point_;
  Habits habits_;
  std::int32_t stage_;
  double layers_;
  double dense_;
  StageParameters parts_;
  double count_;
};

// Mean of the stages: the first layers may be dense.
MemoryEstimate optimistic_with_experts(const ModelSpec& model, const Point& point) {
  constexpr double gradient = 2;
  const LayerShape shape(model, point);
  const Habits habits(model, least_kept, {}, point.dtype, false);
  const auto recompute = point.layout.recompute;
  const auto dense = layer_activations(shape, habits, recompute, 0);
  const auto sparse = layer_activations(shape, habits, recompute, 0, true);
  const double dense_layers = shape.dense_of(0, shape.layers);
  const double with_experts = shape.layers - dense_layers + shape.mtp;
  const double kept = dense_layers * (dense.kept_between + dense.kept_inside) +
      with_experts * (sparse.kept_between + sparse.kept_inside);
  const double split = shape.tp * shape.pp;
  const double shared =
      (dense_layers * shape.layer_matrices() + with_experts * shape.beside_experts() +
          (model.tied_embeddings ? 1 : 2) * shape.vocab * shape.hidden +
          (shape.layers + shape.mtp) * shape.down + shape.mtp * shape.projection) /
      split;
  const double experts = with_experts * shape.own_experts() / shape.pp;
  const auto state = state_bytes(point, gradient, point.layout.shard_ranks());
  const auto spread = state_bytes(point, gradient, shape.expert_replicas);
  MemoryEstimate estimate;
  at(estimate, MemoryClass::weights) = whole(shared * state.weights + experts * spread.weights);
  at(estimate, MemoryClass::gradients) =
      whole(shared * state.gradients + experts * spread.gradients);
  at(estimate, MemoryClass::optimizer) =
      whole(shared * state.optimizer + experts * spread.optimizer);
  at(estimate, MemoryClass::activations) = whole(kept / split);
  return estimate;
}

}  // namespace

const MemoryFamily& shardbench_cpu_memory() {
  return cpu_family;
}

namespace {

/// The point in fp32, for a family that counts values outside FP8 as fp32.
std::optional<Point> in_fp32(const Point& point, const MemoryFamily& family) {
  if (!is_fp8(point.dtype) || family.half_beside_fp8) return std::nullopt;
  Point values = point;
  values.dtype = Dtype::fp32;
  return values;
}

LayerShape padded_shape(const ModelSpec& model, const Point& point, const MemoryFamily& family) {
  return {model, point, padded_vocab(model.vocab, point.layout.tp, family.vocab_multiple)};
}

MemoryEstimate stage_estimate(const LayerShape& shape, const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, std::int32_t stage) {
  const bool has_arenas = family.arenas && model.experts == 0 && !model.is_latent() &&
      model.ffn_matrices == 0 && model.mtp_layers == 0 && is_half(point.dtype) &&
      point.layout.vpp == 1 && point.layout.cp == 1 && point.layout.schedule != Schedule::zb_h1;
  if (!has_arenas) return Stage(shape, model, point, family, traits, stage).most();
  auto estimate = arenas_of_stage(model, point, family, stage);
  at(estimate, MemoryClass::overhead) = whole(family.overhead_bytes);
  return estimate;
}

}  // namespace

MemoryEstimate estimate_stage(const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, std::int32_t stage) {
  if (const auto values = in_fp32(point, family))
    return estimate_stage(model, *values, family, traits, stage);
  return stage_estimate(padded_shape(model, point, family), model, point, family, traits, stage);
}

MemoryEstimate estimate_memory(const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits) {
  if (const auto values = in_fp32(point, family))
    return estimate_memory(model, *values, family, traits);
  const auto shape = padded_shape(model, point, family);
  auto most = stage_estimate(shape, model, point, family, traits, 0);
  if (point.layout.pp == 1) return most;
  for (const auto stage : {sparse_stage(LayerShape(model, point), point.layout, family.split),
           stage_between(point.layout), point.layout.pp - 1}) {
    if (stage == 0) continue;
    const auto other = stage_estimate(shape, model, point, family, traits, stage);
    if (other.total() > most.total()) most = other;
  }
  return most;
}

std::int64_t update_bytes(const ModelSpec& model, const Point& point, const MemoryFamily& family) {
  const auto estimate = Stage(LayerShape(model, point), model, point, family, {}, 0).at_update();
  return estimate.total() - estimate.bytes[static_cast<std::size_t>(MemoryClass::overhead)];
}

bool is_plain(const ModelSpec& model, const MemoryFamily& family) {
  return family.plain_where_ffn_is_4h && model.experts == 0 && !model.is_latent() &&
      model.ffn == 4 * model.hidden;
}

double layer_activation_bytes(const LayerShape& shape, const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, bool experts) {
  return layer_bytes(shape, point, Habits(model, family, traits), experts).whole;
}

double layer_dropped_bytes(const LayerShape& shape, const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, bool experts) {
  const auto bytes = layer_bytes(shape, point, Habits(model, family, traits), experts);
  return bytes.whole - bytes.kept;
}

double layers_of_stage(const LayerShape& shape, StageSplit split, std::int32_t stage) {
  return stage_layers(shape, split, stage);
}

double dense_layers_of_stage(
    const LayerShape& shape, const Layout& layout, StageSplit split, std::int32_t stage) {
  return stage_dense_layers(shape, layout, split, stage, stage_layers(shape, split, stage));
}

std::int32_t stage_between(const Layout& layout) {
  return layout.has_uneven_stages() && layout.pp > 2 ? 1 : 0;
}

std::int32_t sparse_stage(const LayerShape& all, const Layout& layout, StageSplit split) {
  if (all.experts == 0 || all.dense_layers == 0) return 0;
  LayerShape shape = all;
  shape.dense_share = 0;
  std::int32_t stage = 0;
  while (stage + 1 < layout.pp && dense_layers_of_stage(shape, layout, split, stage) > 0)
    ++stage;
  return stage;
}

namespace {

LayerShape shape_of(const ModelSpec& model, const Layout& layout) {
  Point point;
  point.layout = layout;
  return {model, point};
}

}  // namespace

double layer_activation_bytes(const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, bool experts) {
  return layer_activation_bytes(LayerShape(model, point), model, point, family, traits, experts);
}

double layer_dropped_bytes(const ModelSpec& model, const Point& point, const MemoryFamily& family,
    const RunTraits& traits, bool experts) {
  return layer_dropped_bytes(LayerShape(model, point), model, point, family, traits, experts);
}

double layers_of_stage(
    const ModelSpec& model, const Layout& layout, StageSplit split, std::int32_t stage) {
  return layers_of_stage(shape_of(model, layout), split, stage);
}

double dense_layers_of_stage(
    const ModelSpec& model, const Layout& layout, StageSplit split, std::int32_t stage) {
  return dense_layers_of_stage(shape_of(model, layout), layout, split, stage);
}

std::int32_t sparse_stage(const ModelSpec& model, const Layout& layout, StageSplit split) {
  return sparse_stage(shape_of(model, layout), layout, split);
}

MemoryEstimate optimistic_memory(
    const ModelSpec& model, const Point& point, const RunTraits& traits) {
  if (model.experts > 0) return optimistic_with_experts(model, point);
  constexpr double gradient = 2;
  const LayerShape shape(model, point);
  const auto state = state_bytes(point, gradient, point.layout.shard_ranks());
  const auto layer = layer_activations(
      shape, Habits(model, least_kept, {}, point.dtype, false), point.layout.recompute, 0);
  double kept = (layer.kept_between + layer.kept_inside) / shape.tp;  // bytes per layer
  if (point.layout.recompute == Recompute::full && !traits.recompute_by_block)
    kept /= std::max(1, traits.recompute_layers);
  // Some stage has at least ceil(L/p) layers; some stage has at least the mean of everything.
  const double most_layers = std::ceil(shape.layers / shape.pp);
  const double layer_matrices = shape.layer_matrices() + shape.down;
  const double by_layers = most_layers * layer_matrices / shape.tp;
  const double all_layers = shape.layers + shape.mtp;
  const double matrices = all_layers * layer_matrices + shape.mtp * shape.projection +
      (model.tied_embeddings ? 1 : 2) * shape.vocab * shape.hidden;
  const double by_mean = matrices / shape.tp / shape.pp;
  const double per_parameter = state.weights + state.gradients + state.optimizer;
  const double mean_layers = all_layers / shape.pp;
  const bool mean =
      by_mean * per_parameter + mean_layers * kept > by_layers * per_parameter + most_layers * kept;
  const double count = mean ? by_mean : by_layers;

  MemoryEstimate estimate;
  at(estimate, MemoryClass::weights) = whole(count * state.weights);
  at(estimate, MemoryClass::gradients) = whole(count * state.gradients);
  at(estimate, MemoryClass::optimizer) = whole(count * state.optimizer);
  at(estimate, MemoryClass::activations) = whole((mean ? mean_layers : most_layers) * kept);
  return estimate;
}

}  // namespace shardsweep
