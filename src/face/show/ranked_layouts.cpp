// SPDX-License-Identifier: Apache-2.0
#include "show/ranked_layouts.hpp"

#include <shardsweep/typed_rows.hpp>

#include <algorithm>
#include <utility>

namespace shardsweep {

LayoutSpeed RankedLayout::speed(double factor) const {
  return {.value = tokens_per_s_per_gpu * factor,
      .runs = std::max<std::int64_t>(repeats, 1),
      .spread = repeat_spread,
      .resolution = resolution,
      .sm_clock_mhz = sm_clock_mhz,
      .step_noise = step_noise_of(step_spread, steps),
      .others_cpu = others_cpu};
}

RankedLayouts ranked_layouts(Table table) {
  RankedLayouts all;
  const auto fields = columns_named<RankedLayout>();
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (std::find(fields.begin(), fields.end(), table.columns[i]) != fields.end()) continue;
    places.push_back(i);
    all.settings.push_back(table.columns[i]);
  }
  for (const auto& field : fields) {
    if (std::find(table.columns.begin(), table.columns.end(), field) == table.columns.end())
      table.columns.push_back(field);
  }
  for (auto& row : table.rows)
    row.resize(table.columns.size());
  all.rows = typed_rows<RankedLayout>(table);
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    for (const auto place : places)
      all.rows[i].settings.push_back(std::move(table.rows[i][place]));
  }
  return all;
}

}  // namespace shardsweep
