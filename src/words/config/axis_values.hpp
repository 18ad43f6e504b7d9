// SPDX-License-Identifier: Apache-2.0
// Values of axes, by the table of axes: one, a list, or `auto`.
#pragma once

#include "config/presets.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/sweep.hpp>

#include <optional>
#include <string_view>
#include <vector>

namespace shardsweep::config {

/// The models of a sweep, each once: those that the file writes out, then presets as they are
/// named.
class ModelShelf {
 public:
  ModelShelf(const Presets& presets, std::vector<ModelSpec>& models)
      : presets_(presets), models_(models) {}
  /// The index of the model that `node` names; none where there is no such model, or its preset
  /// has mistakes.
  [[nodiscard]] std::optional<std::int64_t> index(const YamlNode& node);

 private:
  const Presets& presets_;
  std::vector<ModelSpec>& models_;
};

/// An entry of a map whose keys are axes.
struct AxisEntry {
  const AxisInfo* axis;
  const YamlNode* key;
  const YamlNode* value;
};

/// The entries of `map` in its order; other trainers' names are understood. A key that is in
/// `others` is passed over; any other key is a mistake.
[[nodiscard]] std::vector<AxisEntry> axis_entries(const YamlNode& map, std::string_view what,
                                                  const std::vector<std::string_view>& others,
                                                  Mistakes& mistakes);

/// One value, or `auto`; none where it has a mistake.
[[nodiscard]] std::optional<AxisValues> read_axis_setting(const AxisInfo& axis,
                                                          const YamlNode& node,
                                                          ModelShelf& models,
                                                          Mistakes& mistakes);

enum class Repeats : std::uint8_t { refused, allowed };
/// A list of different values, a single one, or `auto`; none where it has a mistake.
[[nodiscard]] std::optional<AxisValues> read_axis_values(const AxisInfo& axis,
                                                         const YamlNode& node,
                                                         ModelShelf& models, Mistakes& mistakes,
                                                         Repeats repeats = Repeats::refused);

/// "unknown axis 'x', did you mean …": for a word that is not an axis.
[[nodiscard]] std::string unknown_axis(std::string_view word, std::string_view what,
                                       const std::vector<std::string_view>& others);

}  // namespace shardsweep::config
