// SPDX-License-Identifier: Apache-2.0
// What a new sweep of somebody else's trainer begins with: how it is started, told every axis
// of the file, and kept from what a benchmark does not want (data, evaluation, checkpoints).
#pragma once

#include <shardsweep/result.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Name of one of our models in a trainer that holds models itself.
struct StartRecipe {
  std::string model, name;
};

/// The section `start` of a trainer's file.
struct TrainerStart {
  std::string name;         ///< name as in `log`
  std::string written_for;  ///< versions
  std::string data;         ///< source of its samples
  std::string constants;    ///< lines of their own beside dtype, length and batch
  std::string zero;         ///< values of the axis
  std::string recompute;    ///< values of the axis; empty: it is none of its axes
  std::string axes;         ///< lines of their own
  /// `runner`, `env` and further lines, with @RECIPE@ if the trainer holds models itself, and
  /// @LAYOUT@ if its words of a layout have a table (layout_words.hpp).
  std::string rest;
  std::vector<StartRecipe> recipes;
  bool spreads_experts = false;  ///< a model with experts gets the axes ep, expert_tp and cp
  // Degrees that it has.
  bool has_tp = true;
  bool has_pp = true;

  [[nodiscard]] bool has_recipes() const { return !recipes.empty(); }
  /// True if each value of a degree reaches the trainer, and trains.
  [[nodiscard]] bool tells(std::string_view degree) const;
};

/// Starts that `new --trainer` knows.
[[nodiscard]] std::span<const TrainerStart> trainer_starts();
/// A fault names those that there are.
[[nodiscard]] Result<const TrainerStart*> find_trainer_start(std::string_view name);
/// Presets that it has a recipe of; empty: it takes any model.
[[nodiscard]] std::vector<std::string_view> models_of(const TrainerStart& start);
/// `rest` for a model, complete. A fault: the trainer has no recipe of it, and which it has.
[[nodiscard]] Result<std::string> rest_of(const TrainerStart& start, std::string_view model);

}  // namespace shardsweep
