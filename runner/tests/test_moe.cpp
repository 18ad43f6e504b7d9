// SPDX-License-Identifier: Apache-2.0
// Shapes with experts: their counts, who chooses what, and what is refused.
#include "device/cpu_device.hpp"
#include "device/cpu_platform.hpp"
#include "measurement/meta_run.hpp"
#include "model/moe_routing.hpp"
#include "program/rules.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>

using namespace shardbench;

namespace {

constexpr i64 sequence = 16;

ModelShape mixtral_8x7b() {
  return {.layers = 32,
      .hidden = 4096,
      .ffn = 14336,
      .heads = 32,
      .kv_heads = 8,
      .vocab = 32000,
      .seq_len = 4096,
      .experts = 8,
      .experts_per_token = 2,
      .expert_ffn = 14336};
}

ModelShape small() {
  ModelShape m = mixtral_8x7b();
  m.layers = 4;
  m.hidden = 32;
  m.ffn = m.expert_ffn = 24;
  m.heads = m.kv_heads = 4;
  m.vocab = 64;
  m.seq_len = sequence;
  return m;
}

std::string refused(const ModelShape& model, const Layout& layout) {
  const auto error = layout_refusal(layout, model);
  return error ? error->message.substr(0, error->message.find(": ")) : "";
}

std::vector<i64> rows_by_expert(MoeRouting routing) {
  const AttentionShape tokens{.batch = 2, .seq_len = sequence};
  const auto choices = pinned_choices(small(), routing, tokens, {0, sequence / 2});
  return shardbench::rows_by_expert(choices, small(), 0);
}

struct DispatchResult {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> places;
  std::vector<double> counts;
};
/// Dispatches three tokens that choose two experts each.
DispatchResult dispatched(const std::vector<std::int32_t>& choices, i64 rows, i64 capacity) {
  CpuDevice<double> device;
  DispatchResult d{std::vector<std::int32_t>(static_cast<std::size_t>(rows)),
      std::vector<std::int32_t>(choices.size()),
      std::vector<double>(static_cast<std::size_t>(small().experts))};
  device.dispatch({choices.data(), d.source.data(), d.places.data(), d.counts.data(), capacity},
      {3, small().experts, 2});
  return d;
}

}  // namespace

TEST_CASE("parameters and FLOPs of Mixtral 8x7B are the published ones") {
  const ModelShape m = mixtral_8x7b();
  CHECK(parameter_count(m) == 46702792704);
  // 12.88B of them per token, of which the embedding and the norms are in no product.
  const double active = 12879925248.0 - 32000.0 * 4096 - 65.0 * 4096;
  CHECK(flops_per_token_megatron_causal(m) == 6 * active + 6.0 * 32 * 4096 * 4096);
}

TEST_CASE("pinned routing is balanced, or gives the first experts half of the rows") {
  CHECK(rows_by_expert(MoeRouting::balanced) == std::vector<i64>(8, 8));
  const std::vector<i64> skewed = rows_by_expert(MoeRouting::skewed);
  CHECK(skewed == std::vector<i64>{20, 20, 4, 4, 4, 4, 4, 4});
}

TEST_CASE("each choice has a row of its expert, in the order of the tokens") {
  const DispatchResult d = dispatched({3, 0, 3, 1, 0, 3}, 6, 0);
  CHECK(d.counts == std::vector<double>{2, 1, 0, 3, 0, 0, 0, 0});
  CHECK(d.source == std::vector<std::int32_t>{0, 2, 1, 0, 1, 2});
  CHECK(d.places == std::vector<std::int32_t>{3, 0, 4, 2, 1, 5});
}

TEST_CASE("beyond the capacity tokens are dropped, below it rows have no token") {
  const ModelShape m = small();
  const DispatchResult d = dispatched({3, 0, 3, 1, 0, 3}, 16, 2);
  CHECK(d.counts == std::vector<double>(8, 2));
  CHECK(shardbench::rows_by_expert({3, 0, 3, 1, 0, 3}, m, 2) == std::vector<i64>(8, 2));
  CHECK(d.places == std::vector<std::int32_t>{6, 0, 7, 2, 1, -1});
  CHECK(std::count(d.source.begin(), d.source.end(), -1) == 11);
  Layout layout;
  layout.moe_capacity = 1.25;
  CHECK(expert_capacity(m, layout, sequence) == 5);  // balance would be 4
  layout.moe_capacity = 0;
  CHECK(expert_capacity(m, layout, sequence) == 0);
}

TEST_CASE("rows that come by rank get an order by expert, and the way back") {
  // Rank 0 sends two rows for expert a and one for b, rank 1 none and two, rank 2 one and one.
  const RunOrder order = run_order({2, 1, 0, 2, 1, 1}, 2);
  CHECK(order.by_expert == std::vector<std::int32_t>{0, 1, 5, 2, 3, 4, 6});
  for (std::size_t i = 0; i < order.by_expert.size(); ++i)
    CHECK(order.by_rank[static_cast<std::size_t>(order.by_expert[i])] ==
        static_cast<std::int32_t>(i));
}

TEST_CASE("what experts can't do is refused with its reason") {
  const ModelShape m = small();
  Layout layout;
  layout.dp = 4;
  layout.ep = 4;
  CHECK(refused(m, layout).empty());
  layout.ep = 8;
  CHECK(refused(m, layout) == "runner:ep_dp");
  layout.ep = 3;
  CHECK(refused(m, layout) == "runner:ep_divides");
  layout.ep = 2;
  layout.zero = 1;
  layout.dp_replicate = 2;
  CHECK(refused(m, layout) == "runner:ep_dp_replicate");
  layout = {};
  layout.schedule = ScheduleKind::zb_h1;
  CHECK(refused(m, layout) == "runner:zb_experts");
  layout = {};
  layout.ep = 2;
  layout.dp = 2;
  ModelShape dense = m;
  dense.experts = 0;
  CHECK(refused(dense, layout) == "runner:ep_experts");
  layout = {};
  ModelShape odd = m;
  odd.experts_per_token = 9;
  CHECK(refused(odd, layout) == "runner:experts_per_token");
  odd = m;
  odd.expert_ffn = 0;
  CHECK(refused(odd, layout) == "runner:expert_ffn");
  odd.expert_ffn = 25;
  layout.tp = 2;
  CHECK(refused(odd, layout) == "runner:tp_expert_ffn");
  odd = m;
  odd.dense_layers = 4;
  CHECK(refused(odd, layout) == "runner:dense_layers");
  layout = {};
  layout.fp8 = Scaling::current;
  odd = m;
  odd.ffn = odd.expert_ffn = 32;
  odd.heads = odd.kv_heads = 2;
  CHECK(refused(odd, layout) == "runner:fp8_experts");
}

TEST_CASE("ep divides the memory of experts, and its messages are those of the formula") {
  Options options;
  options.model = small();
  options.dtype = Dtype::fp64;
  options.layout.dp = 4;
  options.layout.moe_routing = MoeRouting::balanced;
  const RankCost whole = cost_of_rank(options, 0);
  options.layout.ep = 4;
  const RankCost spread = cost_of_rank(options, 0);
  constexpr i64 value = 8;
  const i64 experts = i64{4} * 8 * 3 * 24 * 32;
  const i64 parameters = whole.peak_by_class[0] - spread.peak_by_class[0];
  CHECK(parameters == experts * 3 / 4 * value);
  // Rows travel to experts and back, forward and backward, except the rank's own quarter.
  const i64 rows = sequence * 2 * 3 / 4;
  CHECK(spread.sent_bytes[6] == i64{4} * 4 * rows * 32 * value);
  CHECK(whole.sent_bytes[6] == 0);
  CHECK(spread.sent_bytes[7] == 0);  // no other rank has these experts
}
