// SPDX-License-Identifier: Apache-2.0
#include "plan/suggested_sweep.hpp"

#include "sweep/key_text.hpp"
#include "sweep/trainer_command.hpp"
#include "text/placeholders.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace shardsweep {
namespace {

bool varies(const Suggestion& suggestion, const AxisInfo& axis) {
  return std::any_of(suggestion.layouts.begin(), suggestion.layouts.end(),
      [&](const SuggestedLayout& layout) { return axis.get(layout.point) != axis.default_value; });
}

/// Values of an axis in the suggested layouts; of a degree also half and double of the best's.
std::set<std::int64_t> values_near(
    const Suggestion& suggestion, const AxisInfo& axis, std::int64_t most) {
  std::set<std::int64_t> values;
  for (const auto& layout : suggestion.layouts)
    values.insert(axis.get(layout.point));
  if (most > 0) {
    const auto best = axis.get(suggestion.layouts.front().point);
    if (best > 1) values.insert(best / 2);
    if (2 * best <= most) values.insert(2 * best);
  }
  return values;
}

std::vector<std::string> neighbours(
    const Suggestion& suggestion, const AxisInfo& axis, std::int64_t most) {
  std::vector<std::string> words;
  for (const auto value : values_near(suggestion, axis, most)) {
    words.push_back(axis.kind == AxisKind::word ? axis_text(axis, value) : fmt::to_string(value));
  }
  return words;
}

/// How large a value of an axis may be for double the best's to be worth a measurement; 0: it
/// has no such neighbours.
std::int64_t most_worth_trying(const SuggestRequest& request, const AxisInfo& axis) {
  const std::int64_t per_node = request.cluster.gpus_per_node;
  if (axis.name == "tp") return std::min<std::int64_t>(per_node, request.gpus);
  if (axis.name == "pp") return std::min<std::int64_t>(request.model.layers, request.gpus);
  if (axis.name == "cp") return request.gpus;
  if (axis.name == "ep") return std::min<std::int64_t>(request.model.experts, request.gpus);
  if (axis.name == "micro_batch") return request.global_batch_tokens / request.seq_len;
  return 0;
}

bool is_locked(const SuggestRequest& request, const AxisInfo& axis) {
  return std::any_of(request.locks.begin(), request.locks.end(),
      [&](const AxisValues& lock) { return lock.axis == &axis; });
}

std::string locked_constants(const SuggestRequest& request) {
  std::string text;
  for (const auto& lock : request.locks)
    text += fmt::format("  {}: {}\n", lock.axis->name, axis_text(*lock.axis, lock.values.front()));
  return text;
}

/// Replaces characters that names of sweeps and models can't have: letters, digits, dots, dashes
/// and underscores stay.
std::string safe_model_name(std::string_view name) {
  std::string safe;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
        c == '.' || c == '-' || c == '_';
    safe += plain ? c : '-';
  }
  return safe.empty() ? "model" : safe;
}

/// Layers of the first and the last stage with a number of stages.
struct StagesOf {
  std::int64_t pp = 1;
  ToldStages told;
};

/// Stages of the suggested layouts, and of all other values of pp in the file.
std::vector<StagesOf> all_stages(const SuggestRequest& request, const Suggestion& suggestion) {
  const bool any = std::any_of(suggestion.layouts.begin(), suggestion.layouts.end(),
      [](const auto& one) { return one.point.layout.has_uneven_stages(); });
  if (!any) return {};
  const auto& pp = *find_axis("pp");
  const auto most = is_locked(request, pp) ? 0 : most_worth_trying(request, pp);
  std::vector<StagesOf> all;
  for (const auto& one : suggestion.layouts) {
    const auto& is = one.point.layout;
    all.push_back({is.pp, {is.first_stage_layers, is.last_stage_layers}});
  }
  for (const auto value : values_near(suggestion, pp, most)) {
    if (std::none_of(all.begin(), all.end(), [&](const StagesOf& one) { return one.pp == value; }))
      all.push_back({value, told_stages(request, value, 1)});
  }
  return all;
}

/// Axes of stages with layers of their own; empty: pipelines are even.
std::string stages_text(const SuggestRequest& request, const Suggestion& suggestion) {
  std::set<std::int32_t> first;
  std::set<std::int32_t> last;
  for (const auto& one : all_stages(request, suggestion)) {
    first.insert(one.told.first);
    last.insert(one.told.last);
  }
  if (first.empty()) return {};
  return fmt::format("  first_stage_layers: [{}]\n  last_stage_layers: [{}]\n",
      fmt::join(first, ", "), fmt::join(last, ", "));
}

/// Rules that say which stages go with which pp, if layers that divide require it: rules without a
/// match cause warnings.
std::string stages_rules(const SuggestRequest& request, const Suggestion& suggestion) {
  const auto all = all_stages(request, suggestion);
  const auto is_even = [](const StagesOf& one) { return one.told.first + one.told.last == 0; };
  const auto divides = [&](const StagesOf& one) { return request.model.layers % one.pp == 0; };
  const bool some_even = std::any_of(all.begin(), all.end(), is_even);
  const bool is_said = std::all_of(
      all.begin(), all.end(), [&](const StagesOf& one) { return is_even(one) == divides(one); });
  if (!some_even || !is_said) return {};
  return "exclude:\n"
         "  - {when: \"(layers % pp = 0) = (first_stage_layers > 0)\", why: \"stages are even, or "
         "are told their layers\"}\n";
}

/// Axes that no grid of suggestions has, if a suggested layout is not at their default.
std::string other_axes(const SuggestRequest& request, const Suggestion& suggestion) {
  std::string text;
  for (const auto& axis : axes()) {
    const bool is_told = axis.name == "first_stage_layers" || axis.name == "last_stage_layers";
    if (!axis.of_layout() || axis.is(AxisUse::suggested) || is_told || is_locked(request, axis) ||
        !varies(suggestion, axis))
      continue;
    text +=
        fmt::format("  {}: [{}]\n", axis.name, fmt::join(neighbours(suggestion, axis, 0), ", "));
  }
  return text;
}

/// Section on the start of the family's trainer, told the axes above. If the trainer holds models
/// or recomputation itself, only its user knows those.
std::string runner_text(const SuggestRequest& request) {
  const auto trainer = request.family->words;
  if (trainer.empty()) return {};
  const auto start = find_trainer_start(trainer);
  if (start && !(*start)->has_recipes()) {
    std::string rest = *rest_of(**start, request.model.name);
    if (untold_shape(placeholders_in(rest), {}, request.model).empty())
      return "\n" + std::move(rest);
  }
  return fmt::format(
      "# Add how {} is started: 'shardsweep new --trainer {}' writes it.\n", trainer, trainer);
}

}  // namespace

std::string suggested_sweep(const SuggestRequest& request, const Suggestion& suggestion,
    std::string_view model, std::string_view cluster) {
  const auto& best = suggestion.layouts.front().point;
  const auto& dtype = *find_axis("dtype");
  const std::string name = model.empty() ? safe_model_name(request.model.name) : std::string(model);
  std::string text = fmt::format(
      "# The layouts that `shardsweep suggest` predicts to be fastest, and their neighbours.\n"
      "# See what would run: shardsweep plan FILE. Run it: shardsweep run FILE.\n"
      "name: suggested-{}\n"
      "cluster: {}\n"
      "{}constants:\n"
      "  model: {}\n"
      "  dtype: {}\n"
      "  seq_len: {}\n"
      "  global_batch_tokens: {}\n"
      "  {}: {}\n"
      "{}axes:\n",
      name, cluster.empty() ? config::map_text(request.cluster) : std::string(cluster),
      model.empty() ? fmt::format("models:\n  {}: {}\n", name, config::map_text(request.model))
                    : std::string(),
      name, axis_text(dtype, dtype.get(best)), request.seq_len, request.global_batch_tokens,
      request.nodes > 0 ? "nodes" : "gpus", request.nodes > 0 ? request.nodes : request.gpus,
      locked_constants(request));
  for (const auto* axis : axes_with<AxisUse::suggested>) {
    // Short sequences and dense models need no cp, ep or expert_tp.
    const bool always = axis->is(AxisUse::spelt) ||
        (!axis->is(AxisUse::degree) && !axis->is(AxisUse::optional_flag));
    if (is_locked(request, *axis) || axis->allows_auto || (!always && !varies(suggestion, *axis)))
      continue;
    const auto most = most_worth_trying(request, *axis);
    text += fmt::format(
        "  {}: [{}]\n", axis->name, fmt::join(neighbours(suggestion, *axis, most), ", "));
  }
  text += stages_text(request, suggestion) + other_axes(request, suggestion);
  if (!is_locked(request, *find_axis("dp")))
    text += "  dp: auto           # what is left of the GPUs\n";
  if (!is_locked(request, *find_axis("grad_accum")))
    text += "  grad_accum: auto   # what the global batch needs\n";
  return text +
      fmt::format(
          "measure:\n"
          "  finalists: {}       # layouts that run again, together, to confirm the fastest\n"
          "  first: {}           # timed train steps of a run; finals run all of them\n",
          Measure::usual_finalists, Measure::first_of_search) +
      "search:              # remove it to measure every layout\n"
      "  policy: best_first\n"
      "  until: {regret: 2%, confidence: 95%}\n" +
      stages_rules(request, suggestion) + runner_text(request);
}

}  // namespace shardsweep
