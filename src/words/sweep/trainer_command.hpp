// SPDX-License-Identifier: Apache-2.0
// How a point becomes the command line and the files of a trainer that knows nothing of us.
#pragma once

#include "text/placeholders.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardsweep {

/// Axes, vars, the model's shape, counts of the run and the attempt's folder; for a command
/// line besides what only a rank knows.
enum class PlaceholderScope : std::uint8_t { point, rank };
[[nodiscard]] std::vector<std::string> placeholder_names(
    const SweepSpec& sweep, PlaceholderScope scope);
[[nodiscard]] bool is_of_rank(std::string_view placeholder);
/// Placeholder for what a key or alias of the sweep file says; empty: none.
[[nodiscard]] std::string_view placeholder_for(std::string_view key);
/// Placeholders with their meaning, for help; vars are left out.
struct PlaceholderInfo {
  std::string_view name;
  std::string_view meaning;
};
[[nodiscard]] std::vector<PlaceholderInfo> placeholder_table();

/// Values of the placeholders at a point.
[[nodiscard]] Placeholders placeholder_values(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node);

/// argv of each rank (or node); what only a rank knows is still a placeholder.
[[nodiscard]] std::vector<std::string> trainer_command(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node);
/// How its log is read, and what it has to say. `parameters`: of the model; 0: not known.
[[nodiscard]] TrainerRun trainer_run(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node, std::int64_t parameters);
/// The image of its container, of a runner too.
[[nodiscard]] std::string image_of(const SweepSpec& sweep, const Point& point,
    const std::string& attempt_dir, std::int32_t ranks_per_node);
/// `env` of the sweep at a point.
[[nodiscard]] std::map<std::string, std::string> point_env(const SweepSpec& sweep,
    const Point& point, const std::string& attempt_dir, std::int32_t ranks_per_node);
/// Parts of a model that are off their default and that no placeholder passes on: "experts 8".
/// Empty: none, or the placeholders do not pass on the hidden size, so that the command has a
/// model of its own. `told`: parts that the trainer's program knows without being told.
[[nodiscard]] std::string untold_shape(const std::vector<std::string_view>& placeholders,
    const std::vector<std::string>& told, const ModelSpec& model);
/// Sizes of the first model of a sweep that its trainer is not told: "experts 8 of mixtral-8x7b".
[[nodiscard]] std::string untold_shape(const SweepSpec& sweep);
/// True if one of the sweep's texts computes.
[[nodiscard]] bool computes(const SweepSpec& sweep);
/// The first placeholder of the sweep that can't be computed at a point.
[[nodiscard]] Result<void> check_computed(
    const SweepSpec& sweep, const Point& point, std::int32_t ranks_per_node);
/// Names in the attempt's folder, and what is written there.
[[nodiscard]] std::map<std::string, std::string> trainer_files(const SweepSpec& sweep,
    const Point& point, const std::string& attempt_dir, std::int32_t ranks_per_node);

}  // namespace shardsweep
