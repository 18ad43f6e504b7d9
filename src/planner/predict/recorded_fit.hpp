// SPDX-License-Identifier: Apache-2.0
// The memory verdict on a row of somebody's table, which may not say all that memory depends
// on.
#pragma once

#include "predict/predictor.hpp"

#include <shardsweep/recorded.hpp>

namespace shardsweep {

/// What a row says of its run that is no axis: its kernel, how it recomputes, whose peak it
/// has.
[[nodiscard]] RunTraits traits_of(const RecordedRun& run);

/// The row's point where what it does not say is at its best for memory: sequence parallelism
/// beside TP, ZeRO 3 over its DP ranks, full recompute. Of a sample that is split over context
/// parallel ranks one rank's part remains: the families know no such ranks.
[[nodiscard]] Point point_at_best(const RecordedRun& run);

/// `never` only where not even that point fits.
[[nodiscard]] Fit recorded_fit(const Predictor& predictor, const ModelSpec& model,
                               const RecordedRun& run, const RunTraits& traits);

}  // namespace shardsweep
