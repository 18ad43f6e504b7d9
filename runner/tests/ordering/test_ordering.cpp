// SPDX-License-Identifier: Apache-2.0
// Whatever the streams' timing, each train step reads what was written for it: over the
// layouts, and no longer when one of the edges that order the streams is left out.
#include "equality_cases.hpp"
#include "measurement/profile.hpp"
#include "ordered_gpu.hpp"
#include "ordered_rank.hpp"
#include "played_time.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

using namespace shardbench;

namespace {

constexpr i64 train_steps = 2;

using EdgeNumbers = std::set<std::size_t>;

/// Races of one rank with those edges left out.
std::vector<std::string> races_of(
    const EqualityCase& c, i64 rank, NcclOrder order, const EdgeNumbers& deleted = {}) {
  ordered::reset(deleted);
  (void)ordered::train(c, rank, order, train_steps);
  return ordered::races();
}

constexpr const char* another_follows = "an operation follows another communicator's";

/// Kind of an edge in the program: "reduce_scatter of shard follows computation", "computation
/// waits for all_gather of tp". Empty for what orders no data: the host waits to hear of peers and
/// to take times; what it reads is downloaded.
std::string kind_of(const ordered::Edge& edge) {
  if (edge.waits == "the host")
    return edge.after == "download" ? "the host waits for download" : "";
  if (edge.before.empty() || edge.goes_first) return "";
  if (edge.waits == "computation")
    return "computation waits for " + edge.after + " of " + edge.group;
  if (edge.follows == edge.waits) return another_follows;
  return edge.before + " of " + edge.group + " follows computation";
}

/// True for cases whose ranks have to tell each other numbers of rows: nothing is computed here
/// that could tell them.
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
      // Test FP8 as well if the matrices are large enough.
      for (const Scaling scaling : {Scaling::current, Scaling::delayed})
        if (overlap)
          if (auto fp8 = in_fp8(c, scaling)) both.push_back(*fp8);
    }
  return both;
}

/// Layouts that have all edges between them: each way to shard, with and without overlap.
std::vector<EqualityCase> telling_layouts() {
  EqualityCase plain;
  plain.model = {
      .layers = 4, .hidden = 32, .ffn = 64, .heads = 4, .kv_heads = 2, .vocab = 64, .seq_len = 16};
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
  // Order by way of a third agent.
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

namespace {

/// The edges of a rank that order data, by what makes them; or those that order launches.
std::map<std::string, EdgeNumbers> edges_by_kind(const EqualityCase& c, NcclOrder order) {
  (void)races_of(c, 0, order);
  std::map<std::string, EdgeNumbers> by_kind;
  for (std::size_t i = 0; i < ordered::edges().size(); ++i)
    by_kind[kind_of(ordered::edges()[i])].insert(i);
  by_kind.erase("");
  // Where all operations are in order, other edges are not needed as often.
  const bool orders_launches = order == NcclOrder::by_events;
  for (auto kind = by_kind.begin(); kind != by_kind.end();)
    kind =
        (kind->first == another_follows) == orders_launches ? std::next(kind) : by_kind.erase(kind);
  return by_kind;
}

}  // namespace

TEST_CASE("each edge that the program makes is missed where it is left out") {
  int deleted = 0;
  std::map<std::string, int> layouts_of;
  for (const EqualityCase& c : telling_layouts())
    for (const NcclOrder order : {NcclOrder::by_room, NcclOrder::by_events})
      for (const auto& entry : edges_by_kind(c, order)) {
        const std::string& kind = entry.first;
        CAPTURE(describe_case(c));
        CAPTURE(kind);
        const bool missed = !races_of(c, 0, order, entry.second).empty();
        // The host waits between two train steps, which orders launches, too.
        if (order == NcclOrder::by_room) CHECK(missed);
        deleted += missed ? 1 : 0;
        layouts_of[kind] += missed ? 1 : 0;
      }
  MESSAGE("edges: " << layouts_of.size() << ", left out and found: " << deleted);
  CHECK(layouts_of.size() >= 30);
  for (const auto& entry : layouts_of) {
    CAPTURE(entry.first);
    CHECK(entry.second > 0);
  }
  CHECK(layouts_of[another_follows] >= 2);
}

TEST_CASE("over the layouts of eight ranks each edge is missed somewhere") {
  // Gradients of experts and of other weights travel in one stream, and the last ones are waited
  // for: an extra wait for those of experts changes nothing.
  const std::set<std::string> implied{"computation waits for all_reduce of edp"};
  constexpr std::size_t every = 8;  // and all that spread experts: they are few
  std::map<std::string, int> found;
  const std::vector<EqualityCase> all = layouts();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % every != 0 && all[i].layout.ep == 1) continue;
    for (const auto& [kind, edges] : edges_by_kind(all[i], NcclOrder::by_room))
      found[kind] += races_of(all[i], 0, NcclOrder::by_room, edges).empty() ? 0 : 1;
  }
  int deleted = 0;
  for (const auto& entry : found) {
    CAPTURE(entry.first);
    CHECK((entry.second > 0 || implied.count(entry.first) > 0));
    deleted += entry.second;
  }
  MESSAGE("edges: " << found.size() << ", left out and found: " << deleted);
  CHECK(found.size() >= 30);
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
        return edge.waits == "computation" && edge.after == operation && edge.behind == "product" &&
            edge.beside == 1;
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

namespace {

/// Products computed while an operation of tp or ep travels: those that begin after its turn, and
/// those in no order with it.
struct BesideOperations {
  int behind = 0;
  int in_no_order = 0;
};
BesideOperations products_beside(const EqualityCase& c) {
  (void)races_of(c, 0, NcclOrder::by_room);
  struct UnderWay {
    std::size_t operation;
    bool has_begun;
  };
  std::map<std::size_t, UnderWay> under_way;  // operations by stream
  BesideOperations found;
  const std::vector<ordered::Work>& works = ordered::works();
  for (std::size_t i = 0; i < works.size(); ++i) {
    const ordered::Work& work = works[i];
    if (work.cost.traffic) {
      const std::string& group = work.cost.traffic->group;
      if (work.stream > 0 && (group == "tp" || group == "ep"))
        // The first message of a group stands for all.
        under_way.try_emplace(work.stream, UnderWay{i, false});
      continue;
    }
    for (auto& entry : under_way)
      if (std::count(work.begun.begin(), work.begun.end(), entry.second.operation) > 0)
        entry.second.has_begun = true;
    for (const std::size_t other : work.after) {
      const auto at = under_way.find(works[other].stream);
      if (at != under_way.end() && other >= at->second.operation) under_way.erase(at);
    }
    if (work.what != "product") continue;
    for (const auto& entry : under_way)
      ++(entry.second.has_begun ? found.behind : found.in_no_order);
  }
  return found;
}

/// tp with and without sequence parallelism, and experts beside shared ones.
std::vector<EqualityCase> layouts_beside_products() {
  EqualityCase tensor = telling_layouts().front();
  tensor.layout.dp = 1;
  tensor.layout.tp = 2;
  EqualityCase split = tensor;
  split.layout.sequence_parallel = true;
  EqualityCase experts = telling_layouts().front();
  experts.layout.ep = 2;
  experts.layout.moe_routing = MoeRouting::balanced;
  experts.model.experts = 4;
  experts.model.experts_per_token = 2;
  experts.model.expert_ffn = 32;
  experts.model.shared_experts = 1;
  return {tensor, split, experts};
}

}  // namespace

TEST_CASE("products wait for operations that travel under them to begin, as a profile says") {
  for (const Profile& profile : profiles())
    for (EqualityCase c : layouts_beside_products()) {
      c.layout.habits = profile.habits;
      CAPTURE(profile.name);
      CAPTURE(describe_case(c));
      const bool told =
          profile_json(profile, c.layout).find("\"products_wait_for_operations_to_begin\":true") !=
          std::string::npos;
      CHECK(told == (profile.name == "own"));
      const BesideOperations found = products_beside(c);
      CHECK((found.behind > 0) == told);
      if (told) CHECK(found.in_no_order == 0);
    }
}

TEST_CASE("no operation waits for another group's, if all have room on the GPU") {
  EqualityCase c = telling_layouts().front();
  c.layout.tp = c.layout.dp = c.layout.pp = 2;
  c.layout.sequence_parallel = true;
  const auto waits = [&](NcclOrder order) {
    (void)races_of(c, 0, order);
    const std::vector<ordered::Edge>& edges = ordered::edges();
    return std::count_if(edges.begin(), edges.end(),
        [](const ordered::Edge& edge) { return kind_of(edge) == another_follows; });
  };
  CHECK(waits(NcclOrder::by_room) == 0);
  CHECK(waits(NcclOrder::by_events) > 0);
}

namespace {

ordered::Work work_of(const char* what, std::size_t stream, double flops) {
  ordered::Work work{};
  work.what = what;
  work.stream = stream;
  work.cost.flops = flops;
  return work;
}

/// A product, then a sum over two ranks under a second product, then what needs the sum.
std::vector<ordered::Work> summing(i64 index, double first_flops, bool goes_first) {
  std::vector<ordered::Work> works{work_of("product", 0, first_flops), work_of("all_reduce", 1, 0),
      work_of("product", 0, 400), work_of("add", 0, 0)};
  works[1].cost.traffic = ordered::Traffic{"tp", "tp 0 1", "all_reduce", 2, index, -1, 100, 1};
  works[1].after = {0};
  if (goes_first) works[2].begun = {1};
  works[3].after = {1};
  return works;
}

double seconds_of(
    double other_first, ordered::Beginning beginning, bool goes_first, bool one_queue) {
  const ordered::Rates rates{
      .flops = 1, .fp8_flops = 2, .bytes = 1, .launch_s = 0, .link = 1, .message_s = 20};
  return ordered::play(
      {{0, summing(0, 1000, goes_first)}, {1, summing(1, other_first, goes_first)}}, rates,
      beginning, one_queue)
      .seconds;
}

}  // namespace

TEST_CASE("work takes the time of its longest chain over streams and ranks") {
  using ordered::Beginning;
  // The transfer runs under the second product.
  CHECK(seconds_of(1000, Beginning::at_once, false, false) == 1400);
  CHECK(seconds_of(1000, Beginning::after_product, false, false) == 1520);
  CHECK(seconds_of(1000, Beginning::after_product, false, true) == 1400);
  CHECK(seconds_of(1000, Beginning::after_product, true, false) == 1400);
  // The other rank comes to it later: both products under the sum, and 120 of it exposed.
  CHECK(seconds_of(1800, Beginning::at_once, false, false) == 2200);
  CHECK(seconds_of(1390, Beginning::free, false, false) == 1790);
  CHECK(seconds_of(300, Beginning::free, false, false) == 1400);
}
