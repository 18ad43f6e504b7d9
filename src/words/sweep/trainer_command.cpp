// SPDX-License-Identifier: Apache-2.0
// Placeholders are filled in twice: here with all that the point says, and on the node with
// what only a rank knows. What a rank fills in stays as it is until then. Both tables are also
// what the reference and the check of a sweep file read, so that no name is known to one of
// them alone.
#include "sweep/trainer_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace shardsweep {
namespace {

constexpr auto of_run = std::to_array<PlaceholderInfo>({
    {"global_batch", "samples of a train step: dp x micro_batch x grad_accum"},
    {"tied_embeddings", "true if input and output embeddings are one matrix"},
    {"gpus_per_node", "ranks on each node"},
    {"warmup", "train steps before the timed ones (measure.warmup)"},
    {"steps", "timed train steps (measure.steps)"},
    {"train_steps", "warmup + steps"},
    {"attempt_dir", "folder of the attempt, where 'files' are"},
});

constexpr auto of_rank = std::to_array<PlaceholderInfo>({
    {"rank", "rank's number; with 'launch: node' that of its node's first rank"},
    {"local_rank", "its number on its node"},
    {"node_rank", "number of its node"},
    {"master_addr", "host of rank 0"},
    {"master_port", "a free port there"},
});

std::string text_of(const AxisInfo& axis, const SweepSpec& sweep, const Point& point) {
  if (axis.kind == AxisKind::model)
    return sweep.models.at(static_cast<std::size_t>(point.model)).name;
  return axis_text(axis, axis.get(point));
}

std::int32_t nodes_of(const Point& point, std::int32_t ranks_per_node) {
  return (static_cast<std::int32_t>(point.layout.world()) + ranks_per_node - 1) / ranks_per_node;
}

}  // namespace

Placeholders placeholder_values(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node) {
  Placeholders values;
  for (const AxisInfo& axis : axes())
    values.insert_or_assign(std::string(axis.name), text_of(axis, sweep, point));
  for (std::size_t i = 0; i < sweep.vars.size() && i < point.vars.size(); ++i)
    values.insert_or_assign(
        sweep.vars[i].name, sweep.vars[i].values.at(static_cast<std::size_t>(point.vars[i])));
  const auto put = [&](const char* name, std::int64_t value) {
    values.insert_or_assign(name, std::to_string(value));
  };
  const ModelSpec& model = sweep.models.at(static_cast<std::size_t>(point.model));
  for (const auto& field : shape_fields)
    values.insert_or_assign(std::string(field.name), std::to_string(model.*field.member));
  values.insert_or_assign("tied_embeddings", model.tied_embeddings ? "true" : "false");
  put("global_batch", point.layout.global_batch());
  // A world that is smaller than a node has nodes 0 as an axis.
  put("nodes", nodes_of(point, ranks_per_node));
  put("gpus", point.layout.world());
  put("gpus_per_node", ranks_per_node);
  put("warmup", sweep.measure.warmup);
  put("steps", sweep.measure.steps);
  put("train_steps", sweep.measure.warmup + sweep.measure.steps);
  values.insert_or_assign("attempt_dir", attempt_dir);
  return values;
}

std::vector<PlaceholderInfo> placeholder_table() {
  std::vector<PlaceholderInfo> table;
  for (const AxisInfo& axis : axes())
    table.push_back({axis.name, axis.meaning});
  for (const auto& field : shape_fields)
    table.push_back({field.name, field.meaning});
  table.insert(table.end(), of_run.begin(), of_run.end());
  table.insert(table.end(), of_rank.begin(), of_rank.end());
  return table;
}

std::string_view placeholder_for(std::string_view key) {
  if (key == "global_batch_size") return "global_batch";
  const AxisInfo* axis = find_axis(key);
  return axis == nullptr ? std::string_view() : axis->name;
}

bool is_of_rank(std::string_view placeholder) {
  return std::any_of(of_rank.begin(), of_rank.end(),
      [&](const PlaceholderInfo& one) { return one.name == placeholder; });
}

namespace {

/// Texts of the sweep that may have placeholders.
std::vector<std::string_view> texts_of(const SweepSpec& sweep) {
  const TrainerSpec& trainer = sweep.runner.trainer;
  std::vector<std::string_view> texts(trainer.argv.begin(), trainer.argv.end());
  for (const auto* named : {&trainer.files, &sweep.env}) {
    for (const auto& [name, text] : *named)
      texts.push_back(text);
  }
  texts.push_back(sweep.container.image);
  texts.push_back(trainer.directory);
  return texts;
}

/// Value of a part in the model of a trainer that is not told it; none: there is no usual one.
std::optional<std::int64_t> unsaid_value(const ShapeField& field, const ModelSpec& model) {
  if (field.name == "kv_heads") return model.heads;
  if (field.name == "head_dim" && model.heads > 0 && model.hidden % model.heads == 0)
    return model.hidden / model.heads;
  if (field.optional) return 0;
  return {};
}

}  // namespace

std::string untold_shape(const std::vector<std::string_view>& placeholders,
    const std::vector<std::string>& told, const ModelSpec& model) {
  const auto stands_in = [](std::string_view name, const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!stands_in("hidden", placeholders)) return {};  // a recipe holds the model
  const auto is_untold = [&](std::string_view name) {
    return !stands_in(name, placeholders) && !stands_in(name, told);
  };
  if (model.tied_embeddings && is_untold("tied_embeddings")) return "tied_embeddings";
  for (const ShapeField& field : shape_fields) {
    const std::int64_t value = model.*field.member;
    const auto unsaid = unsaid_value(field, model);
    if (unsaid && value != *unsaid && value != 0 && is_untold(field.name))
      return fmt::format("{} {}", field.name, value);
  }
  return {};
}

std::string untold_shape(const SweepSpec& sweep) {
  if (!sweep.runner.is_trainer()) return {};
  std::vector<std::string_view> names;
  for (const std::string_view text : texts_of(sweep)) {
    const auto more = placeholders_in(text);
    names.insert(names.end(), more.begin(), more.end());
  }
  for (const ModelSpec& model : sweep.models) {
    const std::string what = untold_shape(names, sweep.runner.trainer.told, model);
    if (!what.empty()) return fmt::format("{} of {}", what, model.name);
  }
  return {};
}

std::vector<std::string> placeholder_names(const SweepSpec& sweep, PlaceholderScope scope) {
  std::vector<std::string> names;
  for (const auto& one : placeholder_table())
    names.emplace_back(one.name);
  if (scope == PlaceholderScope::point) names.resize(names.size() - of_rank.size());
  for (const auto& var : sweep.vars)
    names.push_back(var.name);
  return names;
}

std::vector<std::string> trainer_command(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node) {
  return filled_words(sweep.runner.trainer.argv,
      placeholder_values(sweep, point, attempt_dir, ranks_per_node), DoubleBraces::keep);
}

namespace {

/// True if one of the texts that the trainer is started with fits.
template <typename Fits>
bool any_text(const SweepSpec& sweep, const Fits& fits) {
  const TrainerSpec& trainer = sweep.runner.trainer;
  const auto fits_in = [&](const auto& named) { return fits(named.second); };
  return std::any_of(trainer.argv.begin(), trainer.argv.end(), fits) ||
      std::any_of(trainer.files.begin(), trainer.files.end(), fits_in) ||
      std::any_of(sweep.env.begin(), sweep.env.end(), fits_in);
}
/// True if the trainer is told this value; its own printed value can then be compared.
bool is_told(const SweepSpec& sweep, std::string_view placeholder) {
  return any_text(sweep, [&](const std::string& text) {
    const auto names = placeholders_in(text);
    return std::find(names.begin(), names.end(), placeholder) != names.end();
  });
}
/// True if the number reaches the trainer at this point: another one gives another text. What a
/// condition keeps away from a model is a default there, and printed as such.
bool is_told_here(const SweepSpec& sweep, const Placeholders& values, std::string_view placeholder,
    std::int64_t number) {
  Placeholders others = values;
  others.insert_or_assign(std::string(placeholder), std::to_string(number + 1));
  return any_text(sweep, [&](const std::string& text) {
    return filled(text, values, DoubleBraces::keep) != filled(text, others, DoubleBraces::keep);
  });
}

/// Axes that TrainerRun has no field for, and what the model's shape is told by.
std::map<std::string, std::string> told_axes(const SweepSpec& sweep, const Point& point) {
  std::map<std::string, std::string> told;
  for (const AxisInfo& axis : axes()) {
    const bool has_field =
        axis.name == "dp" || axis.name == "tp" || axis.name == "pp" || axis.name == "cp";
    if (axis.of_layout() && !has_field && is_told(sweep, axis.name))
      told.emplace(axis.name, axis_text(axis, axis.get(point)));
  }
  const ModelSpec& model = sweep.models.at(static_cast<std::size_t>(point.model));
  const Placeholders values = placeholder_values(sweep, point, "", 1);
  for (const ShapeField& field : shape_fields) {
    const std::int64_t number = model.*field.member;
    // A dense model has 0 experts; other fields are 0 if another one gives them.
    const bool is_said = number > 0 || field.name == "experts";
    if (is_said && is_told(sweep, field.name) && is_told_here(sweep, values, field.name, number))
      told.emplace(field.name, std::to_string(number));
  }
  return told;
}

}  // namespace

TrainerRun trainer_run(const SweepSpec& sweep, const Point& point, const std::string& attempt_dir,
    std::int32_t ranks_per_node, std::int64_t parameters) {
  const TrainerSpec& trainer = sweep.runner.trainer;
  const Layout& layout = point.layout;
  const ModelSpec& model = sweep.models.at(static_cast<std::size_t>(point.model));
  return {.log = trainer.log,
      .patterns = trainer.patterns,
      .per_node = trainer.per_node,
      .directory = filled(trainer.directory,
          placeholder_values(sweep, point, attempt_dir, ranks_per_node), DoubleBraces::make_single),
      .warmup = sweep.measure.warmup,
      .steps = sweep.measure.steps,
      .dp = layout.dp,
      .tp = layout.tp,
      .pp = layout.pp,
      .cp = layout.cp,
      .seq_len = point.seq_len,
      .tokens_per_step = layout.global_batch() * point.seq_len,
      .vocab = is_told(sweep, "vocab") ? model.vocab : 0,
      .parameters = parameters,
      .unchecked = trainer.unchecked,
      .axes = told_axes(sweep, point)};
}

std::string image_of(const SweepSpec& sweep, const Point& point, const std::string& attempt_dir,
    std::int32_t ranks_per_node) {
  return filled(sweep.container.image,
      placeholder_values(sweep, point, attempt_dir, ranks_per_node), DoubleBraces::make_single);
}

std::map<std::string, std::string> point_env(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node) {
  const auto values = placeholder_values(sweep, point, attempt_dir, ranks_per_node);
  std::map<std::string, std::string> env;
  for (const auto& [name, text] : sweep.env)
    env.emplace(name, filled(text, values, DoubleBraces::make_single));
  return env;
}

bool computes(const SweepSpec& sweep) {
  const auto texts = texts_of(sweep);
  return std::any_of(texts.begin(), texts.end(), [](auto text) { return computes(text); });
}

Result<void> check_computed(
    const SweepSpec& sweep, const Point& point, std::int32_t ranks_per_node) {
  const auto values = placeholder_values(sweep, point, "attempt", ranks_per_node);
  for (const auto text : texts_of(sweep))
    SHARDSWEEP_TRY(check_computed(text, values));
  return {};
}

std::map<std::string, std::string> trainer_files(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node) {
  const auto values = placeholder_values(sweep, point, attempt_dir, ranks_per_node);
  std::map<std::string, std::string> files;
  for (const auto& [name, text] : sweep.runner.trainer.files)
    files.emplace(name, filled(text, values, DoubleBraces::make_single));
  return files;
}

}  // namespace shardsweep
