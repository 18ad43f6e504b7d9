// SPDX-License-Identifier: Apache-2.0
#include "model/moe_layer.hpp"

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

const std::int32_t* integers(const Block& block) {
  return reinterpret_cast<const std::int32_t*>(block.data());
}

/// Choices and places are pinned, or this micro-batch's.
bool has_pinned_places(const RankContext& c) {
  return c.routing != nullptr && c.routing->has_places();
}
const std::int32_t* choices_of(const RankContext& c, const ExpertActivations& s) {
  return has_pinned_places(c) ? c.routing->choices() : integers(s.choices);
}
/// How many rows each expert has does not depend on the logits.
bool has_sure_counts(const Layout& layout) {
  return layout.moe_routing != MoeRouting::learned || layout.moe_capacity > 0;
}
const RowOrders& orders_of(const RankContext& c, const ExpertActivations& s) {
  return has_sure_counts(c.layout) ? c.routing->orders() : s.orders;
}

Device::RowPlacement placed(
    const RankContext& c, const ExpertActivations& s, const Block& rows, const void* weights) {
  return {rows.data(), has_pinned_places(c) ? c.routing->places() : integers(s.places), weights,
      c.extents.tokens, c.shape.experts_per_token, sum_of(s.counts.sent), c.extents.hidden};
}

Block uploaded(const RankContext& c, MemoryClass kind, const std::vector<std::int32_t>& values,
    std::string_view what) {
  const auto bytes = static_cast<i64>(values.size() * sizeof(std::int32_t));
  Block block = c.memory.allocate(kind, bytes, what);
  c.device.upload(block.data(), values.data(), bytes);
  return block;
}

// Choice of experts.

/// Pinned choices of the rank of dp and cp with this index.
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

/// Numbers in gradient format.
std::vector<i64> read_counts(const RankContext& c, const Block& counts) {
  std::vector<double> read(
      static_cast<std::size_t>(counts.bytes() / dtype_size(c.gradient_dtype())));
  c.device.read_gradient(read.data(), counts.data(), static_cast<i64>(read.size()));
  std::vector<i64> rows(read.size());
  std::transform(read.begin(), read.end(), rows.begin(),
      [](double count) { return static_cast<i64>(std::llround(count)); });
  return rows;
}

/// Rows for this rank's experts: of all counts [ep, experts] those.
std::vector<i64> received_of(const RankContext& c, const std::vector<i64>& counts) {
  const i64 own = own_experts(c);
  std::vector<i64> received;
  for (i64 peer = 0; peer < c.layout.ep; ++peer)
    for (i64 e = 0; e < own; ++e)
      received.push_back(
          counts[static_cast<std::size_t>(peer * c.shape.experts + c.ep.rank() * own + e)]);
  return received;
}

/// Rows under a routing that every rank computes for all others: no exchange of counts.
ExpertRows known_rows(const RankContext& c) {
  const i64 capacity = capacity_of(c);
  const auto of = [&](i64 data_rank) {
    return rows_by_expert(pinned_by(c, data_rank, routing_of(c)), c.shape, capacity);
  };
  const i64 self = data_index(c.layout, c.at);
  const i64 first = self / c.layout.ep * c.layout.ep;
  std::vector<i64> counts;
  for (i64 i = 0; i < c.layout.ep; ++i) {
    const std::vector<i64> sent = of(first + i);
    counts.insert(counts.end(), sent.begin(), sent.end());
  }
  return {of(self), received_of(c, counts)};
}

/// Rows under a routing by logits: the host waits for the counts of all experts, from each ep rank.
ExpertRows told_rows(const RankContext& c, const Block& own_counts) {
  const i64 experts = c.shape.experts;
  Block all;
  if (c.layout.ep > 1) {
    all = c.statistics(MemoryClass::communication, experts * c.layout.ep, "counts of all rows");
    c.ep.wait(c.ep.all_gather(own_counts.data(), all.data(), experts, c.gradient_dtype()));
  }
  if (c.routing != nullptr) return c.routing->counts();  // the meta device's
  const std::vector<i64> counts = read_counts(c, c.layout.ep > 1 ? all : own_counts);
  const auto sent = counts.begin() + c.ep.rank() * experts;
  return {{sent, sent + experts}, received_of(c, counts)};
}

/// Without ep, or with one expert on each rank, rows that come by rank lie by expert.
RowOrders row_orders(const RankContext& c, MemoryClass kind, const ExpertRows& counts) {
  if (c.layout.ep == 1 || own_experts(c) == 1) return {};
  const RunOrder order = run_order(counts.received, own_experts(c));
  return {uploaded(c, kind, order.by_expert, "rows by expert"),
      uploaded(c, kind, order.by_rank, "rows by rank")};
}

/// Each row that leaves, with its token.
void dispatch(const RankContext& c, const Device::Dispatch& d) {
  c.device.dispatch(d, route_shape(c));
}

// The exchange.

/// Rows for each ep rank, or of each.
PartsOfMembers by_peer(const RankContext& c, const Block& rows, const std::vector<i64>& by_expert) {
  PartsOfMembers parts{rows.data(), std::vector<i64>(static_cast<std::size_t>(c.layout.ep), 0)};
  const auto own = static_cast<std::size_t>(own_experts(c));
  for (std::size_t i = 0; i < by_expert.size(); ++i)
    parts.counts[i / own] += by_expert[i] * c.extents.hidden;
  return parts;
}

/// The rows in the other order, in memory of their own.
Block reordered(
    const RankContext& c, Block rows, const Block& order, MemoryClass kind, std::string_view what) {
  if (!order) return rows;
  const i64 count = order.bytes() / i64{sizeof(std::int32_t)};
  Block out = c.values(kind, count * c.extents.hidden, what);
  c.device.gather_rows({out.data(), rows.data(), integers(order), count, count, c.extents.hidden});
  return out;
}

MemoryClass unless_travelling(const RankContext& c, MemoryClass kind) {
  return c.layout.ep == 1 ? kind : MemoryClass::workspace;
}

// Products.

/// The rows of one expert, and its matrices, as numbers of slots; or of several that follow
/// each other and have as many.
struct Run {
  i64 first;
  i64 rows;
  std::size_t gate;
  std::size_t down;
  i64 experts = 1;
};
constexpr std::size_t matrices_of_expert = 3;

/// Experts with as many rows are one launch: all of them under a balanced routing or a
/// capacity.
template <typename Work>
void each_run(const RankContext& c, const ExpertRows& counts, Work work) {
  const auto own = static_cast<std::size_t>(own_experts(c));
  std::optional<Run> run;
  i64 first = 0;
  for (std::size_t expert = 0; expert < own; ++expert) {
    i64 rows = 0;
    for (std::size_t i = expert; i < counts.received.size(); i += own)
      rows += counts.received[i];
    if (run && run->rows == rows) {
      ++run->experts;
    } else {
      if (run && run->rows > 0) work(*run);
      const std::size_t gate = expert * matrices_of_expert;
      run = Run{first, rows, gate, gate + 2};
    }
    first += rows;
  }
  if (run && run->rows > 0) work(*run);
}

std::byte* matrix(const UnitView& view, std::size_t slot) {
  return view.base + view.unit->slots[slot].offset * view.element_bytes;
}

/// Values from one expert's matrices to those of the next one.
i64 matrix_step(const UnitView& view) {
  const auto& slots = view.unit->slots;
  return slots.size() > matrices_of_expert ? slots[matrices_of_expert].offset - slots.front().offset
                                           : 0;
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

/// Batches a product over the experts of a run: rows follow each other, matrices lie `step` apart.
Gemm by_expert(const Run& run, Gemm gemm, i64 step) {
  if (run.experts == 1) return gemm;
  gemm.batch = run.experts;
  gemm.step_a = run.rows * gemm.lda;
  gemm.step_b = gemm.gradient_output ? run.rows * gemm.ldb : step;
  gemm.step_c = gemm.gradient_output ? step : run.rows * gemm.ldc;
  return gemm;
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
  each_run(c, s.counts, [&](const Run& k) {
    multiply(c, by_expert(k, forward_product(k.rows, h, 2 * width), matrix_step(w)),
        s.rows.data() + c.value_bytes(k.first * h), matrix(w, k.gate),
        s.gate_up.data() + c.value_bytes(k.first * 2 * width));
  });
  s.activated = activate(c, s);
  Block made =
      c.values(unless_travelling(c, MemoryClass::activations), rows * h, "outputs of experts");
  each_run(c, s.counts, [&](const Run& k) {
    multiply(c, by_expert(k, forward_product(k.rows, width, h), matrix_step(w)),
        s.activated.data() + c.value_bytes(k.first * width), matrix(w, k.down),
        made.data() + c.value_bytes(k.first * h));
  });
  return made;
}

/// Logits become probabilities; who goes where is told, unless it is pinned.
void route(const RankContext& c, ExpertActivations& s, Block& source) {
  const Device::RouteShape shape = route_shape(c);
  const i64 count = shape.tokens * shape.chosen;
  const auto ids = [&](MemoryClass kind, i64 of, std::string_view what) {
    return c.memory.allocate(kind, of * i64{sizeof(std::int32_t)}, what);
  };
  const auto chosen_by = [&](const std::int32_t* choices, bool pinned) {
    // Pinned ones are only read.
    c.device.route(
        {s.probabilities.data(), s.weights.data(), const_cast<std::int32_t*>(choices), pinned},
        shape);
  };
  if (has_pinned_places(c)) {
    chosen_by(c.routing->choices(), true);
    s.counts = c.routing->counts();
    return;
  }
  s.choices = ids(MemoryClass::activations, count, "choices of experts");
  chosen_by(integers(s.choices), false);
  s.places = ids(MemoryClass::activations, count, "places of rows");
  const i64 capacity = capacity_of(c);
  source =
      ids(MemoryClass::workspace, capacity > 0 ? capacity * shape.experts : count, "rows' tokens");
  const Block counts = c.statistics(MemoryClass::communication, shape.experts, "counts of rows");
  dispatch(c,
      {integers(s.choices), reinterpret_cast<std::int32_t*>(source.data()),
          reinterpret_cast<std::int32_t*>(s.places.data()), counts.data(), capacity});
  if (has_sure_counts(c.layout)) {
    s.counts = c.routing->counts();
    return;
  }
  s.counts = told_rows(c, counts);
  s.orders = row_orders(c, MemoryClass::activations, s.counts);
}

}  // namespace

KnownRouting::KnownRouting(const RankContext& c) : counts_(known_rows(c)) {
  const MoeRouting routing = c.layout.moe_routing;
  constexpr MemoryClass kind = MemoryClass::activations;
  if (has_sure_counts(c.layout)) orders_ = row_orders(c, kind, counts_);
  if (routing == MoeRouting::learned) return;
  const std::vector<std::int32_t> choices = pinned_by(c, data_index(c.layout, c.at), routing);
  choices_ = uploaded(c, kind, choices, "choices of experts");
  const auto bytes = static_cast<i64>(choices.size() * sizeof(std::int32_t));
  places_ = c.memory.allocate(kind, bytes, "places of rows");
  source_ =
      c.memory.allocate(kind, sum_of(counts_.sent) * i64{sizeof(std::int32_t)}, "rows' tokens");
  const Block counts = c.statistics(MemoryClass::communication, c.shape.experts, "counts of rows");
  dispatch(c,
      {integers(choices_), reinterpret_cast<std::int32_t*>(source_.data()),
          reinterpret_cast<std::int32_t*>(places_.data()), counts.data(), capacity_of(c)});
}

bool KnownRouting::exists(const RankContext& c) {
  return c.shape.experts > 0 && (has_sure_counts(c.layout) || !c.device.computes());
}
const std::int32_t* KnownRouting::choices() const {
  return integers(choices_);
}
const std::int32_t* KnownRouting::places() const {
  return integers(places_);
}
const std::int32_t* KnownRouting::source() const {
  return integers(source_);
}

RowTravel::RowTravel(
    const RankContext& c, const ExpertRows& counts, Block rows, Way way, MemoryClass kind)
    : leaving_(std::move(rows)) {
  if (c.layout.ep == 1) return;
  const bool to_experts = way == Way::to_experts;
  const std::vector<i64>& to = to_experts ? counts.received : counts.sent;
  const std::vector<i64>& from = to_experts ? counts.sent : counts.received;
  arriving_ = c.values(
      kind, sum_of(to) * c.extents.hidden, to_experts ? "rows of experts" : "outputs of experts");
  const bool hides = c.layout.habits.expert_overlap == ExpertOverlap::both_ways;
  const UnderProducts under(c.ep, hides ? Travel::under_products : Travel::alone);
  exchange_.emplace(c, c.ep, by_peer(c, arriving_, to), by_peer(c, leaving_, from));
}

void RowTravel::wait() {
  if (exchange_) exchange_->wait();
}

Block RowTravel::take() {
  if (!exchange_) return std::move(leaving_);
  wait();
  leaving_.reset();
  return std::move(arriving_);
}

ExpertsForward::ExpertsForward(
    const RankContext& c, const UnitView& w, const void* x, ExpertActivations& s)
    : c_(c), w_(w), s_(s) {
  const i64 h = c.extents.hidden;
  const Device::RouteShape shape = route_shape(c);
  s.probabilities =
      c.values(MemoryClass::activations, shape.tokens * shape.experts, "probabilities of experts");
  linear(c, s.probabilities.data(), x, {w, TensorKind::router, h, shape.experts});
  s.weights = c.values(MemoryClass::activations, shape.tokens * shape.chosen, "weights of experts");
  Block source;
  route(c, s, source);
  const i64 leaving = sum_of(s.counts.sent);
  Block rows =
      c.values(unless_travelling(c, MemoryClass::activations), leaving * h, "rows for experts");
  c.device.gather_rows(
      {rows.data(), x, source ? integers(source) : c.routing->source(), leaving, shape.tokens, h});
  const bool reorders = static_cast<bool>(orders_of(c, s).by_expert);
  travel_.emplace(c, s.counts, std::move(rows), RowTravel::Way::to_experts,
      reorders ? MemoryClass::workspace : MemoryClass::activations);
}

void ExpertsForward::compute() {
  const RowOrders& orders = orders_of(c_, s_);
  s_.rows =
      reordered(c_, travel_->take(), orders.by_expert, MemoryClass::activations, "rows by expert");
  travel_.reset();
  Block made = reordered(c_, apply_experts(c_, *w_.experts, s_), orders.by_rank,
      MemoryClass::workspace, "outputs by rank");
  travel_.emplace(
      c_, s_.counts, std::move(made), RowTravel::Way::to_tokens, MemoryClass::activations);
}

void ExpertsForward::finish() {
  s_.outputs = travel_->take();
  travel_.reset();
}

void add_outputs(const RankContext& c, const ExpertActivations& s, void* sum) {
  c.device.add_placed(sum, placed(c, s, s.outputs, s.weights.data()));
}

ExpertsBackward::ExpertsBackward(const RankContext& context, const UnitView& weights,
    const UnitView& gradients, ExpertActivations& saved, const void* dy)
    : c_(context), w_(weights), g_(gradients), s_(saved) {
  const Device::RouteShape route = route_shape(c_);
  Block d_outputs = c_.values(MemoryClass::workspace, sum_of(s_.counts.sent) * c_.extents.hidden,
      "gradient of experts' outputs");
  c_.device.zero(d_outputs.data(), d_outputs.bytes());
  d_weights_ = c_.values(
      MemoryClass::workspace, route.tokens * route.chosen, "gradient of experts' weights");
  c_.device.placed_backward(
      d_outputs.data(), d_weights_.data(), dy, placed(c_, s_, s_.outputs, s_.weights.data()));
  s_.outputs.reset();
  send(std::move(d_outputs), RowTravel::Way::to_experts);
}

/// Waits at once if the profile hides nothing of it.
void ExpertsBackward::send(Block rows, RowTravel::Way way) {
  travel_.emplace(c_, s_.counts, std::move(rows), way, MemoryClass::workspace);
  if (c_.layout.habits.expert_overlap != ExpertOverlap::both_ways) travel_->wait();
}

/// Turns the gradient of the experts' results into that of their rows.
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
    each_run(c_, s_.counts, [&](const Run& k) {
      const std::byte* dy = d_made.data() + c_.value_bytes(k.first * h);
      multiply(c_, by_expert(k, input_product(k.rows, width, h), matrix_step(w)), dy,
          matrix(w, k.down), d_activated.data() + c_.value_bytes(k.first * width));
      multiply(c_, by_expert(k, weight_product(k.rows, width, h), matrix_step(g)), dy,
          s_.activated.data() + c_.value_bytes(k.first * width), matrix(g, k.down));
    });
    s_.activated.reset();
    c_.device.swiglu_backward(s_.gate_up.data(), d_activated.data(), rows, width);
  }
  each_run(c_, s_.counts, [&](const Run& k) {
    const std::byte* dy = s_.gate_up.data() + c_.value_bytes(k.first * 2 * width);
    multiply(c_, by_expert(k, input_product(k.rows, h, 2 * width), matrix_step(w)), dy,
        matrix(w, k.gate), d_made.data() + c_.value_bytes(k.first * h));
    multiply(c_, by_expert(k, weight_product(k.rows, h, 2 * width), matrix_step(g)), dy,
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
  d_logits_ =
      c_.values(MemoryClass::workspace, route.tokens * route.experts, "gradient of router logits");
  const std::int32_t* choices = choices_of(c_, s_);
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

void ExpertsBackward::compute() {
  const RowOrders& orders = orders_of(c_, s_);
  Block d_made = reordered(
      c_, travel_->take(), orders.by_expert, MemoryClass::workspace, "gradients by expert");
  travel_.reset();
  through_experts(d_made);
  send(
      reordered(c_, std::move(d_made), orders.by_rank, MemoryClass::workspace, "gradients by rank"),
      RowTravel::Way::to_tokens);
}

void ExpertsBackward::add_input_gradient(void* dx) {
  {
    const Block d_rows = travel_->take();
    c_.device.add_placed(dx, placed(c_, s_, d_rows, nullptr));
  }
  travel_.reset();
  through_router(dx);
}

void ExpertsBackward::to_router(const void* x) const {
  const i64 experts = c_.shape.experts;
  Gemm gemm = weight_product(c_.extents.tokens, c_.extents.hidden, experts);
  gemm.accumulate = g_.accumulate();
  multiply(c_, gemm, d_logits_.data(), x, g_.at(TensorKind::router));
}

}  // namespace shardbench
