// SPDX-License-Identifier: Apache-2.0
// Both ends of the model, cut along the vocabulary: embedding, and norm + head + cross entropy.
#pragma once

#include "parallel/rank_context.hpp"

namespace shardbench {

/// ids[tokens] → residual stream [rows, hidden].
Block embedding_forward(const RankContext& context, const UnitView& weights, const Block& ids);
void embedding_backward(
    const RankContext& context, const UnitView& gradients, const Block& ids, const Block& stream);

/// Final norm and the matrix of the logits, which is the embedding's if they are tied.
struct HeadViews {
  UnitView norm;
  UnitView table;
  TensorKind table_kind;
  void* of_norm() const { return norm.at(TensorKind::final_norm); }
  void* of_table() const { return table.at(table_kind); }
};

/// Forward and backward of the head in one go, so that logits live for one micro-batch only.
/// Returns [rows, hidden], the gradient of the loss to the head's input; the token losses are
/// added up by the device (take_loss).
/// `loss_scale`: 1 / tokens of the global batch, the one place where the mean is taken.
Block head_pass(const RankContext& context, const HeadViews& weights, const HeadViews& gradients,
    const Block& residual, const Block& targets, double loss_scale);

}  // namespace shardbench
