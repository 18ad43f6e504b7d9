// SPDX-License-Identifier: Apache-2.0
// Whatever the streams' timing, each train step reads what was written for it: over the
// layouts, and no longer when one of the edges that order the streams is left out.
#include "cuda/cuda_device.hpp"
#include "cuda/gpu_comm_stream.hpp"
#include "equality_cases.hpp"
#include "nccl/nccl_communicator.hpp"
#include "ordered_gpu.hpp"
#include "ordered_nccl.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

using namespace shardbench;

namespace {

constexpr i64 train_steps = 2;
constexpr double limit_s = 600.0;

/// The streams and communicators of one rank, as the platform of NVIDIA GPUs has them.
class Rank {
 public:
  Rank(const EqualityCase& c, i64 rank, NcclOrder order)
      : case_(c), rank_(rank), table_(ordered::nccl(order)), order_(order) {}

  void train() {
    MemoryOfRank memory{device_};
    const Groups groups = make_groups(case_.layout, rank_, 1, [&](const Group& group) {
      return std::make_unique<NcclCommunicator>(world_, group, rank_, streams_.of(group.name),
                                                device_);
    });
    const Coordinates at = coordinates_of(case_.layout, rank_);
    const RankContext context =
        context_of(device_, memory.memory, case_.model, case_.layout, at, groups);
    Trainer trainer(context, groups, 1);
    for (i64 step = 0; step < train_steps; ++step) {
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
  }

 private:
  /// As small as can be: what one block leaves, the next one takes.
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
  NcclWorld world_{
      table_,
      {[](const Group&, const NcclUniqueId& own) { return own; }, [] {}, limit_s, order_}};
};

using EdgeNumbers = std::set<std::size_t>;

/// Races of one rank with those edges left out.
std::vector<std::string> races_of(const EqualityCase& c, i64 rank, NcclOrder order,
                                  const EdgeNumbers& deleted = {}) {
  ordered::reset(deleted);
  Rank(c, rank, order).train();
  return ordered::races();
}

constexpr const char* another_follows = "an operation follows another communicator's";

/// What of the program makes the edge: "reduce_scatter follows computation", "computation waits
/// for all_gather". Empty for what orders no data: the host waits to hear of peers and to take
/// times; what it reads is downloaded.
std::string kind_of(const ordered::Edge& edge) {
  if (edge.waits == "the host")
    return edge.after == "download" ? "the host waits for download" : "";
  if (edge.before.empty()) return "";
  if (edge.waits == "computation") return "computation waits for " + edge.after;
  if (edge.follows == edge.waits) return another_follows;
  return edge.before + " follows computation";
}

/// Nothing is computed here: no rank could tell another one how many rows it sends.
bool counts_are_told(const EqualityCase& c) {
  const Layout& l = c.layout;
  return c.model.experts > 0 && l.ep > 1 && l.moe_routing == MoeRouting::learned &&
         l.moe_capacity == 0;
}

std::vector<EqualityCase> layouts() {
  std::vector<EqualityCase> both;
  std::vector<EqualityCase> cases;
  for (const EqualityCase& c : all_cases(fp8_width))
    if (!counts_are_told(c)) cases.push_back(c);
  for (const EqualityCase& c : covering_subset(cases))
    for (const bool overlap : {false, true}) {
      both.push_back(c);
      both.back().layout.overlap = overlap;
      // Each in FP8 as well, where its matrices are large enough.
      for (const Scaling scaling : {Scaling::current, Scaling::delayed})
        if (overlap)
          if (auto fp8 = in_fp8(c, scaling)) both.push_back(*fp8);
    }
  return both;
}

/// Layouts that have all edges between them: each way to shard, with and without overlap.
std::vector<EqualityCase> telling_layouts() {
  EqualityCase plain;
  plain.model = {.layers = 4,
                 .hidden = 32,
                 .ffn = 64,
                 .heads = 4,
                 .kv_heads = 2,
                 .vocab = 64,
                 .seq_len = 16};
  plain.layout.grad_accum = 2;
  std::vector<EqualityCase> all;
  const auto add = [&](i64 dp, i64 tp, i64 pp, i64 zero, i64 replicate, bool overlap) {
    EqualityCase c = plain;
    c.layout.dp = dp;
    c.layout.tp = tp;
    c.layout.pp = pp;
    c.layout.zero = zero;
    c.layout.dp_replicate = replicate;
    c.layout.overlap = overlap;
    c.layout.sequence_parallel = tp > 1;
    all.push_back(c);
  };
  for (const bool overlap : {false, true})
    for (const i64 zero : {0, 1, 2, 3})
      add(2, 1, 1, zero, 1, overlap);
  // A sum over replicas comes after what computation adds up.
  add(4, 1, 1, 2, 2, true);
  add(2, 2, 2, 0, 1, true);
  for (const i64 zero : {0, 1, 2, 3})
    add(2, 1, 2, zero, 1, true);
  add(1, 2, 1, 0, 1, true);
  all.back().layout.sequence_parallel = false;
  add(1, 2, 1, 0, 1, true);
  add(2, 2, 1, 3, 1, true);
  // Keys go round, heads are exchanged, and rows of experts.
  for (const ContextMode mode : {ContextMode::ring, ContextMode::ulysses}) {
    add(1, 1, 1, 0, 1, true);
    all.back().layout.cp = 2;
    all.back().layout.cp_mode = mode;
  }
  add(2, 1, 1, 0, 1, true);
  all.back().layout.ep = 2;
  all.back().layout.moe_routing = MoeRouting::balanced;
  all.back().model.experts = 4;
  all.back().model.experts_per_token = 2;
  all.back().model.expert_ffn = 32;
  // Ranks agree on magnitudes.
  add(1, 2, 1, 0, 1, true);
  all.back().model.heads = all.back().model.kv_heads = 2;
  all.back().layout.fp8 = Scaling::delayed;
  return all;
}

}  // namespace

TEST_CASE("accesses in no order are told, in whole and in parts") {
  HappensBefore order;
  const auto host = order.add_agent("host");
  const auto left = order.add_agent("left");
  const auto right = order.add_agent("right");
  using Access = HappensBefore::Access;
  const char memory[64] = {};
  order.work(left, "fill");
  order.access(left, Access::write, memory, 32);
  order.work(right, "use");
  order.access(right, Access::read, memory + 32, 32);
  CHECK(order.races().empty());
  order.access(right, Access::read, memory + 31, 2);
  REQUIRE(order.races().size() == 1);
  CHECK(order.races()[0] == "use of right reads what fill of left writes, in no order");
  CHECK(order.come_after(right, order.clock(left)));
  CHECK_FALSE(order.come_after(right, order.clock(left)));
  order.access(right, Access::write, memory, 8);
  CHECK(order.races().size() == 1);
  // By way of a third.
  order.come_after(host, order.clock(right));
  order.come_after(left, order.clock(host));
  order.work(left, "fill");
  order.access(left, Access::write, memory, 64);
  CHECK(order.races().size() == 1);
  order.forget(memory, 64);
  order.access(right, Access::write, memory, 64);
  CHECK(order.races().size() == 1);
}

TEST_CASE("no layout has a race, whoever keeps the order of launches") {
  int runs = 0;
  for (const EqualityCase& c : layouts())
    for (const i64 rank : std::set<i64>{0, c.layout.world() - 1})
      for (const NcclOrder order : {NcclOrder::by_room, NcclOrder::by_events}) {
        const std::vector<std::string> races = races_of(c, rank, order);
        CAPTURE(describe_case(c));
        CAPTURE(rank);
        CHECK_MESSAGE(races.empty(), races.front());
        ++runs;
      }
  MESSAGE("runs without a race: " << runs);
  CHECK(runs > 400);
}

TEST_CASE("each edge that the program makes is missed where it is left out") {
  int kinds = 0;
  std::map<std::string, int> layouts_of;
  for (const EqualityCase& c : telling_layouts())
    for (const NcclOrder order : {NcclOrder::by_room, NcclOrder::by_events}) {
      (void)races_of(c, 0, order);
      std::map<std::string, EdgeNumbers> by_kind;
      for (std::size_t i = 0; i < ordered::edges().size(); ++i)
        by_kind[kind_of(ordered::edges()[i])].insert(i);
      by_kind.erase("");
      // Where all operations are in order, other edges are not needed as often.
      const bool orders_launches = order == NcclOrder::by_events;
      for (auto kind = by_kind.begin(); kind != by_kind.end();)
        kind = (kind->first == another_follows) == orders_launches ? std::next(kind)
                                                                   : by_kind.erase(kind);
      for (const auto& entry : by_kind) {
        const std::string& kind = entry.first;
        const EdgeNumbers& edges = entry.second;
        CAPTURE(describe_case(c));
        CAPTURE(kind);
        const bool missed = !races_of(c, 0, order, edges).empty();
        // Between two train steps the host waits, which orders launches, too.
        if (!orders_launches) CHECK(missed);
        kinds += missed ? 1 : 0;
        layouts_of[kind] += missed ? 1 : 0;
      }
    }
  for (const auto& [kind, count] : layouts_of)
    MESSAGE(kind << ": left out in " << count << " layouts");
  MESSAGE("deleted edges: " << kinds);
  CHECK(kinds >= 20);
  CHECK(layouts_of[another_follows] >= 2);
}

TEST_CASE("single waits are missed, too, unless another one comes before the memory is used") {
  int found = 0;
  int all = 0;
  for (const EqualityCase& c : telling_layouts()) {
    (void)races_of(c, 0, NcclOrder::by_room);
    const std::size_t edges = ordered::edges().size();
    for (std::size_t i = 0; i < edges; ++i, ++all)
      found += races_of(c, 0, NcclOrder::by_room, {i}).empty() ? 0 : 1;
  }
  MESSAGE("single waits left out: " << all << ", found: " << found);
  CHECK(found >= 100);
}

namespace {

/// How often one product is computed while that operation of tp travels.
std::size_t hidden_behind_products(const EqualityCase& c, const std::string& operation) {
  (void)races_of(c, 0, NcclOrder::by_room);
  const std::vector<ordered::Edge>& edges = ordered::edges();
  return static_cast<std::size_t>(
      std::count_if(edges.begin(), edges.end(), [&](const ordered::Edge& edge) {
        return edge.waits == "computation" && edge.after == operation &&
               edge.behind == "product" && edge.beside == 1;
      }));
}

}  // namespace

TEST_CASE("tp sums a gradient up while the weights' gradient is computed") {
  EqualityCase c = telling_layouts().front();
  c.layout.dp = 1;
  c.layout.tp = 2;
  c.layout.zero = 0;
  // Two sums of each layer's backward, and that of the head.
  const auto per_micro_batch = static_cast<std::size_t>(2 * c.model.layers + 1);
  const std::size_t micro_batches = 2 * train_steps;
  for (const bool sequence_parallel : {false, true}) {
    CAPTURE(sequence_parallel);
    c.layout.sequence_parallel = sequence_parallel;
    const std::string operation = sequence_parallel ? "reduce_scatter" : "all_reduce";
    c.layout.habits.tp_overlap = true;
    CHECK(hidden_behind_products(c, operation) == micro_batches * per_micro_batch);
    c.layout.habits.tp_overlap = false;
    CHECK(hidden_behind_products(c, operation) == 0);
  }
}

TEST_CASE("no operation waits for another group's, if all have room on the GPU") {
  EqualityCase c = telling_layouts().front();
  c.layout.tp = c.layout.dp = c.layout.pp = 2;
  c.layout.sequence_parallel = true;
  const auto waits = [&](NcclOrder order) {
    (void)races_of(c, 0, order);
    const std::vector<ordered::Edge>& edges = ordered::edges();
    return std::count_if(edges.begin(), edges.end(), [](const ordered::Edge& edge) {
      return kind_of(edge) == another_follows;
    });
  };
  CHECK(waits(NcclOrder::by_room) == 0);
  CHECK(waits(NcclOrder::by_events) > 0);
}
