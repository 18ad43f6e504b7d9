// SPDX-License-Identifier: Apache-2.0
// The model once more, as naive loops over whole tensors in double: an oracle that shares no
// code with the kernels, the layers or the trainer.
#pragma once

#include "model/model_shape.hpp"

#include <map>
#include <vector>

namespace shardbench {

/// Whole tensors, row-major, by TensorRegion::tensor.
using ScalarWeights = std::map<u64, std::vector<double>>;

/// Sum of the token losses of one sample of seq_len + 1 tokens, with that for balance between
/// experts times its coefficient.
double scalar_loss(const ModelShape& shape, const ScalarWeights& weights,
    const std::vector<std::int32_t>& tokens, double balance);

}  // namespace shardbench
