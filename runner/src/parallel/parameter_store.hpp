// SPDX-License-Identifier: Apache-2.0
// Weights, gradients and optimizer state of one rank under ZeRO 0 to 3 (arXiv 1910.02054), and
// their communication among the data parallel ranks.
//
//   stage  weights   gradients                optimizer  communication per train step
//   0      whole     whole                    whole      all-reduce in buckets
//   1      whole     whole, reduced to part   part       reduce-scatter, all-gather of weights
//   2      whole     part; one unit whole     part       reduce-scatter each micro-batch,
//   all-gather 3      part      part; one unit whole     part       all-gather before each use,
//   reduce-scatter
//                                                        each micro-batch
//
// Tied, embedding and head are one matrix. Where one stage has both, stages 2 and 3 scatter its
// gradients twice for each micro-batch, and stage 3 gathers it twice. On two stages each has a
// copy; their gradients are summed once per train step, so that the copies stay equal.
//
// Experts that ep spreads are weights of dp·cp/ep ranks: shared, reduced and gathered among
// them.
//
// "Part" is 1/n of every unit, n the ranks of the shard group; with replication (HSDP) parts
// are summed over the replicas once per train step.
#pragma once

#include "parallel/groups.hpp"
#include "parallel/rank_context.hpp"

#include <deque>
#include <vector>

namespace shardbench {

class ParameterStore {
 public:
  /// Allocates and initialises.
  ParameterStore(const RankContext& context, const Groups& groups, u64 seed);

  const std::vector<Unit>& units() const { return units_; }

  void begin_step();
  /// Whole weights of a unit, until closed.
  UnitView open_weights(std::size_t unit);
  void close_weights(std::size_t unit);
  /// Starts to gather what open_weights will be asked for next.
  void prefetch_weights(std::size_t unit);
  /// Opens the place where the gradients of a unit are added up, until closed. Units close in
  /// descending order, but for an embedding that the head uses.
  UnitView open_gradients(std::size_t unit);
  enum class MicroBatch { not_last, last };
  void close_gradients(std::size_t unit, MicroBatch micro_batch);
  /// Pauses gradients of an embedding that the head has used: more is added in this micro-batch.
  void pause_gradients(std::size_t unit);
  /// After it, owned gradients are those of the global batch.
  void finish_reduction();
  /// Σ g² of the model over all ranks, in the device's memory: the same number everywhere.
  const double* sum_squares();
  /// With overlap, updated weights (zero 1, 2) are gathered until they are opened.
  void update(const AdamW& settings);
  /// Waits for what update() has left under way.
  void settle();

  /// The part of a unit whose gradients and weights this rank answers for.
  struct OwnedPart {
    i64 first;  // element of the unit
    i64 count;
    std::byte* gradients;
    std::byte* weights;
  };
  OwnedPart owned(std::size_t unit) const;

 private:
  struct Pending {
    Communicator* group;
    Token token;
    std::size_t unit;
    Block buffer;    // stage 2 and 3: the unit's gradients under way
    bool completes;  // after it, owned gradients are the sum over the shard group
  };
  bool shards_gradients() const { return context_.layout.zero >= 2; }
  bool shards_weights() const { return context_.layout.shards_weights(); }
  /// Ranks that share the unit under ZeRO.
  Communicator& shard_of(const Unit& unit) const { return unit.spread ? edp_ : shard_; }
  void initialize_weights(u64 seed);
  /// Stage 0: a run of units with the same ranks; elements from `from` on are reduced or under
  /// way.
  struct Run {
    Communicator* group;
    i64 first;
    i64 end;
    i64 from;
  };
  void reduce_buckets(Run& run, i64 ready_from);
  void scatter_unit(std::size_t unit, Block buffer, MicroBatch micro_batch);
  void make_room(const Communicator& group);
  void end_oldest();
  void keep_in_flight(std::size_t most);
  void sum_norm_gradients();
  void sum_copies();
  void start_replica_sum(std::size_t unit);
  void end_replica_sums();
  void gather_updated(std::size_t unit);
  bool take_fresh(std::size_t unit);

  const RankContext& context_;
  Communicator& dp_;
  Communicator& shard_;
  Communicator& replicate_;
  Communicator& edp_;
  Communicator& tp_;
  Communicator& pp_;
  std::vector<Unit> units_;
  i64 bucket_elements_;
  Run common_;  // run over all ranks of dp and cp
  Run spread_;  // experts
  Block weights_;
  Block gradients_;
  Block optimizer_;
  std::vector<Block> gathered_;   // stage 3, by unit
  std::vector<Token> gathering_;  // stage 3 before use; stages 1 and 2 after the update
  std::vector<bool> fresh_;       // true per unit: no gradient was added in this step
  Block square_sum_;
  std::vector<Block> open_gradients_;  // stage 2 and 3, by unit
  std::deque<Pending> pending_;
  std::vector<bool> replicated_;    // true per unit: its sum over the replicas has been started
  std::vector<Token> replicating_;  // sums over replicas that are under way
};

}  // namespace shardbench
