// SPDX-License-Identifier: Apache-2.0
#include "search/memory_order.hpp"

namespace shardsweep {

MemoryNeed memory_need(const Predictor& predictor, const ModelSpec& model, const Point& point,
                       const RunTraits& traits) {
  const auto& layout = point.layout;
  MemoryNeed need;
  need.pipeline = layout.pp > 1;
  need.tensor = layout.tp > 1;
  need.steady = layout.grad_accum > layout.pp;
  const auto stages = predictor.stage_memory(model, point, traits);
  for (std::size_t end = 0; end < stages.size(); ++end)
    need.stages.at(end) = {stages.at(end).lower_bytes, stages.at(end).bytes};
  if (need.pipeline && stages[1].bytes > stages[0].bytes) need.worst = MemoryNeed::last;
  return need;
}

bool needs_as_much(const MemoryNeed& b, const MemoryNeed& a) {
  if (a.pipeline != b.pipeline) return false;
  if ((a.tensor && !b.tensor) || (a.steady && !b.steady)) return false;
  const auto& mine = b.stages.at(a.worst);
  const auto& others = a.stages.at(a.worst);
  return mine.lower >= others.lower && mine.estimate >= others.estimate;
}

}  // namespace shardsweep
