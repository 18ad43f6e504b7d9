// SPDX-License-Identifier: Apache-2.0
// Both ends of the model, cut along the vocabulary: embedding, and norm + head + cross entropy.
#pragma once

#include "rank_context.hpp"

namespace shardbench {

/// ids[tokens] → residual stream [rows, hidden].
Block embedding_forward(const RankContext& context, const UnitView& weights, const Block& ids);
void embedding_backward(const RankContext& context, const UnitView& gradients, const Block& ids,
                        const Block& stream);

struct HeadResult {
  Block stream;     // [rows, hidden]: gradient of the loss to the head's input
  double loss_sum;  // of all tokens of the micro-batch, not divided
};

/// Forward and backward of the head in one go, so that logits live for one micro-batch only.
/// `loss_scale`: 1 / tokens of the global batch, the one place where the mean is taken.
HeadResult head_pass(const RankContext& context, const UnitView& weights,
                     const UnitView& gradients, const Block& residual, const Block& targets,
                     double loss_scale);

}  // namespace shardbench
