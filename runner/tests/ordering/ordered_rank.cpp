// SPDX-License-Identifier: Apache-2.0
#include "ordered_rank.hpp"

#include "cuda/cuda_device.hpp"
#include "cuda/gpu_comm_stream.hpp"
#include "nccl/nccl_communicator.hpp"
#include "ordered_gpu.hpp"
#include "ordered_nccl.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace shardbench::ordered {
namespace {

constexpr double limit_s = 600.0;

/// The group's name and members: the same on all of them.
NcclUniqueId id_of(const Group& group) {
  std::string text = group.name;
  for (const i64 member : group.members)
    text.append(" ").append(std::to_string(member));
  NcclUniqueId id;
  std::snprintf(id.internal.data(), id.internal.size(), "%s", text.c_str());
  return id;
}

/// The streams and communicators of one rank, as the platform of NVIDIA GPUs has them.
class Rank {
 public:
  Rank(const EqualityCase& c, i64 rank, NcclOrder order)
      : case_(c), rank_(rank), table_(nccl(order)), order_(order) {
    // An event is reached after a few looks: between them no time has to pass.
    device_.while_waiting([] {});
  }

  std::vector<std::size_t> train(i64 steps) {
    std::vector<std::size_t> begun;
    MemoryOfRank memory{device_};
    const Groups groups = make_groups(case_.layout, rank_, 1, [&](const Group& group) {
      return std::make_unique<NcclCommunicator>(
          world_, group, rank_, streams_.of(group.name), device_);
    });
    const Coordinates at = coordinates_of(case_.layout, rank_);
    const RankContext context =
        context_of(device_, memory.memory, case_.model, case_.layout, at, groups);
    Trainer trainer(context, groups, 1);
    for (i64 step = 0; step < steps; ++step) {
      begun.push_back(works().size());
      trainer.compute_gradients(step);
      trainer.update(step);
    }
    device_.synchronize();
    // Takes back the marks between which the device stood still.
    for (Communicator* group :
        {groups.tp.get(), groups.dp.get(), groups.pp.get(), groups.shard.get(),
            groups.replicate.get(), groups.cp.get(), groups.ep.get(), groups.edp.get()})
      (void)group->waited_s();
    world_.finalize();
    begun.push_back(works().size());
    return begun;
  }

 private:
  /// Memory as small as possible: each block takes the place of earlier ones.
  struct MemoryOfRank {
    explicit MemoryOfRank(Device& device) : memory(device, std::nullopt) {
      memory.measure_arenas();
    }
    Memory memory;
  };

  const EqualityCase& case_;
  i64 rank_;
  NcclTable table_;
  NcclOrder order_;
  CudaDevice device_{gpu::open(0)};
  CommStreams streams_{device_.stream(), case_.layout.habits};
  NcclWorld world_{table_,
      {[](const Group& group, const NcclUniqueId&) { return id_of(group); }, [] {}, limit_s,
          order_}};
};

}  // namespace

std::vector<std::size_t> train(const EqualityCase& c, i64 rank, NcclOrder order, i64 steps) {
  return Rank(c, rank, order).train(steps);
}

}  // namespace shardbench::ordered
