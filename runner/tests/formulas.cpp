// SPDX-License-Identifier: Apache-2.0
// Symbols as in the README: T tokens of a micro-batch, R rows of the residual stream (T, or T/t
// under sequence parallelism), h hidden, t, p, d, m, L layers of the stage, e bytes per value.
// fp32 and fp64 only: values and gradients have one size.
#include "formulas.hpp"

#include "formulas_stage.hpp"

#include <algorithm>
#include <numeric>

namespace shardbench {
namespace {

/// Elements of the units of a stage: embedding, layers, head, each padded to the shards. Tied,
/// the head is the final norm alone, and `copy` the last stage's copy of the embedding.
struct Units {
  i64 embedding = 0;
  i64 layer = 0;
  i64 head = 0;
  i64 copy = 0;
  i64 layers = 0;
  bool tied = false;

  i64 total() const { return embedding + layers * layer + head + copy; }
  /// Parameters that head_pass multiplies by beside the final norm's unit.
  i64 table() const { return !tied || head == 0 ? 0 : copy + embedding; }
  i64 largest() const { return std::max({embedding, layer, head + table()}); }
  /// Units of a chunk as forward gathers them: the head's are one.
  std::vector<i64> of_chunk(const std::vector<i64>& chunks, std::size_t chunk) const {
    std::vector<i64> out;
    if (embedding > 0 && chunk == 0) out.push_back(embedding);
    out.insert(out.end(), static_cast<std::size_t>(chunks[chunk]), layer);
    if (head > 0 && chunk + 1 == chunks.size()) out.push_back(head + table());
    return out;
  }
};

i64 layer_elements(const Stage& s) {
  const ModelShape& m = s.model;
  const i64 cut =
      2 * m.hidden * m.hidden + 2 * m.hidden * m.kv_heads * m.head_dim() + 3 * m.hidden * m.ffn;
  return cut / s.layout.tp + 2 * m.hidden;
}

/// Rows of a rank's part of the vocabulary.
i64 vocab_rows(const Stage& s) {
  return round_up(s.model.vocab, s.layout.habits.vocab_multiple * s.layout.tp) / s.layout.tp;
}

Units units(const Stage& s) {
  const i64 table = vocab_rows(s) * s.model.hidden;
  const i64 parts = 128 * s.shards();
  Units u;
  u.layers = s.layers();
  u.tied = s.model.tied;
  u.layer = round_up(layer_elements(s), parts);
  if (s.first) u.embedding = round_up(table, parts);
  if (s.last) u.head = round_up((u.tied ? 0 : table) + s.model.hidden, parts);
  if (s.last && u.tied && !s.first) u.copy = round_up(table, parts);
  return u;
}

/// An all-reduce of `count` values: member 0 sums short vectors, else everyone its part.
i64 all_reduce_bytes(i64 n, i64 index, i64 count, i64 e) {
  if (n == 1) return 0;
  if (count * e < 8192) return (index == 0 ? n - 1 : 1) * count * e;
  const i64 own = count * (index + 1) / n - count * index / n;
  return ((count - own) + own * (n - 1)) * e;
}

/// Reduce-scatter or all-gather of `whole` values: (n − 1)/n of them.
i64 scatter_bytes(i64 n, i64 whole, i64 e) {
  return (n - 1) * (whole / n) * e;
}

i64 tp_bytes(const Stage& s) {
  const i64 t = s.layout.tp;
  if (t == 1) return 0;
  const i64 th = s.tokens * s.model.hidden;
  const i64 ar = all_reduce_bytes(t, s.at.tp, th, s.e);
  const i64 part = scatter_bytes(t, th, s.e);
  const i64 again = s.layout.recompute == Recompute::full ? 1 : 0;
  // Forward 2 sums (or 2 gathers and 2 scatters), backward 2 sums (or 4 gathers, 2 scatters).
  // Cut in two, backward gathers the gradients to outputs once more.
  const i64 halves = halves_backward(s.layout.schedule) ? 2 : 0;
  const i64 per_layer = s.sp ? (10 + halves + 4 * again) * part : (4 + 2 * again) * ar;
  i64 bytes = s.m() * s.layers() * per_layer;
  if (s.first) bytes += s.m() * (s.sp ? 2 * part : ar);
  if (s.last)
    bytes += s.m() *
        ((s.sp ? 2 * part : ar) + all_reduce_bytes(t, s.at.tp, s.tokens, s.e) +
            all_reduce_bytes(t, s.at.tp, 2 * s.tokens, s.e));
  return bytes;
}

/// Elements of the norms in the owned parts of their units, whose gradients are summed over tp
/// under sequence parallelism, all at once.
i64 owned_norms(const Stage& s) {
  if (!s.sp) return 0;
  const Units u = units(s);
  const i64 h = s.model.hidden;
  const auto norm_at = [&](i64 offset, i64 unit) {
    const i64 part = unit / s.shards();
    const i64 first = s.shard_index() * part;
    const i64 overlap = std::min(offset + h, first + part) - std::max(offset, first);
    return std::max<i64>(0, overlap);
  };
  const i64 attention = (2 * h * h + 2 * h * s.model.kv_heads * s.model.head_dim()) / s.layout.tp;
  std::vector<i64> norms;
  for (i64 i = 0; i < s.layers(); ++i) {
    norms.push_back(norm_at(0, u.layer));
    norms.push_back(norm_at(h + attention, u.layer));
  }
  if (s.last) norms.push_back(norm_at(0, u.head));
  return std::accumulate(norms.begin(), norms.end(), i64{0});
}

i64 norm_bytes(const Stage& s) {
  return all_reduce_bytes(s.layout.tp, s.at.tp, owned_norms(s), s.e);
}

/// Gradients of a tied embedding that the other stage needs.
i64 copied(const Stage& s) {
  if (!s.model.tied || s.first == s.last) return 0;
  const Units u = units(s);
  return (u.embedding + u.copy) / s.shards();
}

i64 pp_bytes(const Stage& s) {
  // Folded, the last rank's stages are neighbours.
  const bool turns = s.layout.schedule == ScheduleKind::zb_v && s.at.pp == s.layout.pp - 1;
  const i64 boundaries = 2 * s.layout.vpp - (s.first ? 1 : 0) - (s.last ? 1 : 0) - (turns ? 2 : 0);
  return (boundaries * s.m() * s.rows * s.model.hidden + copied(s)) * s.e;
}

/// Buckets of an all-reduce, cut from the end.
i64 dp_bytes(const Stage& s) {
  if (s.layout.zero > 0) return 0;
  const i64 bucket = s.layout.bucket_bytes / s.e;
  i64 bytes = 0;
  for (i64 left = units(s).total(); left > 0; left -= bucket)
    bytes += all_reduce_bytes(
        s.layout.data_ranks(), data_index(s.layout, s.at), std::min(left, bucket), s.e);
  return bytes;
}

i64 shard_bytes(const Stage& s) {
  if (s.layout.zero == 0) return 0;
  const i64 n = s.shards();
  const Units u = units(s);
  const i64 whole = scatter_bytes(n, u.total(), s.e);
  // Embedding and head in one stage use the same weights one after the other.
  const i64 twice = s.first ? scatter_bytes(n, u.table(), s.e) : 0;
  if (s.layout.zero == 1) return 2 * whole;
  if (s.layout.zero == 2) return (s.m() + 1) * whole + s.m() * twice;
  // Weights of layers are gathered for forward and for backward, both ends once.
  return s.m() * (2 * whole + 2 * twice + scatter_bytes(n, u.layers * u.layer, s.e));
}

i64 replicate_bytes(const Stage& s) {
  if (s.layout.zero == 0) return 0;
  const i64 index = data_index(s.layout, s.at) / s.layout.shard_ranks();
  i64 bytes = 0;
  const Units u = units(s);
  std::vector<i64> each{u.embedding, u.head, u.copy};
  each.insert(each.end(), static_cast<std::size_t>(u.layers), u.layer);
  for (const i64 unit : each)
    bytes += all_reduce_bytes(s.layout.dp_replicate, index, unit / s.shards(), s.e);
  return bytes;
}

/// Values of a rank's tokens: attended, q k v, k v.
struct ContextValues {
  i64 attended;
  i64 qkv;
  i64 keys;
};

ContextValues context_values(const Stage& s) {
  const ModelShape& m = s.model;
  const i64 per_head = s.tokens * m.head_dim() / s.layout.tp;
  return {per_head * m.heads, per_head * (m.heads + 2 * m.kv_heads), per_head * 2 * m.kv_heads};
}

/// Ring: keys go round in forward, keys and their gradients in backward. Ulysses: all but a
/// rank's own share of what it exchanges.
i64 cp_bytes(const Stage& s) {
  const i64 cp = s.layout.cp;
  if (cp == 1) return 0;
  const ContextValues v = context_values(s);
  const bool full = s.layout.recompute == Recompute::full;
  const bool core = s.layout.recompute == Recompute::selective &&
      s.layout.habits.selective == Selective::attention;
  const i64 per_layer = s.layout.cp_mode == ContextMode::ring
      ? (3 + (full || core ? 1 : 0)) * v.keys
      : ((full ? 3 : 2) * v.qkv + (3 + (full || core ? 1 : 0)) * v.attended) / cp;
  return s.m() * s.layers() * (cp - 1) * per_layer * s.e;
}

/// Workspace of attention's backward beside the gradient of the attended values. Ring: scores, keys
/// that are here and that come, and their gradients: this rank's own, those that leave and those
/// that come. Two ranks have the last two after the own ones, and a third rank has no more keys to
/// come by then. Ulysses: attended values and their gradient of all tokens, and the two sides of an
/// exchange.
i64 core_workspace(const Stage& s, i64 d_qkv) {
  const ContextValues v = context_values(s);
  const bool whole = s.layout.cp_mode == ContextMode::ulysses;
  const i64 seq = whole ? s.model.seq_len : s.model.seq_len / s.layout.cp;
  const i64 scores = 2 * std::min<i64>(64, seq) * seq;
  if (s.layout.cp == 1) return d_qkv + scores;
  if (!whole) return d_qkv + scores + std::min<i64>(s.layout.cp + 1, 5) * v.keys;
  return d_qkv + std::max({4 * v.attended, 2 * v.attended + scores, 2 * v.qkv});
}

/// Elements of class workspace: the worst moment of a layer, all in its backward.
i64 layer_workspace(const Stage& s) {
  const ModelShape& m = s.model;
  const i64 t = s.layout.tp;
  const i64 whole = s.tokens * m.hidden;
  const i64 gathered = s.sp ? whole : 0;
  const i64 qkv = s.tokens * (m.heads + 2 * m.kv_heads) * m.head_dim() / t;
  // Gradient of the activated rows beside the gathered stream; gradients of attended values and
  // of q, k, v beside two blocks of scores; gradient of q, k, v beside that of the branch, its
  // sum over tp, and the gathered norm for the weights' gradient.
  const i64 summed = s.sp ? s.rows * m.hidden : 0;
  const i64 sums = s.sp ? gathered + summed : 0;
  // Values kept for the weights' gradients are no workspace, and norms are not gathered.
  if (halves_backward(s.layout.schedule))
    return std::max({s.tokens * m.ffn / t + gathered,
        whole / t + std::max(core_workspace(s, 0), gathered), whole + summed});
  return std::max(
      {s.tokens * m.ffn / t + gathered, whole / t + core_workspace(s, qkv), qkv + whole + sums});
}

/// The head holds targets, the final norm, its gathered rows and logits. Beside them lies the
/// larger of two: three statistics per token, or the rows' gradient with its sum over tp.
i64 workspace_bytes(const Stage& s) {
  const i64 layer = layer_workspace(s) * s.e;
  if (!s.last) return layer;
  const i64 whole = s.tokens * s.model.hidden;
  const i64 rows = s.rows * s.model.hidden;
  const i64 head = rows + (s.sp ? whole : 0) + s.tokens * vocab_rows(s) +
      std::max(3 * s.tokens, whole + (s.sp ? rows : 0));
  return std::max(layer, head * s.e + s.tokens * 4);
}

/// Bytes that an all-reduce holds: the others' parts of this member's sum.
i64 all_reduce_staging(i64 n, i64 index, i64 count, i64 e) {
  if (n == 1) return 0;
  if (count * e < 8192) return index == 0 ? (n - 1) * count * e : 0;
  return (n - 1) * (count * (index + 1) / n - count * index / n) * e;
}

/// A norm of its own has no sums.
enum class Kind { embedding, layer, head, norm };

/// The largest staging of the tp sums within a unit; nothing else is summed meanwhile by tp.
i64 tp_staging(const Stage& s, Kind kind) {
  const auto sum = [&](i64 count) { return all_reduce_staging(s.layout.tp, s.at.tp, count, s.e); };
  const i64 whole = s.tokens * s.model.hidden;
  const i64 stream = s.sp ? scatter_bytes(s.layout.tp, whole, s.e) : sum(whole);
  // Backward of the embedding gathers at most.
  if (kind == Kind::embedding || kind == Kind::norm) return 0;
  return kind == Kind::layer ? stream : std::max({stream, sum(s.tokens), sum(2 * s.tokens)});
}

/// Reductions of gradients are two at most: one that travels, and the next one.
class Reductions {
 public:
  void start(i64 bytes) {
    before_last_ = last_;
    last_ = bytes;
    note(before_last_ + last_);
  }
  /// A sum of `bytes` is made while the last one, or the last two, are under way.
  void beside_one(i64 bytes) { note(last_ + bytes); }
  void beside_two(i64 bytes) { note(before_last_ + last_ + bytes); }
  void note(i64 bytes) { peak_ = std::max(peak_, bytes); }
  i64 peak() const { return peak_; }

 private:
  i64 last_ = 0;
  i64 before_last_ = 0;
  i64 peak_ = 0;
};

struct KindOfUnit {
  Kind kind;
  i64 elements;
};

/// The head's units as it ends them. ZeRO 0 and 1 reduce a tied embedding of the same stage
/// once, with the embedding.
std::vector<KindOfUnit> head_order(const Stage& s) {
  if (!s.last) return {};
  const Units u = units(s);
  if (!u.tied || (s.first && s.layout.zero < 2)) return {{Kind::head, u.head}};
  return {{Kind::head, u.table()}, {Kind::norm, u.head}};
}

/// Units of a piece's backward, in which order it ends them, without the head.
std::vector<KindOfUnit> backward_order(const Stage& s, const Piece& piece) {
  const Units u = units(s);
  std::vector<KindOfUnit> order(static_cast<std::size_t>(s.layers(piece)), {Kind::layer, u.layer});
  if (s.begins(piece)) order.push_back({Kind::embedding, u.embedding});
  return order;
}

/// All units, from the last to the first.
std::vector<KindOfUnit> backward_order(const Stage& s) {
  std::vector<KindOfUnit> order = head_order(s);
  for (i64 chunk = s.layout.vpp; chunk-- > 0;)
    for (const KindOfUnit& unit : backward_order(s, {0, chunk}))
      order.push_back(unit);
  return order;
}

/// Reductions of gradients and sums over tp, as the rank goes through its actions.
class ReductionWalk {
 public:
  ReductionWalk(const Stage& s, Reductions& r)
      : s_(s), r_(r), left_(units(s).total()), ready_(left_) {}

  void run() {
    for (const Action& action : s_.actions) {
      if (action.kind == ActionKind::transfer) continue;
      if (action.kind == ActionKind::forward) forward(action.piece);
      if (action.kind == ActionKind::input_gradient && s_.layout.overlap)
        r_.beside_two(tp_staging(s_, Kind::layer));
      const bool halved = action.kind == ActionKind::weight_gradient;
      if (halved || action.kind == ActionKind::backward)
        for (const KindOfUnit& unit : backward_order(s_, action.piece))
          unit_ends({halved ? Kind::norm : unit.kind, unit.elements}, action.piece);
    }
    // ZeRO 0 and 1 without overlap reduce after backward, still two at a time.
    if (always() || s_.layout.overlap) return;
    for (const KindOfUnit& unit : backward_order(s_))
      reduce_once(unit);
  }

 private:
  /// ZeRO 2 and 3 reduce each unit in each micro-batch, 0 and 1 in the last one.
  bool always() const { return s_.layout.zero >= 2; }

  void forward(const Piece& piece) {
    if (s_.layout.overlap) r_.beside_two(tp_staging(s_, Kind::layer));
    if (!s_.ends(piece)) return;
    for (const KindOfUnit& unit : head_order(s_))
      unit_ends(unit, piece);
  }

  /// Counts one reduction of ZeRO 2 and 3 that is under way while a unit's gradients are computed.
  void unit_ends(const KindOfUnit& unit, const Piece& piece) {
    const i64 sums = s_.layout.overlap ? tp_staging(s_, unit.kind) : 0;
    if (always()) {
      r_.beside_one(sums);
      const i64 bytes = scatter_bytes(s_.shards(), unit.elements, s_.e);
      if (s_.layout.overlap)
        r_.start(bytes);
      else
        r_.note(bytes);
      return;
    }
    r_.beside_two(sums);
    if (s_.layout.overlap && piece.micro + 1 == s_.m()) reduce_once(unit);
  }

  void reduce_once(const KindOfUnit& unit) {
    const i64 bucket = s_.layout.bucket_bytes / s_.e;
    ready_ -= unit.elements;
    if (s_.layout.zero == 1) r_.start(scatter_bytes(s_.shards(), unit.elements, s_.e));
    while (s_.layout.zero == 0 && left_ > ready_ && std::max<i64>(0, left_ - bucket) >= ready_) {
      const i64 count = std::min(left_, bucket);
      r_.start(
          all_reduce_staging(s_.layout.data_ranks(), data_index(s_.layout, s_.at), count, s_.e));
      left_ -= count;
    }
  }

  const Stage& s_;
  Reductions& r_;
  i64 left_;
  i64 ready_;
};

/// Peak of class communication.
i64 staging_peak(const Stage& s) {
  Reductions r;
  // Forwards before the first reduction; the norm of all gradients.
  r.note(tp_staging(s, s.last ? Kind::head : Kind::layer));
  r.note(all_reduce_staging(s.layout.tp, s.at.tp, 1, 8));
  r.note(all_reduce_staging(s.layout.data_ranks(), data_index(s.layout, s.at), 1, 8));
  r.note(all_reduce_staging(s.layout.pp, s.at.pp, 1, 8));
  ReductionWalk(s, r).run();
  for (const KindOfUnit& unit : backward_order(s)) {
    const i64 index = data_index(s.layout, s.at) / s.layout.shard_ranks();
    if (s.layout.zero > 0)
      r.note(all_reduce_staging(s.layout.dp_replicate, index, unit.elements / s.shards(), s.e));
  }
  r.note(std::min(copied(s), s.layout.bucket_bytes / s.e) * s.e);
  const i64 norms = owned_norms(s);
  r.note(norms * s.e + all_reduce_staging(s.layout.tp, s.at.tp, norms, s.e));
  return r.peak();
}

/// Elements of a unit whose gradients are computed, and elements that travel meanwhile.
struct Turn {
  i64 computed;
  i64 under_way;
};

/// Units in the order in which their gradients are computed in a train step. A tied head has
/// two units at once, of which the final norm's ends last.
std::vector<Turn> gradient_order(const Stage& s) {
  const Units u = units(s);
  std::vector<Turn> order;
  for (const Action& action : s.actions) {
    if (action.kind == ActionKind::forward && s.ends(action.piece))
      order.push_back({u.head + u.table(), u.head});
    if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient)
      for (const KindOfUnit& unit : backward_order(s, action.piece))
        order.push_back({unit.elements, unit.elements});
  }
  return order;
}

i64 largest_neighbours(const std::vector<Turn>& turns) {
  i64 pair = turns.front().computed;
  for (std::size_t i = 1; i < turns.size(); ++i)
    pair = std::max(pair, turns[i - 1].under_way + turns[i].computed);
  return pair;
}

i64 largest_neighbours(const std::vector<i64>& elements) {
  std::vector<Turn> turns;
  turns.reserve(elements.size());
  for (const i64 each : elements)
    turns.push_back({each, each});
  return largest_neighbours(turns);
}

void put_state(const Stage& s, ExpectedCost& cost) {
  const Units u = units(s);
  const i64 whole = u.total();
  const i64 own = whole / s.shards();
  // Stage 3 uses a unit while its neighbour is being gathered. Stages 2 and 3 send one unit's
  // gradients while the next ones are computed.
  i64 open_weights = 0;
  for (std::size_t chunk = 0; chunk < s.chunks.size(); ++chunk)
    open_weights = std::max(open_weights, largest_neighbours(u.of_chunk(s.chunks, chunk)));
  const i64 open_gradients = s.layout.overlap ? largest_neighbours(gradient_order(s)) : u.largest();
  cost.peak_by_class[0] = (s.layout.zero == 3 ? own + open_weights : whole) * s.e;
  cost.peak_by_class[1] = (s.layout.zero < 2 ? whole : own + open_gradients) * s.e;
  cost.peak_by_class[2] = 2 * own * s.e;
}

}  // namespace

ExpectedCost expected_cost(const ModelShape& model, const Layout& layout, i64 rank, Dtype dtype) {
  const Coordinates at = coordinates_of(layout, rank);
  const i64 tokens = layout.micro_batch * model.seq_len / layout.cp;
  std::vector<i64> chunks;
  const Pipeline pipeline = pipeline_of(layout);
  for (i64 chunk = 0; chunk < layout.vpp; ++chunk)
    chunks.push_back(stage_layers(layout, model.layers, pipeline.stage(at.pp, chunk)).count);
  const Stage s{model, layout, at, dtype_size(dtype), chunks, tokens,
      layout.sequence_parallel ? tokens / layout.tp : tokens, at.pp == 0,
      at.pp == pipeline.last_rank(), layout.sequence_parallel,
      make_schedule(layout.schedule, pipeline, at.pp)};
  ExpectedCost cost;
  put_state(s, cost);
  cost.peak_by_class[3] = activation_peak(s);
  cost.peak_by_class[4] = workspace_bytes(s);
  // The sum of squares of all gradients stays: one double.
  cost.peak_by_class[5] = staging_peak(s) + 8;
  const auto square_sum = [](i64 n, i64 index) { return all_reduce_bytes(n, index, 1, 8); };
  cost.sent_bytes = {tp_bytes(s) + norm_bytes(s) + square_sum(layout.tp, at.tp),
      dp_bytes(s) + square_sum(layout.data_ranks(), data_index(layout, at)),
      pp_bytes(s) + square_sum(layout.pp, at.pp), shard_bytes(s), replicate_bytes(s), cp_bytes(s)};
  return cost;
}

}  // namespace shardbench
