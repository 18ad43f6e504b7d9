// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_store.hpp"

#include "base/error.hpp"
#include "base/invariant.hpp"
#include "schedules/schedule.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardbench {
namespace {

// Reductions under way at once if they hold memory: one that travels while the next is being
// computed.
constexpr std::size_t most_pending = 2;

}  // namespace

ParameterStore::ParameterStore(const RankContext& context, const Groups& groups, u64 seed)
    : context_(context),
      dp_(*groups.dp),
      shard_(*groups.shard),
      replicate_(*groups.replicate),
      edp_(*groups.edp),
      tp_(*groups.tp),
      pp_(*groups.pp),
      units_(units_of(context.shape, context.layout, context.at)),
      bucket_elements_(
          context.layout.bucket_bytes / dtype_size(context.device.precision().gradient)),
      common_{groups.dp.get(), 0, common_elements(units_), 0},
      spread_{groups.edp.get(), common_elements(units_), flat_elements(units_), 0},
      gathered_(units_.size()),
      gathering_(units_.size(), 0),
      fresh_(units_.size(), true),
      open_gradients_(units_.size()),
      replicated_(units_.size(), false) {
  const i64 whole = flat_elements(units_);
  const i64 own = std::accumulate(units_.begin(), units_.end(), i64{0},
      [](i64 sum, const Unit& unit) { return sum + unit.part(); });
  weights_ = context_.values(MemoryClass::parameters, shards_weights() ? own : whole, "weights");
  gradients_ =
      context_.statistics(MemoryClass::gradients, shards_gradients() ? own : whole, "gradients");
  optimizer_ = context_.statistics(MemoryClass::optimizer,
      own * context_.device.precision().optimizer_copies, "optimizer state");
  square_sum_ =
      context_.memory.allocate(MemoryClass::communication, i64{sizeof(double)}, "sum of squares");
  // Padding of units is never written again.
  context_.device.zero(gradients_.data(), gradients_.bytes());
  initialize_weights(seed);
}

void ParameterStore::initialize_weights(u64 seed) {
  Device& device = context_.device;
  device.zero(weights_.data(), weights_.bytes());
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Unit& unit = units_[i];
    Block whole;
    std::byte* base = weights_.data() + context_.value_bytes(unit.offset);
    if (shards_weights()) {
      whole = context_.values(MemoryClass::parameters, unit.padded, "initial weights");
      device.zero(whole.data(), whole.bytes());
      base = whole.data();
    }
    for (const TensorSlot& slot : unit.slots)
      device.initialize(base + context_.value_bytes(slot.offset), slot.region, seed);
    const OwnedPart own = owned(i);
    if (shards_weights())
      device.copy(
          own.weights, base + context_.value_bytes(own.first), context_.value_bytes(own.count));
    const i64 copies = device.precision().optimizer_copies;
    device.initialize_optimizer(
        optimizer_.data() + context_.gradient_bytes(copies * unit.own_offset), own.weights,
        own.count);
  }
}

ParameterStore::OwnedPart ParameterStore::owned(std::size_t index) const {
  const Unit& unit = units_[index];
  const i64 count = unit.part();
  const i64 first = unit.shards > 1 ? shard_of(unit).rank() * count : 0;
  const i64 gradient_at = shards_gradients() ? unit.own_offset : unit.offset + first;
  const i64 weight_at = shards_weights() ? unit.own_offset : unit.offset + first;
  SHARDBENCH_INVARIANT(first >= 0 && count >= 0 && first + count <= units_[index].padded,
      "what a rank owns of a unit lies in it", index, first, count, units_[index].padded);
  return {first, count, gradients_.data() + context_.gradient_bytes(gradient_at),
      weights_.data() + context_.value_bytes(weight_at)};
}

void ParameterStore::begin_step() {
  fresh_.assign(units_.size(), true);
  replicated_.assign(units_.size(), false);
  common_.from = common_.end;
  spread_.from = spread_.end;
}

void ParameterStore::prefetch_weights(std::size_t index) {
  if (!shards_weights() || index >= units_.size() || gathered_[index]) return;
  const Unit& unit = units_[index];
  gathered_[index] = context_.values(MemoryClass::parameters, unit.padded, "gathered weights");
  gathering_[index] = shard_of(unit).all_gather(
      owned(index).weights, gathered_[index].data(), unit.part(), context_.value_dtype());
}

UnitView ParameterStore::open_weights(std::size_t index) {
  SHARDBENCH_INVARIANT(
      index < units_.size(), "a unit is one of this stage's", index, units_.size());
  const Unit& unit = units_[index];
  const i64 element = dtype_size(context_.value_dtype());
  prefetch_weights(index);
  shard_of(unit).wait(std::exchange(gathering_[index], 0));
  if (!shards_weights())
    return {&unit, weights_.data() + context_.value_bytes(unit.offset), element};
  return {&unit, gathered_[index].data(), element};
}

void ParameterStore::close_weights(std::size_t index) {
  gathered_[index].reset();
}

UnitView ParameterStore::open_gradients(std::size_t index) {
  const Unit& unit = units_[index];
  const i64 element = dtype_size(context_.gradient_dtype());
  if (!shards_gradients())
    return {&unit, gradients_.data() + context_.gradient_bytes(unit.offset), element,
        take_fresh(index)};
  keep_in_flight(most_pending - 1);
  Block& open = open_gradients_[index];
  SHARDBENCH_INVARIANT(!open, "gradients are opened when they are closed", index, pending_.size());
  open = context_.statistics(MemoryClass::gradients, unit.padded, "gradients of a unit");
  const i64 padding_at = context_.gradient_bytes(unit.elements);
  if (padding_at < open.bytes())
    context_.device.zero(open.data() + padding_at, open.bytes() - padding_at);
  return {&unit, open.data(), element, true};
}

bool ParameterStore::take_fresh(std::size_t index) {
  const bool fresh = fresh_[index];
  fresh_[index] = false;
  return fresh;
}

void ParameterStore::pause_gradients(std::size_t index) {
  if (shards_gradients()) close_gradients(index, MicroBatch::not_last);
}

void ParameterStore::close_gradients(std::size_t index, MicroBatch micro_batch) {
  if (shards_gradients()) {
    SHARDBENCH_INVARIANT(
        open_gradients_[index], "gradients are closed when they are open", index, pending_.size());
    scatter_unit(index, std::move(open_gradients_[index]), micro_batch);
  } else if (micro_batch == MicroBatch::last && context_.layout.overlap) {
    if (context_.layout.zero == 0)
      reduce_buckets(units_[index].spread ? spread_ : common_, units_[index].offset);
    else
      scatter_unit(index, {}, micro_batch);
  }
  if (!context_.layout.overlap) keep_in_flight(0);
}

/// Reduces the buckets that lie above `ready_from` whole, from the end downwards; at the start
/// of the run what is left is a bucket too.
void ParameterStore::reduce_buckets(Run& run, i64 ready_from) {
  while (run.from > ready_from) {
    const i64 first = std::max(run.first, run.from - bucket_elements_);
    if (first < ready_from) return;
    make_room(*run.group);
    const Token token = run.group->all_reduce(gradients_.data() + context_.gradient_bytes(first),
        run.from - first, context_.gradient_dtype(), Reduction::sum);
    pending_.push_back({run.group, token, units_.size(), {}, false});
    run.from = first;
  }
}

/// Stages 1 to 3: every shard rank gets the sum of its part of the unit; in stage 1 in place.
void ParameterStore::scatter_unit(std::size_t index, Block buffer, MicroBatch micro_batch) {
  const Unit& unit = units_[index];
  std::byte* whole =
      buffer ? buffer.data() : gradients_.data() + context_.gradient_bytes(unit.offset);
  std::byte* own = whole + context_.gradient_bytes(owned(index).first);
  Communicator& group = shard_of(unit);
  make_room(group);
  const Token token = group.reduce_scatter(whole, own, unit.part(), context_.gradient_dtype());
  pending_.push_back({&group, token, index, std::move(buffer), micro_batch == MicroBatch::last});
}

/// Makes room before a reduction starts. What is held back makes computation wait, and all that
/// comes after it: only memory is worth that, of units' gradients or of the transport; and
/// replicas, whose sums start when those before them have ended.
void ParameterStore::make_room(const Communicator& group) {
  const bool replicates = replicate_.size() > 1;
  if (shards_gradients() || group.holds_memory() || replicates) keep_in_flight(most_pending - 1);
}

void ParameterStore::end_oldest() {
  Pending oldest = std::move(pending_.front());
  pending_.pop_front();
  oldest.group->wait(oldest.token);
  if (oldest.buffer) {
    const OwnedPart own = owned(oldest.unit);
    const std::byte* sum = oldest.buffer.data() + context_.gradient_bytes(own.first);
    if (take_fresh(oldest.unit))
      context_.device.copy(own.gradients, sum, context_.gradient_bytes(own.count));
    else
      context_.device.accumulate(own.gradients, sum, own.count);
  }
  const bool overlaps = context_.layout.overlap && !replicate_.holds_memory();
  if (oldest.completes && overlaps) start_replica_sum(oldest.unit);
}

void ParameterStore::keep_in_flight(std::size_t most) {
  while (pending_.size() > most)
    end_oldest();
}

void ParameterStore::finish_reduction() {
  if (context_.layout.zero == 0) {
    reduce_buckets(spread_, spread_.first);
    reduce_buckets(common_, common_.first);
  }
  if (context_.layout.zero == 1 && !context_.layout.overlap)
    for (std::size_t i = units_.size(); i-- > 0;)
      scatter_unit(i, {}, MicroBatch::last);
  keep_in_flight(0);
  const bool reduces_runs = context_.layout.zero == 0;
  SHARDBENCH_INVARIANT(
      !reduces_runs || (common_.from == common_.first && spread_.from == spread_.first),
      "each gradient is reduced once", common_.from, common_.first, spread_.from, spread_.first);
  for (std::size_t i = units_.size(); i-- > 0;)
    start_replica_sum(i);
  end_replica_sums();
  sum_norm_gradients();
  sum_copies();
}

/// Sums a tied embedding's gradients: it lies on the first stage and on the last, whose units and
/// parts are alike. The other stage's part arrives a bucket at a time.
void ParameterStore::sum_copies() {
  const i64 last = pipeline_of(context_.layout).last_rank();
  if (!context_.shape.tied || last == 0 || (context_.at.pp != 0 && context_.at.pp != last)) return;
  const bool on_first = context_.at.pp == 0;
  const OwnedPart own = owned(on_first ? 0 : units_.size() - 1);
  const i64 other = on_first ? last : 0;
  const Dtype dtype = context_.gradient_dtype();
  const Block theirs = context_.statistics(MemoryClass::communication,
      std::min(own.count, bucket_elements_), "gradients of the tied copy");
  for (i64 first = 0; first < own.count; first += bucket_elements_) {
    const i64 count = std::min(bucket_elements_, own.count - first);
    std::byte* ours = own.gradients + context_.gradient_bytes(first);
    const Token received = pp_.receive(theirs.data(), count, dtype, other);
    const Token sent = pp_.send(ours, count, dtype, other);
    pp_.wait(received);
    pp_.wait(sent);
    context_.device.accumulate(ours, theirs.data(), count);
  }
}

/// With overlap, under the backward of the units below it; where sums hold memory, one after
/// the other in the end.
void ParameterStore::start_replica_sum(std::size_t index) {
  if (context_.layout.zero == 0 || replicated_[index]) return;
  replicated_[index] = true;
  const OwnedPart own = owned(index);
  replicating_.push_back(
      replicate_.all_reduce(own.gradients, own.count, context_.gradient_dtype(), Reduction::sum));
  if (replicate_.holds_memory()) end_replica_sums();
}

void ParameterStore::end_replica_sums() {
  for (const Token token : std::exchange(replicating_, {}))
    replicate_.wait(token);
}

namespace {

/// The elements of a slot that lie in the owned part, counted from the part's start.
Span owned_of(const TensorSlot& slot, const ParameterStore::OwnedPart& own) {
  const i64 first = std::clamp<i64>(slot.offset - own.first, 0, own.count);
  const i64 last = std::clamp<i64>(slot.offset + slot.count() - own.first, 0, own.count);
  return {first, last};
}

}  // namespace

/// Sums norms' gradients as one vector: under sequence parallelism each TP rank saw a part of the
/// tokens with its whole norm weights. So are the router's, for each of them saw a part of what
/// experts made.
void ParameterStore::sum_norm_gradients() {
  if (context_.layout.tp == 1) return;
  if (!context_.sequence_parallel() && context_.shape.experts == 0) return;
  struct NormPart {
    std::byte* at;
    i64 bytes;
  };
  std::vector<NormPart> parts;
  i64 count = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const OwnedPart own = owned(i);
    for (const TensorSlot& slot : units_[i].slots) {
      const Span span = owned_of(slot, own);
      const bool partial =
          slot.kind == TensorKind::router || (!slot.sharded && context_.sequence_parallel());
      if (!partial || span.count() == 0) continue;
      parts.push_back({own.gradients + context_.gradient_bytes(span.first),
          context_.gradient_bytes(span.count())});
      count += span.count();
    }
  }
  const Block all =
      context_.statistics(MemoryClass::communication, count, "gradients of the norms");
  std::byte* next = all.data();
  for (const NormPart& part : parts) {
    context_.device.copy(next, part.at, part.bytes);
    next += part.bytes;
  }
  tp_.wait(tp_.all_reduce(all.data(), count, context_.gradient_dtype(), Reduction::sum));
  next = all.data();
  for (const NormPart& part : parts) {
    context_.device.copy(part.at, next, part.bytes);
    next += part.bytes;
  }
}

/// One number, by the groups that reach every rank one after the other: nothing leaves the
/// device.
const double* ParameterStore::sum_squares() {
  auto* sum = reinterpret_cast<double*>(square_sum_.data());
  context_.device.zero(sum, square_sum_.bytes());
  // Values that several ranks hold are counted by the first of them.
  const bool sharded = context_.layout.zero > 0;
  const bool first_copy = (sharded ? replicate_ : dp_).rank() == 0;
  const bool first_experts = sharded || edp_.rank() == 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!(units_[i].spread ? first_experts : first_copy)) continue;
    if (units_[i].kind == UnitKind::tied_head) continue;  // the first stage counts it
    const OwnedPart own = owned(i);
    for (const TensorSlot& slot : units_[i].slots) {
      const Span span = owned_of(slot, own);
      if (slot.sharded || context_.at.tp == 0)
        context_.device.add_square_sum(
            sum, own.gradients + context_.gradient_bytes(span.first), span.count());
    }
  }
  for (Communicator* group : {&tp_, &dp_, &pp_})
    group->wait(group->all_reduce(sum, 1, Dtype::fp64, Reduction::sum));
  return sum;
}

void ParameterStore::gather_updated(std::size_t index) {
  const Unit& unit = units_[index];
  if (unit.shards == 1 || shards_weights()) return;
  gathering_[index] = shard_of(unit).all_gather(owned(index).weights,
      weights_.data() + context_.value_bytes(unit.offset), unit.part(), context_.value_dtype());
}

void ParameterStore::settle() {
  for (std::size_t i = 0; i < units_.size(); ++i)
    shard_of(units_[i]).wait(std::exchange(gathering_[i], 0));
}

void ParameterStore::update(const AdamW& settings) {
  const i64 copies = context_.device.precision().optimizer_copies;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const OwnedPart own = owned(i);
    context_.device.adamw(own.weights,
        optimizer_.data() + context_.gradient_bytes(copies * units_[i].own_offset), own.gradients,
        own.count, settings);
    gather_updated(i);
  }
  if (!context_.layout.overlap || !context_.layout.habits.gather_overlap) settle();
}

}  // namespace shardbench
