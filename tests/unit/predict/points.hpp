// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardsweep/point.hpp>

namespace shardsweep::testing {

/// On as many nodes of eight as it needs, with eight micro-batches.
inline Point point_of(
    std::int32_t dp, std::int32_t tp, std::int32_t pp, std::int32_t seq_len = 4096) {
  Point point;
  point.nodes = (dp * tp * pp + 7) / 8;
  point.gpus = dp * tp * pp;
  point.seq_len = seq_len;
  point.layout.dp = dp;
  point.layout.tp = tp;
  point.layout.pp = pp;
  point.layout.grad_accum = 8;
  return point;
}

}  // namespace shardsweep::testing
