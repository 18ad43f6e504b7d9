// SPDX-License-Identifier: Apache-2.0
#include "cli/rows_as_points.hpp"

#include <algorithm>

namespace shardsweep {

std::int64_t ResultRow::number(std::string_view column) const {
  const auto* value = std::get_if<std::int64_t>(&at(column));
  return value == nullptr ? 0 : *value;
}

std::string ResultRow::text(std::string_view column) const {
  const auto* value = std::get_if<std::string>(&at(column));
  return value == nullptr ? std::string() : *value;
}

double ResultRow::real(std::string_view column) const {
  const auto* value = std::get_if<double>(&at(column));
  return value == nullptr ? 0 : *value;
}

const Value& ResultRow::at(std::string_view column) const {
  static const Value none;
  const auto found = std::find(table_.columns.begin(), table_.columns.end(), column);
  return found == table_.columns.end()
             ? none
             : row_.at(static_cast<std::size_t>(found - table_.columns.begin()));
}

TrainerLayout layout_of_point(const Point& point) {
  const Layout& layout = point.layout;
  // Where one rank has whole sequences, or all stages, some words say the same.
  const auto cp_mode = layout.cp > 1 ? layout.cp_mode : ContextMode{};
  const bool pp_before_dp =
      layout.rank_order == RankOrder::tp_pp_dp || layout.rank_order == RankOrder::tp_cp_pp_dp;
  const auto order = layout.pp == 1 && pp_before_dp ? RankOrder{} : layout.rank_order;
  return {
      .dp = layout.dp,
      .tp = layout.tp,
      .pp = layout.pp,
      .cp = layout.cp,
      .ep = layout.ep,
      .vpp = layout.vpp,
      .dp_replicate = layout.dp_replicate,
      .micro_batch = layout.micro_batch,
      .grad_accum = layout.grad_accum,
      .seq_len = point.seq_len,
      .zero = layout.zero,
      .recompute = std::string(recompute_words.at(static_cast<std::size_t>(layout.recompute))),
      .schedule = std::string(schedule_words.at(static_cast<std::size_t>(layout.schedule))),
      .cp_mode = std::string(context_mode_words.at(static_cast<std::size_t>(cp_mode))),
      .rank_order = std::string(rank_order_words.at(static_cast<std::size_t>(order))),
      .sequence_parallel = layout.sequence_parallel};
}

std::vector<std::string> point_columns() {
  std::vector<std::string> columns{"sweep", "trial"};
  for (const AxisInfo& axis : axes())
    columns.emplace_back(axis.name);
  return columns;
}

std::optional<std::int64_t> axis_value(const AxisInfo& axis, const SweepSpec& sweep,
                                       const ResultRow& row) {
  const auto text = row.text(axis.name);
  if (axis.kind == AxisKind::model) {
    const auto found = std::find_if(sweep.models.begin(), sweep.models.end(),
                                    [&](const ModelSpec& one) { return one.name == text; });
    if (found == sweep.models.end()) return std::nullopt;
    return found - sweep.models.begin();
  }
  if (axis.kind == AxisKind::toggle && !text.empty()) return text == "true" || text == "on";
  if (axis.kind != AxisKind::word) return row.number(axis.name);
  const auto word = std::find(axis.words.begin(), axis.words.end(), text);
  if (word == axis.words.end()) return std::nullopt;
  return word - axis.words.begin();
}

}  // namespace shardsweep
