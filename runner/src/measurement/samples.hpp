// SPDX-License-Identifier: Apache-2.0
// Training samples made from a key: sample i of train step s is the same in every layout.
//
// Half of the tokens follow from their predecessor, so that there is something to learn; the
// rest are random, so that the data is as expensive as real data.
#pragma once

#include "device/dtype.hpp"

#include <vector>

namespace shardbench {

struct SampleKey {
  u64 seed;
  i64 step;    // train step, warm-up included
  i64 sample;  // number within the global batch
};

/// seq_len + 1 tokens in [0, vocab): inputs are the first seq_len, targets the last.
std::vector<std::int32_t> make_sample(const SampleKey& key, i64 vocab, i64 seq_len);

}  // namespace shardbench
