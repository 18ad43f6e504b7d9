// SPDX-License-Identifier: Apache-2.0
// Each TP rank holds vocab / tp rows of the table and of the head.
#include "model/model_ends.hpp"

#include <utility>

namespace shardbench {
namespace {

const std::int32_t* as_ids(const Block& block) {
  return reinterpret_cast<const std::int32_t*>(block.data());
}

/// Softmax statistics over the whole vocabulary, then logits overwritten by their gradient.
void cross_entropy(const RankContext& c, Block& logits, const Block& targets, double loss_scale) {
  const Extents& e = c.extents;
  const Block maximum = c.statistics(MemoryClass::workspace, e.tokens, "logit maxima");
  const Block sums = c.statistics(MemoryClass::workspace, 2 * e.tokens, "loss statistics");
  const Device::LossShape shape{
      e.tokens, e.real_vocab, e.first_vocab, e.logit_stride, e.vocab - e.real_vocab};
  if (c.tp.size() == 1) {
    c.device.loss_max_and_sums(maximum.data(), sums.data(), logits.data(), as_ids(targets), shape);
  } else {
    c.device.loss_max(maximum.data(), logits.data(), shape);
    c.tp.wait(c.tp.all_reduce(maximum.data(), e.tokens, c.gradient_dtype(), Reduction::max));
    c.device.loss_sums(sums.data(), logits.data(), maximum.data(), as_ids(targets), shape);
    c.tp.wait(c.tp.all_reduce(sums.data(), 2 * e.tokens, c.gradient_dtype(), Reduction::sum));
  }
  c.device.loss_backward(
      {logits.data(), maximum.data(), sums.data(), as_ids(targets), loss_scale}, shape);
}

void head_logits(const RankContext& c, const Block& logits, const void* x, const void* w) {
  const Extents& e = c.extents;
  c.device.gemm({.transpose_b = Transpose::yes,
      .m = e.tokens,
      .n = e.vocab,
      .k = e.hidden,
      .a = x,
      .lda = e.hidden,
      .b = w,
      .ldb = e.hidden,
      .c = logits.data(),
      .ldc = e.logit_stride});
}

void head_input_gradient(
    const RankContext& c, const Block& dx, const Block& d_logits, const void* w) {
  const Extents& e = c.extents;
  c.device.gemm({.m = e.tokens,
      .n = e.hidden,
      .k = e.vocab,
      .a = d_logits.data(),
      .lda = e.logit_stride,
      .b = w,
      .ldb = e.hidden,
      .c = dx.data(),
      .ldc = e.hidden});
}

void head_weight_gradient(
    const RankContext& c, const HeadViews& gradients, const Block& d_logits, const void* x) {
  const Extents& e = c.extents;
  c.device.gemm({.transpose_a = Transpose::yes,
      .m = e.vocab,
      .n = e.hidden,
      .k = e.tokens,
      .a = d_logits.data(),
      .lda = e.logit_stride,
      .b = x,
      .ldb = e.hidden,
      .c = gradients.of_table(),
      .ldc = e.hidden,
      .accumulate = gradients.table.accumulate(),
      .gradient_output = true});
}

}  // namespace

Block embedding_forward(const RankContext& c, const UnitView& weights, const Block& ids) {
  const Extents& e = c.extents;
  const MemoryClass kind =
      c.sequence_parallel() ? MemoryClass::workspace : MemoryClass::activations;
  Block partial = c.values(kind, e.tokens * e.hidden, "embedded tokens");
  c.device.embed(partial.data(), weights.at(TensorKind::embedding), as_ids(ids),
      {e.tokens, e.hidden, e.first_vocab, e.vocab});
  return sum_to_rows(c, std::move(partial), MemoryClass::activations, "embedded tokens");
}

void embedding_backward(
    const RankContext& c, const UnitView& gradients, const Block& ids, const Block& stream) {
  const Extents& e = c.extents;
  FullRows dy(c, stream);
  void* table = gradients.at(TensorKind::embedding);
  if (gradients.fresh) c.device.zero(table, c.gradient_bytes(e.vocab * e.hidden));
  c.device.embed_backward(
      table, dy.data(), as_ids(ids), {e.tokens, e.hidden, e.first_vocab, e.vocab});
}

Block head_pass(const RankContext& c, const HeadViews& weights, const HeadViews& gradients,
    const Block& residual, const Block& targets, double loss_scale) {
  const Extents& e = c.extents;
  Block normed = c.values(MemoryClass::workspace, e.rows * e.hidden, "final norm");
  c.device.rms_norm(normed.data(), residual.data(), weights.of_norm(), e.rows, e.hidden);
  Block logits = c.values(MemoryClass::workspace, e.tokens * e.logit_stride, "logits");
  Block dy;
  {
    FullRows full(c, normed);
    head_logits(c, logits, full.data(), weights.of_table());
    cross_entropy(c, logits, targets, loss_scale);
    Block partial = c.values(MemoryClass::workspace, e.tokens * e.hidden, "partial gradient");
    head_input_gradient(c, partial, logits, weights.of_table());
    // Summed over tp while the weights' gradient is computed.
    RowSum sum(c, std::move(partial), MemoryClass::workspace, "norm gradient");
    head_weight_gradient(c, gradients, logits, full.data());
    dy = sum.take();
  }
  logits.reset();
  normed.reset();
  Block stream = c.values(MemoryClass::activations, e.rows * e.hidden, "gradient stream");
  c.device.zero(stream.data(), stream.bytes());
  if (gradients.norm.fresh) c.device.zero(gradients.of_norm(), c.gradient_bytes(e.hidden));
  c.device.rms_norm_backward(
      {stream.data(), gradients.of_norm(), residual.data(), weights.of_norm(), dy.data()}, e.rows,
      e.hidden);
  return stream;
}

}  // namespace shardbench
