// SPDX-License-Identifier: Apache-2.0
#include "equality_cases.hpp"

#include "program/rules.hpp"

#include <array>
#include <set>
#include <sstream>
#include <tuple>

namespace shardbench {
namespace {

constexpr i64 most_ranks = 8;

/// A toy that `layout` can cut: heads in groups of two, and at least four layers so that stages
/// are uneven for pp = 3; virtual ones always are. Its vocabulary is odd, so that no tp divides
/// it.
ModelShape toy_model(const Layout& layout, i64 width) {
  const i64 tp = layout.tp;
  ModelShape m;
  m.layers = layout.vpp > 1 ? layout.pp * layout.vpp + 1 : std::max<i64>(4, layout.pp);
  const i64 shares = layout.cp_mode == ContextMode::ulysses ? tp * layout.cp : tp;
  m.heads = 2 * shares;
  m.kv_heads = shares;
  m.hidden = 4 * width * m.heads;
  m.ffn = 6 * width * tp;
  m.vocab = (tp < 4 ? 12 * tp : 3 * tp) * width - 1;
  m.seq_len = tp == 1 ? 8 : 4 * tp;
  if (layout.cp > 1) m.seq_len = 4 * tp * layout.cp;
  return m;
}

std::vector<Layout> shapes() {
  std::vector<Layout> out;
  for (i64 d = 1; d <= most_ranks; ++d)
    for (i64 t = 1; d * t <= most_ranks; ++t)
      for (i64 p = 1; d * t * p <= most_ranks; ++p) {
        Layout layout;
        layout.dp = d;
        layout.tp = t;
        layout.pp = p;
        out.push_back(layout);
      }
  return out;
}

template <typename Value, typename Set>
std::vector<Layout> each(
    const std::vector<Layout>& layouts, const std::vector<Value>& values, Set set) {
  std::vector<Layout> out;
  for (const Layout& layout : layouts)
    for (const Value& value : values) {
      out.push_back(layout);
      set(out.back(), value);
    }
  return out;
}

std::vector<Layout> each_state(std::vector<Layout> layouts) {
  layouts = each(layouts, std::vector<i64>{0, 1, 2, 3}, [](Layout& l, i64 z) { l.zero = z; });
  layouts = each(
      layouts, std::vector<i64>{1, 2, 4}, [](Layout& l, i64 copies) { l.dp_replicate = copies; });
  layouts =
      each(layouts, std::vector<Recompute>{Recompute::none, Recompute::selective, Recompute::full},
          [](Layout& l, Recompute r) { l.recompute = r; });
  return each(layouts, std::vector<bool>{false, true},
      [](Layout& l, bool on) { l.sequence_parallel = on; });
}

/// Schedules of one chunk for each rank, whatever the number of micro-batches.
std::vector<Layout> plain_layouts() {
  std::vector<Layout> layouts = each(shapes(), std::vector<i64>{1, 2, 4}, [](Layout& l, i64 m) {
    l.grad_accum = m;
    l.micro_batch = m == 2 ? 2 : 1;
  });
  return each(each_state(layouts),
      std::vector<ScheduleKind>{ScheduleKind::one_f_one_b, ScheduleKind::afab},
      [](Layout& l, ScheduleKind kind) { l.schedule = kind; });
}

/// Virtual stages: one round of micro-batches, and two.
std::vector<Layout> interleaved_layouts() {
  std::vector<Layout> layouts =
      each(shapes(), std::vector<i64>{2, 3}, [](Layout& l, i64 chunks) { l.vpp = chunks; });
  layouts = each(
      layouts, std::vector<i64>{1, 2}, [](Layout& l, i64 rounds) { l.grad_accum = rounds * l.pp; });
  return each_state(layouts);
}

/// ZB-H1: with fewer micro-batches than ranks, and with more.
std::vector<Layout> zero_bubble_layouts() {
  return each_state(each(shapes(), std::vector<i64>{1, 3, 5}, [](Layout& l, i64 m) {
    l.schedule = ScheduleKind::zb_h1;
    l.grad_accum = m;
  }));
}

/// ZB-V: the same, over stages that fold, also if ranks share sequences.
std::vector<Layout> folded_layouts() {
  std::vector<Layout> layouts;
  for (const i64 cp : {1, 2})
    for (const Layout& shape : shapes())
      if (shape.pp > 1 && shape.world() * cp <= most_ranks) {
        layouts.push_back(shape);
        layouts.back().cp = cp;
        if (cp > 1 && shape.dp == 1) layouts.back().cp_mode = ContextMode::ulysses;
      }
  return each_state(each(layouts, std::vector<i64>{1, 3, 5}, [](Layout& l, i64 m) {
    l.schedule = ScheduleKind::zb_v;
    l.vpp = 2;
    l.grad_accum = m;
  }));
}

/// Sequences that ranks share: each way, alone and beside dp, tp and pp.
std::vector<Layout> context_layouts() {
  std::vector<Layout> layouts;
  for (const i64 cp : {2, 3, 4, 8})
    for (const Layout& shape : shapes())
      if (shape.world() * cp <= most_ranks) {
        layouts.push_back(shape);
        layouts.back().cp = cp;
        layouts.back().grad_accum = shape.pp > 1 ? 2 : 1;
        layouts.back().micro_batch = cp == 4 ? 1 : 2;
        if (shape.pp != 2) continue;
        layouts.push_back(layouts.back());
        layouts.back().vpp = 2;
        layouts.push_back(layouts.back());
        layouts.back().vpp = 1;
        layouts.back().schedule = ScheduleKind::zb_h1;
      }
  layouts = each(layouts, std::vector<ContextMode>{ContextMode::ring, ContextMode::ulysses},
      [](Layout& l, ContextMode mode) { l.cp_mode = mode; });
  return each_state(layouts);
}

/// Experts: each ep beside dp, tp, pp and cp, with virtual stages and both orders.
std::vector<Layout> expert_layouts() {
  std::vector<Layout> layouts;
  for (const i64 cp : {1, 2, 4})
    for (const Layout& shape : shapes())
      for (const i64 ep : {1, 2, 3, 4, 8}) {
        if (shape.world() * cp > most_ranks || shape.dp * cp % ep != 0) continue;
        layouts.push_back(shape);
        layouts.back().cp = cp;
        layouts.back().ep = ep;
        layouts.back().grad_accum = shape.pp > 1 ? 2 * shape.pp : 1;
        if (cp > 1 && shape.dp % 2 == 0) layouts.back().cp_mode = ContextMode::ulysses;
        if (shape.pp != 2) continue;
        layouts.push_back(layouts.back());
        layouts.back().vpp = 2;
        layouts.push_back(layouts.back());
        layouts.back().vpp = 1;
        layouts.back().schedule = ScheduleKind::afab;
      }
  return each_state(layouts);
}

/// Adds experts. Settings outside the matrix take turns. Drops are those of a rank's own tokens:
/// one process has them too as long as no sequence is shared.
EqualityCase with_experts(Layout l, i64 width, std::size_t turn) {
  ModelShape model = toy_model(l, width);
  // Heads that are wider together than the model.
  if (turn % 4 == 1) model.head_values = 2 * model.head_dim();
  model.experts = l.ep == 3 ? 6 : std::max<i64>(4, l.ep);
  model.experts_per_token = turn % 5 == 0 ? 3 : 2;
  model.expert_ffn = 4 * width * l.tp;
  model.shared_experts = static_cast<i64>(turn / 2 % 3);
  model.dense_layers = turn / 3 % 2 == 0 ? 1 : 0;
  // Routing meets each recomputation and sequence parallelism, whose turns take six.
  l.moe_routing = static_cast<MoeRouting>((turn + turn / 6) % 3);
  l.moe_aux_loss = turn / 5 % 2 == 0 ? 0.25 : 0.0;
  if (l.cp == 1 && turn / 7 % 2 == 0) l.moe_capacity = 0.75;
  return {model, l};
}

/// Order of one or two in seven layouts; with cp, also one in which cp stands apart from dp.
RankOrder order_of_turn(const Layout& layout, std::size_t turn) {
  switch (turn % 7) {
    case 0:
      return {Axis::cp, Axis::dp, Axis::tp, Axis::pp};
    case 2:
      return {Axis::pp, Axis::cp, Axis::dp, Axis::tp};
    case 3:
      if (layout.cp > 1) return {Axis::tp, Axis::cp, Axis::pp, Axis::dp};
      break;
    case 5:
      if (layout.cp > 1) return {Axis::tp, Axis::dp, Axis::cp, Axis::pp};
      break;
    default:
      break;
  }
  return Layout{}.rank_order;
}

std::vector<EqualityCase> expert_cases(i64 width) {
  std::vector<Layout> layouts = expert_layouts();
  std::vector<EqualityCase> cases;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    Layout& l = layouts[i];
    l.overlap = i % 2 == 0;
    l.bucket_bytes = i % 3 == 0 ? 4096 : i64{25} << 20;
    l.habits.vocab_multiple = 1;
    l.habits.selective = i / 7 % 2 == 0 ? Selective::attention : Selective::norms_and_product;
    l.habits.goes_first = i / 5 % 2 == 0;
    l.rank_order = order_of_turn(l, i);
    const EqualityCase c = with_experts(l, width, i);
    if (!layout_refusal(c.layout, c.model, Waste::allowed)) cases.push_back(c);
  }
  return cases;
}

/// Values that change nothing: another order without stages.
bool redundant(const Layout& l) {
  return l.pp == 1 && l.schedule != ScheduleKind::one_f_one_b;
}

/// Properties whose values are covered by pairs.
std::vector<i64> properties(const EqualityCase& c) {
  const Layout& l = c.layout;
  return {c.model.tied ? 1 : 0, l.habits.vocab_multiple, static_cast<i64>(l.habits.selective),
      l.habits.gather_overlap ? 1 : 0, l.habits.tp_overlap ? 1 : 0, l.dp, l.tp, l.pp, l.zero,
      l.grad_accum, l.dp_replicate, static_cast<i64>(l.recompute), l.sequence_parallel ? 1 : 0,
      static_cast<i64>(l.schedule), l.vpp, l.cp, static_cast<i64>(l.cp_mode),
      l.stages.empty() ? 0 : 1, static_cast<i64>(l.rank_order[0]),
      static_cast<i64>(l.rank_order[1]), l.overlap ? 1 : 0, c.model.experts > 0 ? 1 : 0,
      c.model.shared_experts, c.model.dense_layers, l.ep, static_cast<i64>(l.moe_routing),
      l.moe_capacity > 0 ? 1 : 0, l.moe_aux_loss > 0 ? 1 : 0, l.bucket_bytes};
}

std::string experts_of(const EqualityCase& c) {
  std::ostringstream text;
  if (c.model.head_values > 0) text << " head" << c.model.head_values;
  text << " experts" << c.model.experts << '/' << c.model.experts_per_token << '+'
       << c.model.shared_experts << ' ' << moe_routing_name(c.layout.moe_routing)
       << (c.model.dense_layers > 0 ? " dense" : "") << (c.layout.moe_aux_loss > 0 ? " aux" : "")
       << (c.layout.moe_capacity > 0 ? " capacity" : "");
  return text.str();
}

}  // namespace

std::string describe_case(const EqualityCase& c) {
  const Layout& l = c.layout;
  std::ostringstream text;
  text << "dp" << l.dp << " tp" << l.tp << " pp" << l.pp << "x" << l.vpp << " m" << l.grad_accum
       << (l.cp > 1 ? " cp" + std::to_string(l.cp) + std::string(context_mode_name(l.cp_mode)) : "")
       << " mb" << l.micro_batch << " zero" << l.zero << " rep" << l.dp_replicate << ' '
       << recompute_name(l.recompute) << (l.sequence_parallel ? " sp " : " ")
       << schedule_name(l.schedule) << (l.stages.empty() ? "" : " uneven") << ' '
       << rank_order_name(l.rank_order) << " bucket" << l.bucket_bytes
       << (l.overlap ? " overlap" : "") << (c.model.tied ? " tied" : "") << " vocab"
       << padded_vocab(c.model.vocab, l)
       << (l.habits.selective == Selective::attention ? " core" : "")
       << (l.habits.gather_overlap ? " gathers" : "") << (l.habits.tp_overlap ? " sums" : "")
       << (l.habits.goes_first ? " first" : "")
       << (c.model.experts == 0 ? "" : " ep" + std::to_string(l.ep) + experts_of(c))
       << (l.fp8 == Scaling::none ? "" : " fp8 ")
       << (l.fp8 == Scaling::none ? "" : scaling_name(l.fp8));
  return text.str();
}

std::optional<EqualityCase> in_fp8(EqualityCase c, Scaling scaling) {
  constexpr i64 multiple = 16;
  c.layout.fp8 = scaling;
  c.model.seq_len = round_up(c.model.seq_len, multiple);
  if (layout_refusal(c.layout, c.model, Waste::allowed)) return std::nullopt;
  return c;
}

std::vector<EqualityCase> all_cases(i64 width) {
  std::vector<Layout> layouts = plain_layouts();
  for (const auto& more :
      {interleaved_layouts(), zero_bubble_layouts(), context_layouts(), folded_layouts()})
    layouts.insert(layouts.end(), more.begin(), more.end());
  std::vector<EqualityCase> cases;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    Layout& l = layouts[i];
    // Settings outside the matrix take turns through it.
    l.overlap = i % 2 == 0;
    // Buckets of a few values to several buckets per stage to one for all.
    constexpr std::array<i64, 4> buckets{i64{25} << 20, 4096, 1000, 16000};
    l.bucket_bytes = buckets[i / 3 % 4];
    l.rank_order = order_of_turn(l, i);
    ModelShape model = toy_model(l, width);
    model.tied = i / 4 % 3 == 1;
    l.habits.vocab_multiple = i / 5 % 3 == 0 ? 128 : 1;
    l.habits.selective = i / 7 % 2 == 0 ? Selective::attention : Selective::norms_and_product;
    l.habits.gather_overlap = i / 11 % 2 == 0;
    l.habits.tp_overlap = i / 13 % 2 == 0;
    l.habits.goes_first = i / 17 % 2 == 0;
    if (l.pp == 2 && l.vpp == 1 && i % 3 == 0) l.stages = {3, 1};
    if (!redundant(l) && !layout_refusal(l, model, Waste::allowed)) cases.push_back({model, l});
  }
  const std::vector<EqualityCase> experts = expert_cases(width);
  cases.insert(cases.end(), experts.begin(), experts.end());
  return cases;
}

std::vector<EqualityCase> covering_subset(const std::vector<EqualityCase>& cases) {
  std::set<std::tuple<std::size_t, std::size_t, i64, i64>> seen;
  std::vector<EqualityCase> subset;
  // A stride that meets unlike cases first keeps the subset small.
  constexpr std::size_t stride = 577;
  for (std::size_t n = 0; n < cases.size(); ++n) {
    const EqualityCase& candidate = cases[n * stride % cases.size()];
    const std::vector<i64> values = properties(candidate);
    bool fresh = false;
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t j = i + 1; j < values.size(); ++j)
        fresh = seen.insert({i, j, values[i], values[j]}).second || fresh;
    if (fresh) subset.push_back(candidate);
  }
  return subset;
}

}  // namespace shardbench
