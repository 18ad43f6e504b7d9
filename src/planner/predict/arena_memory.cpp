// SPDX-License-Identifier: Apache-2.0
// Each piece is a formula or a replay (arena_replay) of what the runner asks for, and none is
// fitted: a trial that is left out for its memory is then really too large. What the runner
// changes in its places changes here too; the test that runs the meta device finds out.
#include "predict/arena_replay.hpp"
#include "predict/layer_shape.hpp"
#include "predict/memory.hpp"
#include "predict/units.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

constexpr double value_bytes = 2;
constexpr double gradient_bytes = 4;
constexpr double optimizer_bytes = 12;
constexpr double token_bytes = 4;

double rounded_up(double value, double multiple) {
  return multiple * std::ceil(value / multiple);
}

// One stage in the runner's terms; rows and widths are in elements.
struct ArenaStage {
  double layers, seq, tokens, rows;  // rows of the residual stream
  double hidden, ffn, heads, kv_heads, head_dim, vocab;
  double qkv;  // width of queries, keys and values on a rank
  double tp, stages_after, accum, shards;
  bool first, last, tied, sequence_parallel;
  const Layout& layout;

  ArenaStage(
      const ModelSpec& model, const Point& point, const MemoryFamily& family, std::int32_t stage)
      : layers(layers_of_stage(LayerShape(model, point), StageSplit::even, stage)),
        seq(point.seq_len),
        tokens(seq * point.layout.micro_batch),
        rows(point.layout.sequence_parallel ? tokens / point.layout.tp : tokens),
        hidden(real(model.hidden)),
        ffn(real(model.ffn)),
        heads(real(model.heads)),
        kv_heads(real(model.kv_heads)),
        head_dim(hidden / heads),
        vocab(real(padded_vocab(model.vocab, point.layout.tp, family.vocab_multiple))),
        qkv((heads + 2 * kv_heads) * head_dim / point.layout.tp),
        tp(point.layout.tp),
        stages_after(point.layout.pp - 1 - stage),
        accum(point.layout.grad_accum),
        shards(point.layout.shard_ranks()),
        first(stage == 0),
        last(stage + 1 == point.layout.pp),
        tied(model.tied_embeddings),
        sequence_parallel(point.layout.sequence_parallel),
        layout(point.layout) {}

  [[nodiscard]] double row() const { return rows * hidden; }
  [[nodiscard]] double whole_row() const { return tokens * hidden; }

  // Parameters of the units that ZeRO gathers and reduces as one.
  [[nodiscard]] double layer_unit() const {
    return in_parts((hidden * qkv * tp + hidden * hidden + 3 * hidden * ffn) / tp + 2 * hidden);
  }
  [[nodiscard]] double table() const { return vocab * hidden / tp; }
  [[nodiscard]] double embedding_unit() const { return first ? in_parts(table()) : 0; }
  // Tied, the final norm is alone, and the matrix is the embedding's or a copy of it.
  [[nodiscard]] double norm_unit() const { return in_parts(hidden); }
  [[nodiscard]] double head_unit() const {
    if (!last) return 0;
    return tied ? norm_unit() + in_parts(table()) : in_parts(table() + hidden);
  }
  [[nodiscard]] double parameters_of_rank() const {
    const double shared = tied && first && last ? embedding_unit() : 0;
    return layers * layer_unit() + embedding_unit() + head_unit() - shared;
  }
  // ZeRO cuts units into parts of whole 128 elements.
  [[nodiscard]] double in_parts(double elements) const {
    return rounded_up(elements, 128 * (layout.zero > 0 ? shards : 1));
  }

  [[nodiscard]] WholeUnits whole_units(double element) const {
    const auto bytes = [&](double elements) {
      return static_cast<std::int64_t>(element * elements);
    };
    WholeUnits units;
    units.layers = static_cast<std::int64_t>(layers);
    units.layer = bytes(layer_unit());
    units.embedding = bytes(embedding_unit());
    units.tied = tied;
    if (!last) return units;
    units.norm = bytes(tied ? norm_unit() : head_unit());
    if (tied && !first) units.table = bytes(in_parts(table()));
    return units;
  }
};

// All blocks are as large as their tokens are many: places are those of a micro-batch of tp
// tokens, whatever the micro-batch.
double activation_piece(const ArenaStage& at, const MemoryFamily& family, const Point& point) {
  const auto count = [](double value) { return static_cast<std::int64_t>(value); };
  const auto recompute = point.layout.recompute;
  const bool dropped = recompute != Recompute::none;
  const bool core = recompute == Recompute::selective && family.selective == Selective::attention;
  ActivationStage stage;
  stage.sizes = {.row = count(value_bytes * at.hidden * (at.sequence_parallel ? 1 : at.tp)),
      .qkv = count(value_bytes * at.qkv * at.tp),
      .attended = count(value_bytes * at.hidden),
      .statistics = count(gradient_bytes * at.heads),
      .gate_up = count(2 * value_bytes * at.ffn),
      .ids = count(token_bytes * at.tp)};
  stage.layers = count(at.layers);
  stage.first = at.first;
  stage.last = at.last;
  stage.sums_elsewhere = at.sequence_parallel;
  stage.drops_norms_and_product = dropped && !core;
  stage.drops_core = core;
  stage.drops_layer = recompute == Recompute::full;
  const auto micro_batches = count(at.accum);
  if (at.layout.schedule == Schedule::afab) {
    stage.micro_batches = stage.ahead = micro_batches;
  } else {
    // Places repeat: once those of the warm-up were given back twice, the next micro-batches find
    // the same.
    stage.ahead = std::min(micro_batches, count(at.stages_after));
    stage.micro_batches = std::min(micro_batches, 3 * stage.ahead + 3);
  }
  return at.tokens / at.tp * real(activation_extent(stage));
}

// Sums over groups that are no part of a pass, one after the other: a tied copy's gradients by
// buckets, those of the norms under sequence parallelism; and a number of each rank.
double communication_piece(const ArenaStage& at) {
  constexpr double square_sum = 256;
  double most = 0;
  if (at.tied && at.first != at.last)
    most = std::min(gradient_bytes * at.in_parts(at.table()) / (at.layout.zero > 0 ? at.shards : 1),
        at.layout.bucket_mb * mib);
  if (at.sequence_parallel) {
    // Sharded gradients: the first rank has at least one norm of a layer.
    const double norms = at.layout.zero > 0 ? 1 : 2;
    most = std::max(most, gradient_bytes * at.hidden * (norms * at.layers + (at.last ? 1 : 0)));
  }
  return square_sum + most;
}

// FP8: the layers' matrices in 8 bits, in two orders, for a train step; but gathered ones
// (ZeRO 3) as operands.
double fp8_weights(const ArenaStage& at) {
  if (at.layout.zero == 3) return 0;
  return 2 * at.layers * (at.hidden * (at.qkv + at.hidden / at.tp + 3 * at.ffn / at.tp));
}

// FP8: a product's operands in 8 bits beside what else is there, gradients of outputs in two
// orders.
double fp8_piece(const ArenaStage& at, Dtype dtype) {
  const double whole = at.whole_row();
  const double gathered = at.sequence_parallel ? value_bytes * whole : 0;
  const double sums = at.sequence_parallel ? value_bytes * at.row() : 0;
  const double queries = at.tokens * at.qkv;
  const double attended = whole / at.tp;
  const double activated = at.tokens * at.ffn / at.tp;
  const double gathers_weights = at.layout.zero == 3 ? 1 : 0;
  const double down = gathers_weights * at.hidden * at.ffn / at.tp;
  const double out = gathers_weights * at.hidden * at.hidden / at.tp;
  const double query = gathers_weights * at.hidden * at.qkv;
  const double forward =
      gathered + std::max({whole + query, whole + 2 * down, attended + out, activated + down});
  const double to_activated = value_bytes * activated + std::max(down, activated);
  const double to_attended = value_bytes * attended + std::max(out, attended);
  const double to_mlp_norm = 4 * activated + std::max(2 * down, sums + whole);
  const double to_norm = (value_bytes + 2) * queries + std::max(query, sums + whole);
  // dy in two orders, or the partial gradient of the norm's output.
  const double beside = gathered + 2 * whole;
  // SwiGLU's backward with delayed scales leaves its gradient in 8 bits, in both orders.
  const double through_swiglu =
      dtype == Dtype::fp8_delayed ? gathered + (value_bytes + 4) * activated : 0;
  return std::max({forward, through_swiglu,
      beside + std::max({to_activated, to_attended, to_mlp_norm, to_norm})});
}

// Workspace that the runner plans for attention's backward, whichever way computes it. Its own
// kernels need sums; heads of 64 and 128 need cuDNN's sums and its engines' largest workspace.
double attention_workspace(const ArenaStage& at) {
  const double heads = at.heads / at.tp;
  const double padded = at.tokens / at.seq * rounded_up(at.seq, 64);
  const double own = 4 * (2 + at.head_dim) * padded * heads;
  if (at.head_dim != 64 && at.head_dim != 128) return own;
  constexpr double alignment = 256;
  const double shared_keys = at.heads == at.kv_heads ? 1 : 2;
  const double sums = rounded_up(4 * (1 + at.head_dim) * at.tokens * heads, alignment);
  const double engine = alignment + 4 * at.tokens * heads * at.head_dim * shared_keys;
  return std::max(own, sums + engine);
}

// The worst moment of a layer, all in its backward, or the head. The gradient of q, k, v lies
// above that of the attended values, whose place takes in a row of its part, not a whole one.
double workspace_piece(const ArenaStage& at) {
  const double whole = at.whole_row();
  const double gathered = at.sequence_parallel ? whole : 0;
  const double queries = at.tokens * at.qkv;
  const double attended = at.tp > 1 ? whole / at.tp : 0;
  const double attention = attention_workspace(at);
  const double layer = std::max({value_bytes * (at.tokens * at.ffn / at.tp + gathered),
      value_bytes * (whole / at.tp + queries) + attention,
      value_bytes * (attended + queries + whole + gathered)});
  if (!at.last) return layer;
  const double logits = at.tokens * rounded_up(at.vocab / at.tp, 64);
  const double summed = value_bytes * (whole + (at.sequence_parallel ? at.row() : 0));
  const double head = value_bytes * (at.row() + logits + gathered) +
      std::max(3 * gradient_bytes * at.tokens, summed) + token_bytes * at.tokens;
  return std::max(layer, head);
}

}  // namespace

MemoryEstimate arenas_of_stage(
    const ModelSpec& model, const Point& point, const MemoryFamily& family, std::int32_t stage) {
  const ArenaStage at(model, point, family, stage);
  const double count = at.parameters_of_rank();
  const auto zero = point.layout.zero;
  MemoryEstimate estimate;
  estimate.stage = stage;
  const auto put = [&](MemoryClass part, double bytes) {
    constexpr double most = 9e18;
    estimate.bytes[static_cast<std::size_t>(part)] =
        static_cast<std::int64_t>(std::min(bytes, most));
  };
  const MicroBatches passes{.count = static_cast<std::int64_t>(at.accum),
      .heads_first = point.layout.schedule == Schedule::afab,
      .overlap = point.layout.overlap};
  const double weights = zero == 3 ? real(whole_weights(at.whole_units(value_bytes))) : 0;
  const double gradients =
      zero >= 2 ? real(whole_gradients(at.whole_units(gradient_bytes), passes)) : 0;
  const double in_8_bits = is_fp8(point.dtype) ? fp8_weights(at) : 0;
  put(MemoryClass::weights,
      value_bytes * (zero == 3 ? count / at.shards : count) + weights + in_8_bits);
  put(MemoryClass::gradients, gradient_bytes * (zero >= 2 ? count / at.shards : count) + gradients);
  put(MemoryClass::optimizer, optimizer_bytes * (zero >= 1 ? count / at.shards : count));
  put(MemoryClass::activations, activation_piece(at, family, point));
  put(MemoryClass::communication, communication_piece(at));
  const double workspace = workspace_piece(at);
  put(MemoryClass::logits,
      is_fp8(point.dtype) ? std::max(workspace, fp8_piece(at, point.dtype)) : workspace);
  return estimate;
}

}  // namespace shardsweep
