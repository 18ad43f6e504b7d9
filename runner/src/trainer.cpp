// SPDX-License-Identifier: Apache-2.0
// The interpreter of the schedule, and what happens around it.
#include "trainer.hpp"

#include "samples.hpp"

#include <cmath>
#include <utility>

namespace shardbench {

namespace {

constexpr double longest_gradient = 1.0;  // clipped above, as in published Llama recipes

}  // namespace

Trainer::Trainer(const RankContext& context, const Groups& groups, u64 seed)
    : context_(context), pp_(*groups.pp), seed_(seed), parameters_(context_, groups, seed) {
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
  const i64 seq = context_.shape.seq_len;
  Block block = context_.memory.allocate(
      kind, context_.extents.tokens * i64{sizeof(std::int32_t)}, "token ids");
  if (!context_.device.computes()) return block;
  for (i64 i = 0; i < layout.micro_batch; ++i) {
    const i64 sample = (micro * layout.dp + context_.at.dp) * layout.micro_batch + i;
    const auto tokens = make_sample({seed_, step, sample}, context_.shape.vocab, seq);
    context_.device.upload(block.data() + i * seq * i64{sizeof(std::int32_t)},
                           tokens.data() + shift, seq * i64{sizeof(std::int32_t)});
  }
  return block;
}

ParameterStore::MicroBatch Trainer::place_of(i64 micro) const {
  return micro == context_.layout.grad_accum - 1 ? ParameterStore::MicroBatch::last
                                                 : ParameterStore::MicroBatch::not_last;
}

void Trainer::forward(i64 step, i64 micro) {
  InFlight& flight = in_flight_[static_cast<std::size_t>(micro)];
  const std::vector<Unit>& units = parameters_.units();
  Block residual = std::move(flight.arriving);
  for (std::size_t i = 0; i < units.size() && units[i].kind != UnitKind::head; ++i) {
    const UnitView weights = parameters_.open_weights(i);
    parameters_.prefetch_weights(i + 1);
    if (last_stage() && i + 1 == norm_unit()) parameters_.prefetch_weights(table_unit());
    if (units[i].kind == UnitKind::embedding) {
      flight.ids = token_block(MemoryClass::activations, step, micro, 0);
      residual = embedding_forward(context_, weights, flight.ids);
    } else {
      LayerActivations& saved = flight.layers.emplace_back();
      saved.residual_in = std::move(residual);
      residual = layer_forward(context_, weights, context_.layout.recompute, saved);
    }
    parameters_.close_weights(i);
    context_.dp.progress();
  }
  if (last_stage())
    head(step, micro, residual);
  else
    flight.leaving = std::move(residual);
}

/// On the last stage: the unit of the final norm.
std::size_t Trainer::norm_unit() const {
  const std::vector<Unit>& units = parameters_.units();
  return units.size() - (units.back().kind == UnitKind::tied_head ? 2 : 1);
}

/// On the last stage: the unit of the matrix that makes logits.
std::size_t Trainer::table_unit() const {
  if (!context_.shape.tied) return norm_unit();
  return first_stage() ? 0 : norm_unit() + 1;
}

void Trainer::head(i64 step, i64 micro, const Block& residual) {
  const std::size_t norm = norm_unit();
  const std::size_t table = table_unit();
  const TensorKind kind = context_.shape.tied ? TensorKind::embedding : TensorKind::head;
  const Block targets = token_block(MemoryClass::workspace, step, micro, 1);
  const HeadViews weights{parameters_.open_weights(norm), parameters_.open_weights(table),
                          kind};
  const UnitView table_gradients = parameters_.open_gradients(table);
  const UnitView norm_gradients =
      norm == table ? table_gradients : parameters_.open_gradients(norm);
  Block stream = head_pass(context_, weights, {norm_gradients, table_gradients, kind}, residual,
                           targets, context_.loss_scale);
  parameters_.close_weights(norm);
  parameters_.close_weights(table);
  if (table < norm) parameters_.pause_gradients(table);
  if (table > norm) parameters_.close_gradients(table, place_of(micro));
  parameters_.close_gradients(norm, place_of(micro));
  in_flight_[static_cast<std::size_t>(micro)].stream = std::move(stream);
}

void Trainer::backward(i64 micro) {
  InFlight& flight = in_flight_[static_cast<std::size_t>(micro)];
  const std::vector<Unit>& units = parameters_.units();
  Block stream = last_stage() ? std::move(flight.stream) : std::move(flight.arriving);
  for (std::size_t i = units.size(); i-- > 0;) {
    if (units[i].kind == UnitKind::head || units[i].kind == UnitKind::tied_head) continue;
    if (units[i].kind == UnitKind::layer) {
      const UnitView weights = parameters_.open_weights(i);
      const bool layer_below = i > 0 && units[i - 1].kind == UnitKind::layer;
      if (layer_below) parameters_.prefetch_weights(i - 1);
      const UnitView gradients = parameters_.open_gradients(i);
      layer_backward(context_, weights, gradients, context_.layout.recompute,
                     std::move(flight.layers.back()), stream);
      flight.layers.pop_back();
      parameters_.close_weights(i);
    } else {
      embedding_backward(context_, parameters_.open_gradients(i), flight.ids, stream);
      flight.ids.reset();
    }
    parameters_.close_gradients(i, place_of(micro));
    context_.dp.progress();
  }
  if (!first_stage()) flight.leaving = std::move(stream);
}

void Trainer::transfer(const Action& action) {
  const i64 count = context_.extents.rows * context_.extents.hidden;
  const Dtype dtype = context_.value_dtype();
  std::vector<Token> tokens;
  const auto receive = [&](i64 micro, i64 from) {
    if (micro < 0) return;
    Block& block = in_flight_[static_cast<std::size_t>(micro)].arriving;
    block = context_.values(MemoryClass::activations, count, "received stream");
    tokens.push_back(pp_.receive(block.data(), count, dtype, from));
  };
  const auto send = [&](i64 micro, i64 to) {
    if (micro < 0) return;
    const Block& block = in_flight_[static_cast<std::size_t>(micro)].leaving;
    tokens.push_back(pp_.send(block.data(), count, dtype, to));
  };
  receive(action.receive_forward, context_.at.pp - 1);
  receive(action.receive_backward, context_.at.pp + 1);
  send(action.send_forward, context_.at.pp + 1);
  send(action.send_backward, context_.at.pp - 1);
  for (const Token token : tokens)
    pp_.wait(token);
  if (action.send_forward >= 0)
    in_flight_[static_cast<std::size_t>(action.send_forward)].leaving.reset();
  if (action.send_backward >= 0)
    in_flight_[static_cast<std::size_t>(action.send_backward)].leaving.reset();
}

/// What the device was given since `start`.
void Trainer::spend(double PhaseTimes::*phase, const Mark& start) {
  spent_.push_back({phase, start, context_.device.mark()});
}

void Trainer::compute_gradients(i64 step) {
  parameters_.begin_step();
  if (fp8_) fp8_->begin_step(step);
  const Layout& layout = context_.layout;
  in_flight_ = std::vector<InFlight>(static_cast<std::size_t>(layout.grad_accum));
  for (const Action& action :
       make_schedule(layout.schedule, layout.pp, context_.at.pp, layout.grad_accum)) {
    const Mark start = context_.device.mark();
    switch (action.kind) {
      case ActionKind::transfer:
        transfer(action);
        spend(&PhaseTimes::transfer_s, start);
        break;
      case ActionKind::forward:
        forward(step, action.micro);
        spend(&PhaseTimes::forward_s, start);
        break;
      case ActionKind::backward:
        backward(action.micro);
        spend(&PhaseTimes::backward_s, start);
        break;
    }
  }
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
  for (const Spent& spent : std::exchange(spent_, {}))
    times_.*spent.phase += context_.device.seconds_between(spent.from, spent.to);
  double square_sum = 0;
  context_.device.download(&square_sum, settings.square_sum, i64{sizeof square_sum});
  return std::sqrt(square_sum);
}

}  // namespace shardbench
