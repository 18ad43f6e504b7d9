// SPDX-License-Identifier: Apache-2.0
#include "model/moe_layer.hpp"

#include "communication/all_to_all.hpp"
#include "model/context_attention.hpp"
#include "model/linear.hpp"
#include "model/moe_routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace shardbench {
namespace {

i64 sum_of(const std::vector<i64>& counts) {
  return std::accumulate(counts.begin(), counts.end(), i64{0});
}

i64 own_experts(const RankContext& c) {
  return c.shape.experts / c.layout.ep;
}

Device::RouteShape route_shape(const RankContext& c) {
  return {c.extents.tokens, c.shape.experts, c.shape.experts_per_token};
}

Device::Placed placed(const RankContext& c, const ExpertActivations& s, const Block& rows,
                      const void* weights) {
  return {rows.data(),
          reinterpret_cast<const std::int32_t*>(s.places.data()),
          weights,
          c.extents.tokens,
          c.shape.experts_per_token,
          sum_of(s.counts.sent),
          c.extents.hidden};
}

Block uploaded(const RankContext& c, MemoryClass kind, const std::vector<std::int32_t>& values,
               std::string_view what) {
  const auto bytes = static_cast<i64>(values.size() * sizeof(std::int32_t));
  Block block = c.memory.allocate(kind, bytes, what);
  c.device.upload(block.data(), values.data(), bytes);
  return block;
}

// Who chooses what.

/// Of the rank of dp and cp with this index.
std::vector<std::int32_t> pinned_by(const RankContext& c, i64 data_rank, MoeRouting routing) {
  RankContext other = c;
  other.at.dp = data_rank / c.layout.cp;
  other.at.cp = data_rank % c.layout.cp;
  return pinned_choices(c.shape, routing, c.extents.attention, positions_of(other));
}

/// The meta device has no logits: there a learned routing is balanced.
MoeRouting routing_of(const RankContext& c) {
  const bool unknown = c.layout.moe_routing == MoeRouting::learned && !c.device.computes();
  return unknown ? MoeRouting::balanced : c.layout.moe_routing;
}

i64 capacity_of(const RankContext& c) {
  return expert_capacity(c.shape, c.layout, c.extents.tokens);
}

/// Rows of each ep rank for each expert, [ep, experts], where they depend on the logits.
std::vector<i64> told_counts(const RankContext& c, const std::vector<i64>& own) {
  const i64 experts = c.shape.experts;
  const bool single = c.gradient_dtype() != Dtype::fp64;
  std::vector<float> floats(own.begin(), own.end());
  std::vector<double> doubles(own.begin(), own.end());
  const Block mine = c.statistics(MemoryClass::communication, experts, "counts of rows");
  const Block all =
      c.statistics(MemoryClass::communication, experts * c.layout.ep, "counts of all rows");
  if (single)
    c.device.upload(mine.data(), floats.data(), mine.bytes());
  else
    c.device.upload(mine.data(), doubles.data(), mine.bytes());
  c.ep.wait(c.ep.all_gather(mine.data(), all.data(), experts, c.gradient_dtype()));
  floats.resize(static_cast<std::size_t>(experts * c.layout.ep));
  doubles.resize(floats.size());
  if (single) {
    c.device.download(floats.data(), all.data(), all.bytes());
    doubles.assign(floats.begin(), floats.end());
  } else {
    c.device.download(doubles.data(), all.data(), all.bytes());
  }
  std::vector<i64> counts(doubles.size());
  std::transform(doubles.begin(), doubles.end(), counts.begin(),
                 [](double count) { return static_cast<i64>(std::llround(count)); });
  return counts;
}

/// The same where everyone knows what the others choose.
std::vector<i64> known_counts(const RankContext& c) {
  const i64 first = data_index(c.layout, c.at) / c.layout.ep * c.layout.ep;
  std::vector<i64> counts;
  for (i64 i = 0; i < c.layout.ep; ++i) {
    const Dispatch d = dispatch_of(pinned_by(c, first + i, routing_of(c)), c.shape, 0);
    counts.insert(counts.end(), d.sent.begin(), d.sent.end());
  }
  return counts;
}

ExpertRows rows_of(const RankContext& c, std::vector<i64> sent) {
  const i64 own = own_experts(c);
  ExpertRows rows{std::move(sent), {}};
  if (c.layout.ep == 1) {
    rows.received = rows.sent;
    return rows;
  }
  if (const i64 capacity = capacity_of(c); capacity > 0) {
    rows.received.assign(static_cast<std::size_t>(c.shape.experts), capacity);
    return rows;
  }
  std::vector<i64> counts;
  if (c.layout.moe_routing == MoeRouting::learned) counts = told_counts(c, rows.sent);
  if (!c.device.computes() || c.layout.moe_routing != MoeRouting::learned)
    counts = known_counts(c);
  for (i64 peer = 0; peer < c.layout.ep; ++peer)
    for (i64 e = 0; e < own; ++e)
      rows.received.push_back(
          counts[static_cast<std::size_t>(peer * c.shape.experts + c.ep.rank() * own + e)]);
  return rows;
}

/// Fills choices, and probabilities, which are logits before.
std::vector<std::int32_t> choose(const RankContext& c, ExpertActivations& s) {
  const MoeRouting routing = routing_of(c);
  std::vector<std::int32_t> choices(
      static_cast<std::size_t>(c.extents.tokens * c.shape.experts_per_token));
  const bool pinned = routing != MoeRouting::learned;
  if (pinned) choices = pinned_by(c, data_index(c.layout, c.at), routing);
  s.choices = uploaded(c, MemoryClass::activations, choices, "choices of experts");
  c.device.route({s.probabilities.data(), s.weights.data(),
                  reinterpret_cast<std::int32_t*>(s.choices.data()), pinned},
                 route_shape(c));
  if (!pinned) c.device.download(choices.data(), s.choices.data(), s.choices.bytes());
  return choices;
}

// The exchange.

/// Rows for each ep rank, or of each.
PartsOfMembers by_peer(const RankContext& c, const Block& rows,
                       const std::vector<i64>& by_expert) {
  PartsOfMembers parts{rows.data(), std::vector<i64>(static_cast<std::size_t>(c.layout.ep), 0)};
  const auto own = static_cast<std::size_t>(own_experts(c));
  for (std::size_t i = 0; i < by_expert.size(); ++i)
    parts.counts[i / own] += by_expert[i] * c.extents.hidden;
  return parts;
}

/// Of this rank's tokens to their experts; without ep they are there.
Block to_experts(const RankContext& c, const ExpertRows& counts, Block rows, MemoryClass kind) {
  if (c.layout.ep == 1) return rows;
  Block out = c.values(kind, sum_of(counts.received) * c.extents.hidden, "rows of experts");
  all_to_all(c, c.ep, by_peer(c, out, counts.received), by_peer(c, rows, counts.sent));
  return out;
}

/// What experts have made of them, back to their tokens.
Block to_tokens(const RankContext& c, const ExpertRows& counts, Block rows, MemoryClass kind) {
  if (c.layout.ep == 1) return rows;
  Block out = c.values(kind, sum_of(counts.sent) * c.extents.hidden, "outputs of experts");
  all_to_all(c, c.ep, by_peer(c, out, counts.sent), by_peer(c, rows, counts.received));
  return out;
}

MemoryClass unless_travelling(const RankContext& c, MemoryClass kind) {
  return c.layout.ep == 1 ? kind : MemoryClass::workspace;
}

// Products.

/// The rows of one expert that one rank has sent, and its matrices, as numbers of slots.
struct Chunk {
  i64 first;
  i64 rows;
  std::size_t gate;
  std::size_t down;
};

template <typename Work>
void each_chunk(const RankContext& c, const ExpertRows& counts, Work work) {
  constexpr std::size_t matrices = 3;
  const auto own = static_cast<std::size_t>(own_experts(c));
  i64 first = 0;
  for (std::size_t i = 0; i < counts.received.size(); ++i) {
    const std::size_t gate = i % own * matrices;
    if (counts.received[i] > 0) work(Chunk{first, counts.received[i], gate, gate + 2});
    first += counts.received[i];
  }
}

std::byte* matrix(const UnitView& view, std::size_t slot) {
  return view.base + view.unit->slots[slot].offset * view.element_bytes;
}

/// y[rows, out] = x[rows, in] · Wᵀ
Gemm forward_product(i64 rows, i64 in, i64 out) {
  return {.transpose_b = Transpose::yes,
          .m = rows,
          .n = out,
          .k = in,
          .lda = in,
          .ldb = in,
          .ldc = out};
}

/// dx[rows, in] = dy[rows, out] · W
Gemm input_product(i64 rows, i64 in, i64 out) {
  return {.m = rows, .n = in, .k = out, .lda = out, .ldb = in, .ldc = in};
}

/// dW[out, in] += dyᵀ · x
Gemm weight_product(i64 rows, i64 in, i64 out) {
  return {.transpose_a = Transpose::yes,
          .m = out,
          .n = in,
          .k = rows,
          .lda = out,
          .ldb = in,
          .ldc = in,
          .accumulate = Accumulate::yes,
          .gradient_output = true};
}

void multiply(const RankContext& c, Gemm gemm, const void* a, const void* b, void* result) {
  gemm.a = a;
  gemm.b = b;
  gemm.c = result;
  c.device.gemm(gemm);
}

Block activate(const RankContext& c, const ExpertActivations& s) {
  const i64 width = c.extents.expert_ffn;
  const i64 rows = sum_of(s.counts.received);
  Block y = c.values(MemoryClass::activations, rows * width, "activated rows of experts");
  c.device.swiglu(y.data(), s.gate_up.data(), rows, width);
  return y;
}

/// Outputs of the rows that are here.
Block apply_experts(const RankContext& c, const UnitView& w, ExpertActivations& s) {
  const i64 h = c.extents.hidden;
  const i64 width = c.extents.expert_ffn;
  const i64 rows = sum_of(s.counts.received);
  s.gate_up = c.values(MemoryClass::activations, rows * 2 * width, "gate and up of experts");
  each_chunk(c, s.counts, [&](const Chunk& k) {
    multiply(c, forward_product(k.rows, h, 2 * width),
             s.rows.data() + c.value_bytes(k.first * h), matrix(w, k.gate),
             s.gate_up.data() + c.value_bytes(k.first * 2 * width));
  });
  s.activated = activate(c, s);
  Block made =
      c.values(unless_travelling(c, MemoryClass::activations), rows * h, "outputs of experts");
  each_chunk(c, s.counts, [&](const Chunk& k) {
    multiply(c, forward_product(k.rows, width, h),
             s.activated.data() + c.value_bytes(k.first * width), matrix(w, k.down),
             made.data() + c.value_bytes(k.first * h));
  });
  return made;
}

}  // namespace

void experts_forward(const RankContext& c, const UnitView& w, const void* x,
                     ExpertActivations& s) {
  const i64 h = c.extents.hidden;
  const Device::RouteShape route = route_shape(c);
  s.probabilities = c.values(MemoryClass::activations, route.tokens * route.experts,
                             "probabilities of experts");
  linear(c, s.probabilities.data(), x, {w, TensorKind::router, h, route.experts});
  s.weights =
      c.values(MemoryClass::activations, route.tokens * route.chosen, "weights of experts");
  Dispatch dispatch = dispatch_of(choose(c, s), c.shape, capacity_of(c));
  s.places = uploaded(c, MemoryClass::activations, dispatch.places, "places of rows");
  const auto leaving = static_cast<i64>(dispatch.source.size());
  Block rows =
      c.values(unless_travelling(c, MemoryClass::activations), leaving * h, "rows for experts");
  {
    const Block source = uploaded(c, MemoryClass::workspace, dispatch.source, "rows' tokens");
    c.device.gather_rows({rows.data(), x, reinterpret_cast<std::int32_t*>(source.data()),
                          leaving, route.tokens, h});
  }
  s.counts = rows_of(c, std::move(dispatch.sent));
  s.rows = to_experts(c, s.counts, std::move(rows), MemoryClass::activations);
  s.outputs = to_tokens(c, s.counts, apply_experts(c, *w.experts, s), MemoryClass::activations);
}

void add_outputs(const RankContext& c, const ExpertActivations& s, void* sum) {
  c.device.add_placed(sum, placed(c, s, s.outputs, s.weights.data()));
}

ExpertsBackward::ExpertsBackward(const RankContext& context, const UnitView& weights,
                                 const UnitView& gradients, ExpertActivations& saved,
                                 const void* dy)
    : c_(context), w_(weights), g_(gradients), s_(saved) {
  const Device::RouteShape route = route_shape(c_);
  d_outputs_ = c_.values(MemoryClass::workspace, sum_of(s_.counts.sent) * c_.extents.hidden,
                         "gradient of experts' outputs");
  c_.device.zero(d_outputs_.data(), d_outputs_.bytes());
  d_weights_ = c_.values(MemoryClass::workspace, route.tokens * route.chosen,
                         "gradient of experts' weights");
  c_.device.placed_backward(d_outputs_.data(), d_weights_.data(), dy,
                            placed(c_, s_, s_.outputs, s_.weights.data()));
  s_.outputs.reset();
}

/// The gradient of what the experts have made becomes that of their rows.
void ExpertsBackward::through_experts(Block& d_made) {
  const i64 h = c_.extents.hidden;
  const i64 width = c_.extents.expert_ffn;
  const i64 rows = sum_of(s_.counts.received);
  const UnitView& w = *w_.experts;
  const UnitView& g = *g_.experts;
  if (g.fresh) c_.device.zero(g.base, c_.gradient_bytes(g.unit->elements));
  if (!s_.activated) s_.activated = activate(c_, s_);
  {
    const Block d_activated =
        c_.values(MemoryClass::workspace, rows * width, "gradient of experts' activated rows");
    each_chunk(c_, s_.counts, [&](const Chunk& k) {
      const std::byte* dy = d_made.data() + c_.value_bytes(k.first * h);
      multiply(c_, input_product(k.rows, width, h), dy, matrix(w, k.down),
               d_activated.data() + c_.value_bytes(k.first * width));
      multiply(c_, weight_product(k.rows, width, h), dy,
               s_.activated.data() + c_.value_bytes(k.first * width), matrix(g, k.down));
    });
    s_.activated.reset();
    c_.device.swiglu_backward(s_.gate_up.data(), d_activated.data(), rows, width);
  }
  each_chunk(c_, s_.counts, [&](const Chunk& k) {
    const std::byte* dy = s_.gate_up.data() + c_.value_bytes(k.first * 2 * width);
    multiply(c_, input_product(k.rows, h, 2 * width), dy, matrix(w, k.gate),
             d_made.data() + c_.value_bytes(k.first * h));
    multiply(c_, weight_product(k.rows, h, 2 * width), dy,
             s_.rows.data() + c_.value_bytes(k.first * h), matrix(g, k.gate));
  });
  s_.gate_up.reset();
  s_.rows.reset();
}

/// The loss for balance (Switch, arXiv 2101.03961, of each sequence): coefficient · experts ·
/// Σ f·P, f the part of the choices that an expert has, P its mean probability. One of the tp
/// ranks adds its gradient.
void ExpertsBackward::through_router(void* dx) {
  const Device::RouteShape route = route_shape(c_);
  const AttentionShape& a = c_.extents.attention;
  d_logits_ = c_.values(MemoryClass::workspace, route.tokens * route.experts,
                        "gradient of router logits");
  const auto* choices = reinterpret_cast<const std::int32_t*>(s_.choices.data());
  Block balance;
  if (c_.layout.moe_aux_loss > 0 && c_.at.tp == 0) {
    const i64 count = a.batch * route.experts;
    balance = c_.statistics(MemoryClass::workspace, count, "choices of a sequence");
    const double choices_of_sequence =
        static_cast<double>(c_.shape.seq_len) * static_cast<double>(route.chosen);
    const double scale = c_.layout.moe_aux_loss * static_cast<double>(route.experts) *
                         c_.loss_scale / choices_of_sequence;
    c_.device.count_choices(balance.data(), choices, a.seq_len, scale, route);
    c_.cp.wait(c_.cp.all_reduce(balance.data(), count, c_.gradient_dtype(), Reduction::sum));
  }
  c_.device.route_backward({d_logits_.data(), d_weights_.data(), s_.probabilities.data(),
                            s_.weights.data(), choices, balance.data(), a.seq_len},
                           route);
  d_weights_.reset();
  Gemm gemm = input_product(route.tokens, c_.extents.hidden, route.experts);
  gemm.accumulate = Accumulate::yes;
  multiply(c_, gemm, d_logits_.data(), w_.at(TensorKind::router), dx);
}

void ExpertsBackward::add_input_gradient(void* dx) {
  Block d_made = to_experts(c_, s_.counts, std::move(d_outputs_), MemoryClass::workspace);
  through_experts(d_made);
  const Block d_rows = to_tokens(c_, s_.counts, std::move(d_made), MemoryClass::workspace);
  c_.device.add_placed(dx, placed(c_, s_, d_rows, nullptr));
  through_router(dx);
}

void ExpertsBackward::to_router(const void* x) const {
  const i64 experts = c_.shape.experts;
  Gemm gemm = weight_product(c_.extents.tokens, c_.extents.hidden, experts);
  gemm.accumulate = g_.accumulate();
  multiply(c_, gemm, d_logits_.data(), x, g_.at(TensorKind::router));
}

}  // namespace shardbench
