// SPDX-License-Identifier: Apache-2.0
#include "model/context_attention.hpp"

#include "communication/all_to_all.hpp"

#include <array>
#include <utility>
#include <vector>

namespace shardbench {
namespace {

Block scores_of(const RankContext& c, const AttentionShape& shape) {
  return c.memory.allocate(
      MemoryClass::workspace, c.device.attention_workspace_bytes(shape), "attention scores");
}

// Ring.

i64 key_width(const AttentionShape& a) {
  return 2 * a.kv_heads * a.head_dim;
}

/// Where keys and values begin in a row of q, k, v.
std::byte* keys_in(const RankContext& c, const Block& qkv) {
  const AttentionShape& a = c.extents.attention;
  return qkv.data() + c.value_bytes(a.heads * a.head_dim);
}

Block key_block(const RankContext& c, std::string_view what) {
  return c.values(MemoryClass::workspace, c.extents.tokens * key_width(c.extents.attention), what);
}

Block packed_keys(const RankContext& c, const Block& qkv) {
  const AttentionShape& a = c.extents.attention;
  Block keys = key_block(c, "keys and values");
  c.device.copy_columns(
      {keys.data(), key_width(a), keys_in(c, qkv), a.row(), key_width(a), c.extents.tokens});
  return keys;
}

/// Gives a block to the next rank and takes that of the rank before, while the device works.
class Pass {
 public:
  Pass(const RankContext& c, const Block& block)
      : cp_(c.cp), arriving_(key_block(c, "keys and values")) {
    const i64 count = c.extents.tokens * key_width(c.extents.attention);
    const i64 size = cp_.size();
    tokens_[0] =
        cp_.receive(arriving_.data(), count, c.value_dtype(), (cp_.rank() + size - 1) % size);
    tokens_[1] = cp_.send(block.data(), count, c.value_dtype(), (cp_.rank() + 1) % size);
    cp_.start_messages();
  }
  Block take() {
    for (const Token token : tokens_)
      cp_.wait(token);
    return std::move(arriving_);
  }

 private:
  Communicator& cp_;
  Block arriving_;
  std::array<Token, 2> tokens_{};
};

/// Adds a block to keys and values that lie `row` apart.
void add_keys(const RankContext& c, std::byte* to, i64 row, const Block& block) {
  const i64 width = key_width(c.extents.attention);
  c.device.add_columns({to, row, block.data(), width, width, c.extents.tokens});
}

/// Keys that this rank's queries see, out of those that came from `step` ranks away.
SeenKeys seen_after(const RankContext& c, i64 step) {
  const i64 own = c.extents.attention.seq_len;
  const bool from_before = step <= c.cp.rank();
  return from_before ? SeenKeys{0, own, own / 2} : SeenKeys{own / 2, own - own / 2, own};
}

void ring_attention(const RankContext& c, Block& attended, Block& lse, const Block& qkv) {
  const AttentionShape& a = c.extents.attention;
  const Block work = scores_of(c, a);
  Block keys = packed_keys(c, qkv);
  for (i64 step = 0; step < c.cp.size(); ++step) {
    std::optional<Pass> pass;
    if (step + 1 < c.cp.size()) pass.emplace(c, keys);
    if (step == 0)
      c.device.attention(attended.data(), lse.data(), qkv.data(), work.data(), a);
    else
      c.device.attend_more({attended.data(), lse.data(), qkv.data(), keys.data(), work.data()}, a,
          seen_after(c, step));
    if (pass) keys = pass->take();
  }
}

/// Gradients to keys follow their keys, and go one rank further, home. Those of the ranks
/// before travel while this one computes its own part, as Transformer Engine has it; the last
/// message alone is waited for with nothing to do.
void ring_backward(const RankContext& c, const ContextGradient& g) {
  const AttentionShape& a = c.extents.attention;
  const Block work = scores_of(c, a);
  Block keys = packed_keys(c, g.qkv);
  Block d_keys;  // gradients that this rank passes to the next one
  for (i64 step = 0; step < c.cp.size(); ++step) {
    std::optional<Pass> pass;
    std::optional<Pass> gradients;
    if (step + 1 < c.cp.size()) pass.emplace(c, keys);
    if (step > 1) gradients.emplace(c, d_keys);
    if (step == 0) {
      c.device.attention_backward({g.d_qkv.data(), g.d_attended.data(), g.qkv.data(),
                                      g.attended.data(), g.lse.data(), work.data()},
          a);
    } else {
      Block own = key_block(c, "gradient of keys and values");
      c.device.zero(own.data(), own.bytes());
      c.device.attend_more_backward({g.d_qkv.data(), own.data(), g.d_attended.data(), g.qkv.data(),
                                        keys.data(), g.attended.data(), g.lse.data(), work.data()},
          a, seen_after(c, step));
      if (gradients) add_keys(c, own.data(), key_width(a), gradients->take());
      d_keys = std::move(own);
    }
    if (pass) keys = pass->take();
  }
  add_keys(c, keys_in(c, g.d_qkv), a.row(), Pass(c, d_keys).take());
}

// Ulysses.

/// Columns of a row that are cut among the ranks: rank p has `width` from first + p·width on.
struct HeadColumns {
  i64 first;
  i64 width;
};

/// Rows of this rank's tokens with all its heads, and rows of all tokens with its part of them.
class HeadExchange {
 public:
  HeadExchange(const RankContext& c, std::vector<HeadColumns> parts, i64 local_row)
      : c_(c), parts_(std::move(parts)), local_row_(local_row) {
    for (const HeadColumns& part : parts_)
      row_ += part.width;
  }

  void to_sequences(std::byte* whole, const std::byte* local) const {
    const Block out = buffer();
    columns([&](i64 at, i64 column, i64 width) {
      c_.device.copy_columns({out.data() + c_.value_bytes(at), row_, local + c_.value_bytes(column),
          local_row_, width, tokens()});
    });
    const Block in = exchanged(out);
    sequences([&](i64 at, i64 first) {
      c_.device.copy(
          whole + c_.value_bytes(first), in.data() + c_.value_bytes(at), c_.value_bytes(piece()));
    });
  }

  void to_tokens(std::byte* local, const std::byte* whole) const {
    const Block out = buffer();
    sequences([&](i64 at, i64 first) {
      c_.device.copy(
          out.data() + c_.value_bytes(at), whole + c_.value_bytes(first), c_.value_bytes(piece()));
    });
    const Block in = exchanged(out);
    columns([&](i64 at, i64 column, i64 width) {
      c_.device.copy_columns({local + c_.value_bytes(column), local_row_,
          in.data() + c_.value_bytes(at), row_, width, tokens()});
    });
  }

 private:
  i64 tokens() const { return c_.extents.tokens; }
  i64 share() const { return tokens() * row_; }  // values that one rank gives another
  /// Values of one sequence that one rank gives another.
  i64 piece() const { return c_.extents.attention.seq_len * row_; }
  Block buffer() const {
    return c_.values(MemoryClass::workspace, c_.cp.size() * share(), "exchanged heads");
  }

  /// Calls with the place in the buffer, the column in a local row, and the width.
  template <typename Call>
  void columns(Call call) const {
    for (i64 rank = 0; rank < c_.cp.size(); ++rank) {
      i64 at = rank * share();
      for (const HeadColumns& part : parts_) {
        call(at, part.first + rank * part.width, part.width);
        at += part.width;
      }
    }
  }

  /// Calls with the place in the buffer and that in the rows of all tokens.
  template <typename Call>
  void sequences(Call call) const {
    for (i64 rank = 0; rank < c_.cp.size(); ++rank)
      for (i64 batch = 0; batch < c_.extents.attention.batch; ++batch)
        call(rank * share() + batch * piece(), (batch * c_.cp.size() + rank) * piece());
  }

  Block exchanged(const Block& out) const {
    Block in = buffer();
    const std::vector<i64> counts(static_cast<std::size_t>(c_.cp.size()), share());
    all_to_all(c_, c_.cp, {in.data(), counts}, {out.data(), counts});
    return in;
  }

  const RankContext& c_;
  std::vector<HeadColumns> parts_;
  i64 local_row_;
  i64 row_ = 0;
};

AttentionShape whole_shape(const RankContext& c) {
  return attended_shape(c.extents.attention, c.layout);
}

HeadExchange of_qkv(const RankContext& c) {
  const AttentionShape& a = c.extents.attention;
  const AttentionShape w = whole_shape(c);
  return {c,
      {{0, w.heads * a.head_dim}, {a.heads * a.head_dim, w.kv_heads * a.head_dim},
          {(a.heads + a.kv_heads) * a.head_dim, w.kv_heads * a.head_dim}},
      a.row()};
}

HeadExchange of_attended(const RankContext& c) {
  const AttentionShape& a = c.extents.attention;
  return {c, {{0, whole_shape(c).heads * a.head_dim}}, a.heads * a.head_dim};
}

Block attended_block(const RankContext& c) {
  const AttentionShape& a = c.extents.attention;
  return c.values(MemoryClass::workspace, c.extents.tokens * a.heads * a.head_dim,
      "attended values of all tokens");
}

void ulysses_attention(
    const RankContext& c, Block& attended, Block& lse, const Block& qkv, Attending attending) {
  if (attending == Attending::first) of_qkv(c).to_sequences(qkv.data(), qkv.data());
  const Block whole = attended_block(c);
  {
    const AttentionShape shape = whole_shape(c);
    const Block work = scores_of(c, shape);
    c.device.attention(whole.data(), lse.data(), qkv.data(), work.data(), shape);
  }
  of_attended(c).to_tokens(attended.data(), whole.data());
}

void ulysses_backward(const RankContext& c, const ContextGradient& g) {
  {
    const Block d_whole = attended_block(c);
    of_attended(c).to_sequences(d_whole.data(), g.d_attended.data());
    const Block whole = attended_block(c);
    of_attended(c).to_sequences(whole.data(), g.attended.data());
    const AttentionShape shape = whole_shape(c);
    const Block work = scores_of(c, shape);
    c.device.attention_backward(
        {g.d_qkv.data(), d_whole.data(), g.qkv.data(), whole.data(), g.lse.data(), work.data()},
        shape);
  }
  of_qkv(c).to_tokens(g.d_qkv.data(), g.d_qkv.data());
}

}  // namespace

Positions positions_of(const RankContext& c) {
  const i64 own = c.extents.attention.seq_len;
  if (c.layout.cp_mode == ContextMode::ulysses || c.layout.cp == 1)
    return {c.at.cp * own, c.at.cp * own + own / 2};
  const i64 piece = own / 2;
  return {c.at.cp * piece, (2 * c.layout.cp - 1 - c.at.cp) * piece};
}

AttentionShape attended_shape(const AttentionShape& own, const Layout& layout) {
  AttentionShape shape = own;
  if (layout.cp_mode != ContextMode::ulysses) return shape;
  shape.seq_len *= layout.cp;
  shape.heads /= layout.cp;
  shape.kv_heads /= layout.cp;
  return shape;
}

void context_attention(
    const RankContext& c, Block& attended, Block& lse, const Block& qkv, Attending attending) {
  if (c.layout.cp_mode == ContextMode::ulysses)
    ulysses_attention(c, attended, lse, qkv, attending);
  else
    ring_attention(c, attended, lse, qkv);
}

void context_attention_backward(const RankContext& c, const ContextGradient& g) {
  if (c.layout.cp_mode == ContextMode::ulysses)
    ulysses_backward(c, g);
  else
    ring_backward(c, g);
}

}  // namespace shardbench
