// SPDX-License-Identifier: Apache-2.0
#include "measurement/meta_run.hpp"

#include "base/json.hpp"
#include "base/version.hpp"
#include "communication/null_communicator.hpp"
#include "device/meta_device.hpp"
#include "measurement/run_records.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace shardbench {

std::array<i64, group_kind_count> sent_by_group(const Groups& g) {
  return {g.tp->counters().total_sent(), g.dp->counters().total_sent(),
      g.pp->counters().total_sent(), g.shard->counters().total_sent(),
      g.replicate->counters().total_sent(), g.cp->counters().total_sent(),
      g.ep->counters().total_sent(), g.edp->counters().total_sent()};
}

namespace {

RankCost count_step(const Options& options, i64 rank, MetaDevice& device) {
  Memory memory(device, options.memory_limit_bytes);
  memory.measure_arenas();
  // Sockets sum up what has arrived in the rank's memory; NCCL does so in its own.
  const Staging staging = options.dtype == Dtype::bf16 ? Staging::none : Staging::of_sockets;
  const Groups groups = make_groups(options.layout, rank, 1, [&](const Group& group) {
    return std::make_unique<NullCommunicator>(memory, rank, group, staging);
  });
  const Coordinates at = coordinates_of(options.layout, rank);
  const RankContext context = context_of(device, memory, options.model, options.layout, at, groups);
  Trainer trainer(context, groups, options.seed);
  trainer.compute_gradients(0);
  trainer.update(0);
  RankCost cost;
  cost.peak_bytes = memory.peak_bytes();
  for (std::size_t i = 0; i < memory_class_count; ++i)
    cost.peak_by_class[i] = memory.peak_bytes(static_cast<MemoryClass>(i));
  cost.arenas = memory.arena_extents();
  cost.sent_bytes = sent_by_group(groups);
  return cost;
}

}  // namespace

RankCost cost_of_rank(const Options& options, i64 rank, const Device* device) {
  MetaDevice meta(options.dtype, device);
  return count_step(options, rank, meta);
}

std::vector<GemmKey> products_of_rank(const Options& options, i64 rank) {
  MetaDevice device(options.dtype);
  std::set<GemmKey> keys;
  device.watch_products([&](const Gemm& gemm) { keys.insert(key_of(gemm)); });
  (void)count_step(options, rank, device);
  return {keys.begin(), keys.end()};
}

namespace {

/// Members of a group whose parts of its reductions are the largest: the last one of a long
/// vector, whose uneven parts grow; the first one of a short one, which it sums alone.
std::vector<i64> ends_of(i64 size) {
  return size == 1 ? std::vector<i64>{0} : std::vector<i64>{0, size - 1};
}

/// No rank of the stage needs or sends more than each of these at its most. Neighbours in dp
/// share shards; `dp_replicate` groups of them hold the same.
std::vector<i64> dearest_ranks(const Layout& layout, i64 stage) {
  const i64 shards = layout.shard_ranks();
  std::vector<i64> ranks;
  for (const i64 tp : ends_of(layout.tp))
    for (const i64 replica : ends_of(layout.dp_replicate))
      for (const i64 shard : ends_of(shards))
        ranks.push_back(rank_of(layout,
            {.tp = tp,
                .dp = (replica * shards + shard) / layout.cp,
                .pp = stage,
                .cp = (replica * shards + shard) % layout.cp}));
  return ranks;
}

/// A stage as a plan needs it: each figure is that of the rank with the most.
struct StageCost {
  i64 rank = -1;  // rank with the highest peak
  RankCost most;
};

void take_most(RankCost& most, const RankCost& other) {
  const auto raise = [](auto& values, const auto& others) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::max(values[i], others[i]);
  };
  most.peak_bytes = std::max(most.peak_bytes, other.peak_bytes);
  raise(most.peak_by_class, other.peak_by_class);
  raise(most.arenas, other.arenas);
  raise(most.sent_bytes, other.sent_bytes);
}

StageCost cost_of_stage(const Options& options, i64 stage) {
  StageCost cost;
  for (const i64 rank : dearest_ranks(options.layout, stage)) {
    const RankCost one = cost_of_rank(options, rank);
    if (cost.rank < 0 || one.peak_bytes > cost.most.peak_bytes) cost.rank = rank;
    take_most(cost.most, one);
  }
  return cost;
}

std::string cost_json(i64 stage, i64 rank, const RankCost& cost) {
  JsonObject by_class;
  for (std::size_t i = 0; i < memory_class_count; ++i)
    by_class.integer(memory_class_name(static_cast<MemoryClass>(i)), cost.peak_by_class[i]);
  JsonObject sent;
  for (std::size_t i = 0; i < group_kind_count; ++i)
    sent.integer(group_names[i], cost.sent_bytes[i]);
  return JsonObject{}
      .integer("stage", stage)
      .integer("rank", rank)
      .integer("peak_memory_bytes", cost.peak_bytes)
      .integer("arena_bytes", std::accumulate(cost.arenas.begin(), cost.arenas.end(), i64{0}))
      .raw("peak_memory_by_class", by_class.str())
      .raw("sent_bytes_per_step", sent.str())
      .str();
}

}  // namespace

std::string meta_json(const Options& options) {
  std::vector<std::string> stages;
  i64 peak = 0;
  for (i64 stage = 0; stage < options.layout.pp; ++stage) {
    const StageCost cost = cost_of_stage(options, stage);
    peak = std::max(peak, cost.most.peak_bytes);
    stages.push_back(cost_json(stage, cost.rank, cost.most));
  }
  return JsonObject{}
      .text("type", "meta")
      .text("runner", "shardbench")
      .text("version", version)
      .text("dtype", trained_in(options.dtype, options.layout.fp8))
      .integer("world_size", options.layout.world())
      .raw("model", model_json(options))
      .integer("n_params", parameter_count(options.model))
      .integer("tokens_per_step", options.layout.global_batch() * options.model.seq_len)
      .integer("peak_memory_bytes", peak)
      .raw("stages", json_array(stages))
      .str();
}

}  // namespace shardbench
