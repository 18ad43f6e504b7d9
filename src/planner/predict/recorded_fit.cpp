// SPDX-License-Identifier: Apache-2.0
#include "predict/recorded_fit.hpp"

#include <algorithm>

namespace shardsweep {

RunTraits traits_of(const RecordedRun& run) {
  auto traits = traits_of_kernel(run.kernel);
  traits.peak_stage = run.peak_stage;
  traits.recompute_layers = run.recompute_layers;
  traits.recompute_by_block = run.recompute_by_block;
  return traits;
}

Point point_at_best(const RecordedRun& run) {
  Point point = run.point;
  Layout& layout = point.layout;
  if (run.unknown.sequence_parallel) layout.sequence_parallel = layout.tp > 1;
  if (run.unknown.zero) layout.zero = layout.dp > 1 ? 3 : 0;
  if (run.unknown.recompute) layout.recompute = Recompute::full;
  if (layout.cp > 1) {
    point.seq_len = std::max(1, point.seq_len / layout.cp);
    layout.cp = 1;
  }
  return point;
}

Fit recorded_fit(const Predictor& predictor, const ModelSpec& model, const RecordedRun& run,
                 const RunTraits& traits) {
  return predictor.guess_memory(model, point_at_best(run), traits).fit;
}

}  // namespace shardsweep
