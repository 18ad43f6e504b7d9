// SPDX-License-Identifier: Apache-2.0
#include "parallel/rank_context.hpp"

#include <algorithm>
#include <utility>

namespace shardbench {

Extents extents_of(
    const ModelShape& shape, const Layout& layout, const Coordinates& at, Dtype values) {
  Extents e{};
  const i64 seq_len = shape.seq_len / layout.cp;
  e.tokens = layout.micro_batch * seq_len;
  e.rows = layout.sequence_parallel ? e.tokens / layout.tp : e.tokens;
  e.hidden = shape.hidden;
  e.ffn = shape.ffn / layout.tp;
  e.expert_ffn = shape.expert_ffn / layout.tp;
  e.vocab = padded_vocab(shape.vocab, layout) / layout.tp;
  e.first_vocab = at.tp * e.vocab;
  e.real_vocab = std::clamp<i64>(shape.vocab - e.first_vocab, 0, e.vocab);
  e.logit_stride = values == Dtype::bf16 ? round_up(e.vocab, 64) : e.vocab;
  e.attention = {layout.micro_batch, seq_len, shape.heads / layout.tp, shape.kv_heads / layout.tp,
      shape.head_dim(), layout.cp > 1 && layout.cp_mode == ContextMode::ring};
  return e;
}

RankContext context_of(Device& device, Memory& memory, const ModelShape& shape,
    const Layout& layout, const Coordinates& at, const Groups& groups) {
  const auto tokens = static_cast<double>(layout.global_batch() * shape.seq_len);
  return {device, memory, shape, layout, at, *groups.tp, *groups.dp, *groups.cp, *groups.ep,
      extents_of(shape, layout, at, device.precision().value), 1.0 / tokens};
}

FullRows::FullRows(const RankContext& context, const Block& rows, Travel travel)
    : tp_(context.tp), data_(rows.data()) {
  if (!context.sequence_parallel()) return;
  const Extents& e = context.extents;
  gathered_ = context.values(MemoryClass::workspace, e.tokens * e.hidden, "gathered rows");
  const UnderProducts under(tp_, travel);
  token_ = tp_.all_gather(rows.data(), gathered_.data(), e.rows * e.hidden, context.value_dtype());
  data_ = gathered_.data();
}

const void* FullRows::data() {
  tp_.wait(std::exchange(token_, 0));
  return data_;
}

RowSum::RowSum(const RankContext& context, Block partial, MemoryClass kind, std::string_view what,
    Travel travel)
    : tp_(context.tp), partial_(std::move(partial)) {
  const Extents& e = context.extents;
  const bool waits = travel == Travel::alone || !context.layout.habits.tp_overlap;
  const UnderProducts under(tp_, waits ? Travel::alone : travel);
  if (context.sequence_parallel()) {
    rows_ = context.values(kind, e.rows * e.hidden, what);
    token_ =
        tp_.reduce_scatter(partial_.data(), rows_.data(), e.rows * e.hidden, context.value_dtype());
  } else {
    token_ =
        tp_.all_reduce(partial_.data(), e.tokens * e.hidden, context.value_dtype(), Reduction::sum);
  }
  if (waits) tp_.wait(std::exchange(token_, 0));
}

Block RowSum::take() {
  tp_.wait(std::exchange(token_, 0));
  if (!rows_) return std::move(partial_);
  partial_.reset();
  return std::move(rows_);
}

Block sum_to_rows(
    const RankContext& context, Block partial, MemoryClass kind, std::string_view what) {
  return RowSum(context, std::move(partial), kind, what, Travel::alone).take();
}

}  // namespace shardbench
