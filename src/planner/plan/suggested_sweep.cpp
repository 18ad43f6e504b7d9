// SPDX-License-Identifier: Apache-2.0
#include "plan/suggested_sweep.hpp"

#include "sweep/key_text.hpp"

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
                     [&](const SuggestedLayout& layout) {
                       return axis.get(layout.point) != axis.default_value;
                     });
}

/// Values of an axis in the suggested layouts; of a degree also half and double of the best's.
std::vector<std::string> neighbours(const Suggestion& suggestion, const AxisInfo& axis,
                                    std::int64_t most) {
  std::set<std::int64_t> values;
  for (const auto& layout : suggestion.layouts)
    values.insert(axis.get(layout.point));
  if (most > 0) {
    const auto best = axis.get(suggestion.layouts.front().point);
    if (best > 1) values.insert(best / 2);
    if (2 * best <= most) values.insert(2 * best);
  }
  std::vector<std::string> words;
  words.reserve(values.size());
  for (const auto value : values) {
    words.push_back(axis.kind == AxisKind::word ? axis_text(axis, value)
                                                : fmt::to_string(value));
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
    text +=
        fmt::format("  {}: {}\n", lock.axis->name, axis_text(*lock.axis, lock.values.front()));
  return text;
}

/// As names of sweeps and models are: letters, digits, dots, dashes and underscores.
std::string safe_model_name(std::string_view name) {
  std::string safe;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    safe += plain ? c : '-';
  }
  return safe.empty() ? "model" : safe;
}

}  // namespace

std::string suggested_sweep(const SuggestRequest& request, const Suggestion& suggestion,
                            std::string_view model, std::string_view cluster) {
  const auto& best = suggestion.layouts.front().point;
  const auto& dtype = *find_axis("dtype");
  const std::string name =
      model.empty() ? safe_model_name(request.model.name) : std::string(model);
  std::string text = fmt::format(
      "# The layouts that `shardsweep suggest` predicts to be fastest, and their neighbours.\n"
      "# See what would run: shardsweep plan FILE. Run it: shardsweep run FILE.\n"
      "name: suggested-{}\n"
      "cluster: {}\n"
      "{}"
      "constants:\n"
      "  model: {}\n"
      "  dtype: {}\n"
      "  seq_len: {}\n"
      "  global_batch_tokens: {}\n"
      "  {}: {}\n"
      "{}"
      "axes:\n",
      name, cluster.empty() ? config::map_text(request.cluster) : std::string(cluster),
      model.empty() ? fmt::format("models:\n  {}: {}\n", name, config::map_text(request.model))
                    : std::string(),
      name, axis_text(dtype, dtype.get(best)), request.seq_len, request.global_batch_tokens,
      request.nodes > 0 ? "nodes" : "gpus", request.nodes > 0 ? request.nodes : request.gpus,
      locked_constants(request));
  for (const auto* axis : axes_with<AxisUse::suggested>) {
    // Of short sequences and dense models cp and ep say nothing.
    const bool always = axis->is(AxisUse::spelt) || !axis->is(AxisUse::degree);
    if (is_locked(request, *axis) || axis->allows_auto ||
        (!always && !varies(suggestion, *axis)))
      continue;
    const auto most = most_worth_trying(request, *axis);
    text += fmt::format("  {}: [{}]\n", axis->name,
                        fmt::join(neighbours(suggestion, *axis, most), ", "));
  }
  if (!is_locked(request, *find_axis("dp")))
    text += "  dp: auto           # what is left of the GPUs\n";
  if (!is_locked(request, *find_axis("grad_accum")))
    text += "  grad_accum: auto   # what the global batch needs\n";
  return text +
         "search:              # remove it to measure every layout\n"
         "  policy: best_first\n"
         "  until: {regret: 2%, confidence: 95%}\n";
}

}  // namespace shardsweep
