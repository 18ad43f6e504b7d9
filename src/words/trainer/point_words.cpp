// SPDX-License-Identifier: Apache-2.0
#include "trainer/point_words.hpp"

#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <variant>

namespace shardsweep {
namespace {

/// Field of a trainer's layout for an axis.
struct TrainerAxis {
  std::string_view axis;
  std::variant<std::int64_t TrainerLayout::*, std::string TrainerLayout::*, bool TrainerLayout::*>
      field;
};
using Fields = TrainerLayout;
constexpr std::array<TrainerAxis, 22> trainer_axes{{{"dp", &Fields::dp}, {"tp", &Fields::tp},
    {"pp", &Fields::pp}, {"cp", &Fields::cp}, {"ep", &Fields::ep}, {"vpp", &Fields::vpp},
    {"dp_replicate", &Fields::dp_replicate}, {"micro_batch", &Fields::micro_batch},
    {"grad_accum", &Fields::grad_accum}, {"seq_len", &Fields::seq_len}, {"zero", &Fields::zero},
    {"recompute", &Fields::recompute}, {"schedule", &Fields::schedule},
    {"cp_mode", &Fields::cp_mode}, {"rank_order", &Fields::rank_order},
    {"sequence_parallel", &Fields::sequence_parallel}, {"overlap", &Fields::overlap},
    {"expert_tp", &Fields::expert_tp}, {"first_stage_layers", &Fields::first_stage_layers},
    {"last_stage_layers", &Fields::last_stage_layers}, {"cuda_graphs", &Fields::cuda_graphs},
    {"offload", &Fields::offload}}};
constexpr bool trainer_axes_exist() {
  return std::all_of(trainer_axes.begin(), trainer_axes.end(), [](const TrainerAxis& one) {
    return std::any_of(axis_table.begin(), axis_table.end(),
        [&](const AxisInfo& axis) { return axis.name == one.axis; });
  });
}
static_assert(trainer_axes_exist());

const TrainerAxis* find_trainer_axis(std::string_view name) {
  const auto* found = std::find_if(trainer_axes.begin(), trainer_axes.end(),
      [name](const TrainerAxis& one) { return one.axis == name; });
  return found == trainer_axes.end() ? nullptr : found;
}

void set_field(
    TrainerLayout& layout, const TrainerAxis& of, const AxisInfo& axis, std::int64_t value) {
  std::visit(
      [&](auto field) {
        using Field = std::remove_reference_t<decltype(layout.*field)>;
        if constexpr (std::is_same_v<Field, std::string>) {
          layout.*field = axis_text(axis, value);
        } else {
          layout.*field = static_cast<Field>(value);
        }
      },
      of.field);
}

std::string field_text(const TrainerLayout& layout, const TrainerAxis& of, const AxisInfo& axis) {
  return std::visit(
      [&](auto field) -> std::string {
        using Field = std::remove_cv_t<std::remove_reference_t<decltype(layout.*field)>>;
        if constexpr (std::is_same_v<Field, std::string>) {
          return layout.*field;
        } else {
          return axis_text(axis, static_cast<std::int64_t>(layout.*field));
        }
      },
      of.field);
}

}  // namespace

TrainerLayout layout_of_point(const Point& point, const ModelSpec& model) {
  // Where one rank has whole sequences, or all stages, some words say the same.
  Point same = point;
  auto& is = same.layout;
  if (is.cp <= 1) is.cp_mode = ContextMode{};
  const bool pp_before_dp =
      is.rank_order == RankOrder::tp_pp_dp || is.rank_order == RankOrder::tp_cp_pp_dp;
  if (is.pp == 1 && pp_before_dp) is.rank_order = RankOrder{};
  if (is.expert_tp == is.tp) is.expert_tp = 0;
  TrainerLayout layout;
  for (const auto& one : trainer_axes) {
    const AxisInfo& axis = *find_axis(one.axis);
    set_field(layout, one, axis, axis.get(same));
  }
  layout.layers = model.layers;
  layout.experts = model.experts;
  return layout;
}

std::string rule_against_point(
    std::string_view trainer, const Point& point, const ModelSpec& model) {
  Placeholders values{{"global_batch", std::to_string(point.layout.global_batch())}};
  for (const AxisInfo& axis : axis_table) {
    if (axis.kind != AxisKind::model) values.emplace(axis.name, axis_text(axis, axis.get(point)));
  }
  for (const auto& field : shape_fields)
    values.emplace(field.name, std::to_string(model.*field.member));
  return std::string(rule_against(trainer, values));
}

Result<std::string> configuration_of_point(
    std::string_view trainer, const Point& point, const ModelSpec& model) {
  auto text = configuration_of(trainer, layout_of_point(point, model));
  if (!text) return text;
  auto why = rule_against_point(trainer, point, model);
  if (!why.empty()) return fault(FaultKind::invalid_input, std::move(why));
  return text;
}

std::optional<std::string> axis_text_of(const TrainerLayout& layout, const AxisInfo& axis) {
  const auto* field = find_trainer_axis(axis.name);
  if (field == nullptr) return std::nullopt;
  return field_text(layout, *field, axis);
}

void set_axis(TrainerLayout& layout, const AxisInfo& axis, std::int64_t value) {
  if (const auto* field = find_trainer_axis(axis.name)) set_field(layout, *field, axis, value);
}

std::string axis_without_words(const Point& point) {
  for (const AxisInfo& axis : axes()) {
    if (!axis.of_layout() || find_trainer_axis(axis.name) != nullptr) continue;
    const auto value = axis.get(point);
    if (value != axis.default_value) return fmt::format("{} {}", axis.name, axis_text(axis, value));
  }
  return {};
}

}  // namespace shardsweep
