// SPDX-License-Identifier: Apache-2.0
#include "predict/arena_memory.hpp"

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
  double hidden, ffn, heads, head_dim, vocab;
  double qkv;  // width of queries, keys and values on a rank
  double tp, in_flight, accum, shards;
  bool first, last, tied, sequence_parallel;
  const Layout& layout;

  ArenaStage(const ModelSpec& model, const Point& point, std::int32_t stage)
      : layers(layers_of_stage(model, point.layout, StageSplit::even, stage)),
        seq(point.seq_len),
        tokens(seq * point.layout.micro_batch),
        rows(point.layout.sequence_parallel ? tokens / point.layout.tp : tokens),
        hidden(real(model.hidden)),
        ffn(real(model.ffn)),
        heads(real(model.heads)),
        head_dim(hidden / heads),
        vocab(real(padded_vocab(model.vocab, point.layout.tp, shardbench_vocab_multiple))),
        qkv((heads + 2 * real(model.kv_heads)) * head_dim / point.layout.tp),
        tp(point.layout.tp),
        in_flight(point.layout.grad_accum),
        accum(point.layout.grad_accum),
        shards(point.layout.shard_ranks()),
        first(stage == 0),
        last(stage + 1 == point.layout.pp),
        tied(model.tied_embeddings),
        sequence_parallel(point.layout.sequence_parallel),
        layout(point.layout) {
    if (layout.schedule == Schedule::one_f_one_b)
      in_flight = std::min(accum, real(layout.pp) - stage);
  }

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

  // The largest two that follow each other in forward.
  [[nodiscard]] double gathered() const {
    double pair = std::max(embedding_unit(), head_unit()) + layer_unit();
    if (layers > 1) pair = std::max(pair, 2 * layer_unit());
    return pair;
  }

  // What of the head's gradients travels while the next unit's are computed.
  [[nodiscard]] double beside_next() const { return tied ? norm_unit() : head_unit(); }

  // The largest two whose gradients follow each other: the embedding's of one micro-batch and
  // the head's of the next are neighbours too.
  [[nodiscard]] double reduced() const {
    if (!layout.overlap) return std::max({embedding_unit(), head_unit(), layer_unit()});
    double pair = embedding_unit() + layer_unit();
    if (layers > 1) pair = std::max(pair, 2 * layer_unit());
    if (last) pair = std::max(pair, beside_next() + layer_unit());
    if (accum > 1 && first && last) pair = std::max(pair, embedding_unit() + head_unit());
    if (accum > 1 && last && layout.schedule == Schedule::afab)
      pair = std::max(pair, head_unit() + beside_next());
    // The head's own gradients are two units at once, the layer's next to them one.
    if (tied && last) pair = std::max(pair, head_unit());
    return pair;
  }
};

double activation_piece(const ArenaStage& at, Recompute recompute) {
  const double activated = at.tokens * at.ffn / at.tp;
  const double statistics = gradient_bytes * at.tokens * at.heads / at.tp;
  const double all = value_bytes * (4 * at.row() + at.tokens * at.qkv + at.whole_row() / at.tp +
                                    3 * activated) +
                     statistics;
  const bool afab = at.layout.schedule == Schedule::afab;
  const double stream = value_bytes * at.row();
  // Beside what is kept: the residual and its gradient on the last stage; elsewhere what is
  // sent and, where 1F1B has a steady state, what is received meanwhile.
  const bool steady = !afab && at.accum > at.in_flight - 1;
  double kept = all;
  double moment = at.last || steady ? 2 * stream : stream;
  if (recompute == Recompute::selective) {
    const double product = value_bytes * activated;
    kept = all - 2 * stream - product;
    const double forward = product + (at.sequence_parallel ? 0 : stream);
    moment = std::max({moment, forward, stream + std::max(product, stream)});
  } else if (recompute == Recompute::full) {
    kept = stream;
    moment = all + stream;
  }
  const double ids = at.first ? token_bytes * at.tokens : 0;
  const double waiting = at.last ? (at.in_flight - 1) * stream : 0;
  return at.in_flight * (at.layers * kept + ids) + waiting + moment;
}

// The worst moment of a layer, all in its backward, or the head.
double workspace_piece(const ArenaStage& at) {
  const double whole = at.whole_row();
  const double gathered = at.sequence_parallel ? whole : 0;
  const double queries = at.tokens * at.qkv;
  const double sums = at.sequence_parallel ? whole + at.row() : 0;
  const double padded = at.tokens / at.seq * rounded_up(at.seq, 64);
  const double attention = 4 * (2 + at.head_dim) * padded * at.heads / at.tp;
  const double layer = std::max({value_bytes * (at.tokens * at.ffn / at.tp + gathered),
                                 value_bytes * (whole / at.tp + queries) + attention,
                                 value_bytes * (queries + whole + sums)});
  if (!at.last) return layer;
  const double logits = at.tokens * rounded_up(at.vocab / at.tp, 64);
  const double summed = value_bytes * (whole + (at.sequence_parallel ? at.row() : 0));
  const double head = value_bytes * (at.row() + logits + gathered) +
                      std::max(3 * gradient_bytes * at.tokens, summed) +
                      token_bytes * at.tokens;
  return std::max(layer, head);
}

// Between blocks of one piece lie gaps that none of the next ones fits into; these were read
// off the meta device. Reduced units of one micro-batch part those of the next one.
double gradient_gaps(const ArenaStage& at) {
  const double parted = at.first && at.last ? 2 : 1;
  return std::min(at.accum - 1, parted) * at.layer_unit();
}

// Rows that come and go while a layer is computed again lie between those that stay.
double activation_gaps(const ArenaStage& at, Recompute recompute) {
  const bool whole_rows = at.tp > 1 && !at.sequence_parallel;
  if (recompute == Recompute::selective)
    return at.row() * (whole_rows ? std::min(1.25 * at.in_flight, 2.5) : 1);
  if (recompute == Recompute::full && whole_rows)
    return at.row() * std::max(1.0, at.in_flight / 2);
  return 0;
}

}  // namespace

MemoryEstimate arenas_of_stage(const ModelSpec& model, const Point& point, std::int32_t stage) {
  const ArenaStage at(model, point, stage);
  const double count = at.parameters_of_rank();
  const auto zero = point.layout.zero;
  MemoryEstimate estimate;
  estimate.stage = stage;
  const auto put = [&](MemoryClass part, double bytes) {
    constexpr double most = 9e18;
    estimate.bytes[static_cast<std::size_t>(part)] =
        static_cast<std::int64_t>(std::min(bytes, most));
  };
  put(MemoryClass::weights,
      value_bytes * (zero == 3 ? count / at.shards + at.gathered() : count));
  put(MemoryClass::gradients,
      gradient_bytes *
          (zero >= 2 ? count / at.shards + at.reduced() + gradient_gaps(at) : count));
  put(MemoryClass::optimizer, optimizer_bytes * (zero >= 1 ? count / at.shards : count));
  const auto recompute = point.layout.recompute;
  put(MemoryClass::activations,
      activation_piece(at, recompute) + value_bytes * activation_gaps(at, recompute));
  put(MemoryClass::logits, workspace_piece(at));
  return estimate;
}

}  // namespace shardsweep
