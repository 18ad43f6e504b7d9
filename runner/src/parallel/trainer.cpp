// SPDX-License-Identifier: Apache-2.0
// The interpreter of the schedule, and what happens around it.
#include "parallel/trainer.hpp"

#include "measurement/samples.hpp"
#include "model/context_attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardbench {

namespace {

constexpr double longest_gradient = 1.0;  // clipped above, as in published Llama recipes

}  // namespace

Trainer::Trainer(const RankContext& context, const Groups& groups, u64 seed)
    : context_(context),
      pp_(*groups.pp),
      pipeline_(pipeline_of(context.layout)),
      schedule_(make_schedule(context.layout.schedule, pipeline_, context.at.pp)),
      seed_(seed),
      parameters_(context_, groups, seed) {
  if (KnownRouting::exists(context_)) {
    routing_.emplace(context_);
    context_.routing = &*routing_;
  }
  if (context_.layout.fp8 == Scaling::none) return;
  fp8_.emplace(context_);
  context_.fp8 = &*fp8_;
}

i64 Trainer::global_tokens() const {
  return context_.layout.global_batch() * context_.shape.seq_len;
}

/// Inputs (shift 0) or targets (shift 1) of a micro-batch.
Block Trainer::token_block(MemoryClass kind, i64 step, i64 micro, i64 shift) {
  const Layout& layout = context_.layout;
  const i64 seq = context_.extents.attention.seq_len;
  const Positions positions = positions_of(context_);
  Block block = context_.memory.allocate(
      kind, context_.extents.tokens * i64{sizeof(std::int32_t)}, "token ids");
  if (!context_.device.computes()) return block;
  for (i64 i = 0; i < layout.micro_batch; ++i) {
    const i64 sample = (micro * layout.dp + context_.at.dp) * layout.micro_batch + i;
    const auto tokens =
        make_sample({seed_, step, sample}, context_.shape.vocab, context_.shape.seq_len);
    // A rank of cp has two runs of them.
    const auto upload = [&](i64 at, i64 position, i64 count) {
      context_.device.upload(block.data() + (i * seq + at) * i64{sizeof(std::int32_t)},
          tokens.data() + position + shift, count * i64{sizeof(std::int32_t)});
    };
    upload(0, positions.first, seq / 2);
    upload(seq / 2, positions.second, seq - seq / 2);
  }
  return block;
}

ParameterStore::MicroBatch Trainer::place_of(const Piece& piece) const {
  return piece.micro == context_.layout.grad_accum - 1 ? ParameterStore::MicroBatch::last
                                                       : ParameterStore::MicroBatch::not_last;
}

Trainer::InFlight& Trainer::flight_of(const Piece& piece) {
  return in_flight_[static_cast<std::size_t>(piece.chunk * pipeline_.micro_batches + piece.micro)];
}

Trainer::UnitRange Trainer::units_of_chunk(i64 chunk) const {
  const std::vector<Unit>& units = parameters_.units();
  const auto before = [](const Unit& unit, i64 value) { return unit.chunk < value; };
  const auto first = std::lower_bound(units.begin(), units.end(), chunk, before);
  const auto end = std::lower_bound(first, units.end(), chunk + 1, before);
  return {static_cast<std::size_t>(first - units.begin()),
      static_cast<std::size_t>(end - units.begin())};
}

void Trainer::forward(i64 step, const Piece& piece) {
  InFlight& flight = flight_of(piece);
  const std::vector<Unit>& units = parameters_.units();
  const UnitRange range = units_of_chunk(piece.chunk);
  Block residual = std::move(flight.arriving);
  for (std::size_t i = range.first; i < range.end && units[i].kind != UnitKind::head; ++i) {
    if (units[i].kind == UnitKind::experts) continue;
    UnitView weights = parameters_.open_weights(i);
    UnitView experts{};
    if (has_experts(i)) {
      experts = parameters_.open_weights(i + 1);
      weights.experts = &experts;
    }
    if (after(i) < range.end) parameters_.prefetch_weights(after(i));
    if (on_last_stage(piece) && after(i) == norm_unit()) parameters_.prefetch_weights(table_unit());
    if (units[i].kind == UnitKind::embedding) {
      flight.ids = token_block(MemoryClass::activations, step, piece.micro, 0);
      residual = embedding_forward(context_, weights, flight.ids);
    } else {
      LayerActivations& saved = flight.layers.emplace_back();
      saved.residual_in = std::move(residual);
      residual = layer_forward(context_, weights, context_.layout.recompute, saved);
    }
    parameters_.close_weights(i);
    if (has_experts(i)) parameters_.close_weights(i + 1);
    context_.dp.progress();
  }
  if (on_last_stage(piece))
    head(step, piece, residual);
  else
    leave_to(stage_of(piece) + 1, piece, std::move(residual));
}

/// Hands a stage's output to the next stage: a stage of another rank gets it by a message, one of
/// this rank has it already.
void Trainer::leave_to(i64 stage, const Piece& piece, Block stream) {
  if (pipeline_.rank_of(stage) == context_.at.pp)
    flight_of({piece.micro, pipeline_.chunk_of(stage)}).arriving = std::move(stream);
  else
    flight_of(piece).leaving = std::move(stream);
}

/// Unit of the final norm, on the last stage.
std::size_t Trainer::norm_unit() const {
  const std::vector<Unit>& units = parameters_.units();
  return units.size() - (units.back().kind == UnitKind::tied_head ? 2 : 1);
}

/// Unit of the matrix that makes logits, on the last stage.
std::size_t Trainer::table_unit() const {
  if (!context_.shape.tied) return norm_unit();
  return context_.at.pp == 0 ? 0 : norm_unit() + 1;
}

void Trainer::head(i64 step, const Piece& piece, const Block& residual) {
  const std::size_t norm = norm_unit();
  const std::size_t table = table_unit();
  const TensorKind kind = context_.shape.tied ? TensorKind::embedding : TensorKind::head;
  const Block targets = token_block(MemoryClass::workspace, step, piece.micro, 1);
  const HeadViews weights{parameters_.open_weights(norm), parameters_.open_weights(table), kind};
  const UnitView table_gradients = parameters_.open_gradients(table);
  const UnitView norm_gradients =
      norm == table ? table_gradients : parameters_.open_gradients(norm);
  Block stream = head_pass(context_, weights, {norm_gradients, table_gradients, kind}, residual,
      targets, context_.loss_scale);
  parameters_.close_weights(norm);
  parameters_.close_weights(table);
  if (table < norm) parameters_.pause_gradients(table);
  if (table > norm) parameters_.close_gradients(table, place_of(piece));
  parameters_.close_gradients(norm, place_of(piece));
  flight_of(piece).stream = std::move(stream);
}

bool Trainer::has_experts(std::size_t unit) const {
  const std::vector<Unit>& units = parameters_.units();
  return unit + 1 < units.size() && units[unit + 1].kind == UnitKind::experts;
}

/// Computes a layer's backward while the weights of the layer below are under way. Gradients stay
/// open.
void Trainer::layer_backward_of(std::size_t unit, LayerActivations saved, Block& stream) {
  const std::vector<Unit>& units = parameters_.units();
  UnitView weights = parameters_.open_weights(unit);
  UnitView experts{};
  if (has_experts(unit)) {
    experts = parameters_.open_weights(unit + 1);
    weights.experts = &experts;
  }
  // Prefetch within the rank's own chunk: another chunk's last unit may be a layer's experts too.
  const bool below = unit > units_of_chunk(units[unit].chunk).first;
  if (below && units[unit - 1].kind == UnitKind::experts) parameters_.prefetch_weights(unit - 2);
  if (below && units[unit - 1].kind != UnitKind::embedding) parameters_.prefetch_weights(unit - 1);
  UnitView expert_gradients{};
  if (has_experts(unit)) expert_gradients = parameters_.open_gradients(unit + 1);
  UnitView gradients = parameters_.open_gradients(unit);
  if (has_experts(unit)) gradients.experts = &expert_gradients;
  layer_backward(context_, weights, gradients, context_.layout.recompute, std::move(saved), stream);
  parameters_.close_weights(unit);
  if (has_experts(unit)) parameters_.close_weights(unit + 1);
}

void Trainer::backward(const Piece& piece) {
  InFlight& flight = flight_of(piece);
  const std::vector<Unit>& units = parameters_.units();
  const UnitRange range = units_of_chunk(piece.chunk);
  Block stream = on_last_stage(piece) ? std::move(flight.stream) : std::move(flight.arriving);
  for (std::size_t i = range.end; i-- > range.first;) {
    if (units[i].kind != UnitKind::layer && units[i].kind != UnitKind::embedding) continue;
    if (units[i].kind == UnitKind::layer) {
      layer_backward_of(i, std::move(flight.layers.back()), stream);
      flight.layers.pop_back();
    } else {
      embedding_backward(context_, parameters_.open_gradients(i), flight.ids, stream);
      flight.ids.reset();
    }
    if (has_experts(i)) parameters_.close_gradients(i + 1, place_of(piece));
    parameters_.close_gradients(i, place_of(piece));
    context_.dp.progress();
  }
  if (!on_first_stage(piece)) leave_to(stage_of(piece) - 1, piece, std::move(stream));
}

void Trainer::input_gradient(const Piece& piece) {
  InFlight& flight = flight_of(piece);
  const std::vector<Unit>& units = parameters_.units();
  const UnitRange range = units_of_chunk(piece.chunk);
  Block stream = on_last_stage(piece) ? std::move(flight.stream) : std::move(flight.arriving);
  for (std::size_t i = range.end; i-- > range.first;) {
    if (units[i].kind != UnitKind::layer) continue;
    const UnitView weights = parameters_.open_weights(i);
    const bool layer_below = i > range.first && units[i - 1].kind == UnitKind::layer;
    if (layer_below) parameters_.prefetch_weights(i - 1);
    flight.work.push_back(layer_input_gradient(
        context_, weights, context_.layout.recompute, std::move(flight.layers.back()), stream));
    flight.layers.pop_back();
    parameters_.close_weights(i);
    context_.dp.progress();
  }
  if (on_first_stage(piece))
    flight.stream = std::move(stream);
  else
    leave_to(stage_of(piece) - 1, piece, std::move(stream));
}

void Trainer::weight_gradient(const Piece& piece) {
  InFlight& flight = flight_of(piece);
  const std::vector<Unit>& units = parameters_.units();
  const UnitRange range = units_of_chunk(piece.chunk);
  std::size_t layer = 0;
  for (std::size_t i = range.end; i-- > range.first;) {
    if (units[i].kind == UnitKind::head || units[i].kind == UnitKind::tied_head) continue;
    const UnitView gradients = parameters_.open_gradients(i);
    if (units[i].kind == UnitKind::layer) {
      layer_weight_gradients(context_, gradients, std::move(flight.work[layer++]));
    } else {
      embedding_backward(context_, gradients, flight.ids, flight.stream);
      flight.ids.reset();
      flight.stream.reset();
    }
    parameters_.close_gradients(i, place_of(piece));
    context_.dp.progress();
  }
  flight.work.clear();
}

void Trainer::transfer(const Action& action) {
  const i64 count = context_.extents.rows * context_.extents.hidden;
  const Dtype dtype = context_.value_dtype();
  std::vector<Travelling> started;
  for (const Message& message : action.messages) {
    InFlight& flight = flight_of(message.piece);
    if (message.side == Side::receive) {
      flight.arriving = context_.values(MemoryClass::activations, count, "received stream");
      started.push_back({message, pp_.receive(flight.arriving.data(), count, dtype, message.peer)});
    } else {
      started.push_back({message, pp_.send(flight.leaving.data(), count, dtype, message.peer)});
    }
  }
  if (action.ahead) {
    pp_.start_messages();
    travelling_.insert(travelling_.end(), started.begin(), started.end());
    return;
  }
  for (const Travelling& one : started)
    pp_.wait(one.token);
  for (const Travelling& one : started)
    if (one.message.side == Side::send) flight_of(one.message.piece).leaving.reset();
}

/// Ends messages that were sent ahead.
template <typename Which>
void Trainer::end_travel(Which which) {
  if (std::none_of(travelling_.begin(), travelling_.end(),
          [&](const Travelling& one) { return which(one.message); }))
    return;
  const Mark start = context_.device.mark();
  std::vector<Travelling> left;
  for (const Travelling& one : travelling_) {
    if (!which(one.message)) {
      left.push_back(one);
      continue;
    }
    pp_.wait(one.token);
    if (one.message.side == Side::send) flight_of(one.message.piece).leaving.reset();
  }
  travelling_ = std::move(left);
  spend(&PhaseTimes::transfer_s, start);
}

/// Counts the device's work since `start`.
void Trainer::spend(double PhaseTimes::*phase, const Mark& start) {
  spent_.push_back({phase, start, context_.device.mark()});
}

void Trainer::run(i64 step, const Action& action) {
  end_travel([&](const Message& message) { return ends_before(message, action); });
  const Mark start = context_.device.mark();
  switch (action.kind) {
    case ActionKind::transfer:
      transfer(action);
      spend(&PhaseTimes::transfer_s, start);
      break;
    case ActionKind::forward:
      forward(step, action.piece);
      spend(&PhaseTimes::forward_s, start);
      break;
    case ActionKind::backward:
      backward(action.piece);
      spend(&PhaseTimes::backward_s, start);
      break;
    case ActionKind::input_gradient:
      input_gradient(action.piece);
      spend(&PhaseTimes::backward_s, start);
      break;
    case ActionKind::weight_gradient:
      weight_gradient(action.piece);
      spend(&PhaseTimes::backward_s, start);
      break;
  }
}

void Trainer::compute_gradients(i64 step) {
  parameters_.begin_step();
  if (fp8_) fp8_->begin_step(step);
  in_flight_ =
      std::vector<InFlight>(static_cast<std::size_t>(pipeline_.chunks * pipeline_.micro_batches));
  for (const Action& action : schedule_)
    run(step, action);
  end_travel([](const Message&) { return true; });
  const Mark start = context_.device.mark();
  parameters_.finish_reduction();
  if (fp8_) fp8_->end_step();
  spend(&PhaseTimes::reduction_s, start);
}

double Trainer::update(i64 step) {
  const Mark start = context_.device.mark();
  AdamW settings;
  settings.step = step + 1;
  settings.square_sum = parameters_.sum_squares();
  settings.longest = longest_gradient;
  spend(&PhaseTimes::gradient_norm_s, start);
  const Mark optimizer_start = context_.device.mark();
  parameters_.update(settings);
  spend(&PhaseTimes::optimizer_s, optimizer_start);
  context_.device.synchronize();
  for (const TimedSpan& spent : std::exchange(spent_, {}))
    times_.*spent.phase += context_.device.seconds_between(spent.from, spent.to);
  double square_sum = 0;
  context_.device.download(&square_sum, settings.square_sum, i64{sizeof square_sum});
  return std::sqrt(square_sum);
}

}  // namespace shardbench
