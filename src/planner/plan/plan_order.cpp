// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_order.hpp"

#include "search/cell_search.hpp"
#include "search/sweep_search.hpp"

#include <map>

namespace shardsweep {

std::vector<std::size_t> best_first_order(
    const SweepSpec& sweep, const Predictor& predictor, const std::vector<LaneEntry>& entries,
    const std::function<const Point&(const LaneEntry&)>& read) {
  const auto model_of = [&](const Point& point) -> const ModelSpec& {
    return sweep.models.at(static_cast<std::size_t>(point.model));
  };
  std::map<CellKey, std::vector<std::size_t>> cells;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& point = read(entries[i]);
    cells[cell_of(model_of(point), point)].push_back(i);
  }
  std::vector<std::size_t> order;
  order.reserve(entries.size());
  for (const auto& [key, members] : cells) {
    // One cell at a time: a search keeps much more of a point than a plan does.
    CellSearch search(sweep.search, sweep.cluster, predictor);
    for (const auto i : members) {
      const auto& point = read(entries[i]);
      search.add({.model = model_of(point), .point = point, .traits = {}});
    }
    for (const auto number : search.order())
      order.push_back(members[number]);
  }
  return order;
}

}  // namespace shardsweep
