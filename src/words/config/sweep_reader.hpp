// SPDX-License-Identifier: Apache-2.0
// A sweep file's tree into a SweepSpec, section by section. The parts share what they find out:
// where each axis was placed, which models there are, where the global batch stands. Each notes
// its mistakes and goes on; read() tells all of them.
#pragma once

#include "config/presets.hpp"
#include "sweep/trainer_command.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/sweep.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::config {

// Values of axes, by the table of axes: one, a list, or `auto`.

/// The models of a sweep, each once: those that the file writes out, then presets as they are
/// named.
class ModelShelf {
 public:
  ModelShelf(const Presets& presets, std::vector<ModelSpec>& models)
      : presets_(presets), models_(models) {}
  /// The index of the model that `node` names; none if there is no such model, or its preset
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
    const std::vector<std::string_view>& others, Mistakes& mistakes);

/// One value, or `auto`; none if it has a mistake.
[[nodiscard]] std::optional<AxisValues> read_axis_setting(
    const AxisInfo& axis, const YamlNode& node, ModelShelf& models, Mistakes& mistakes);

enum class Repeats : std::uint8_t { refused, allowed };
/// A list of different values, a single one, or `auto`; none if it has a mistake.
[[nodiscard]] std::optional<AxisValues> read_axis_values(const AxisInfo& axis, const YamlNode& node,
    ModelShelf& models, Mistakes& mistakes, Repeats repeats = Repeats::refused);

/// "unknown axis 'x', did you mean …": for a word that is not an axis.
[[nodiscard]] std::string unknown_axis(
    std::string_view word, std::string_view what, const std::vector<std::string_view>& others);

/// A var of this name would hide a column of ours, an axis or a word of SQL.
[[nodiscard]] bool is_reserved_name(std::string_view name);

/// Folders in which files and programs of a sweep file are looked for.
struct Places {
  std::filesystem::path folder;    ///< beginning of relative paths in the file
  std::filesystem::path programs;  ///< our own; empty: programs are not looked for
};

class SweepReader {
 public:
  /// Mistakes are noted in those of `presets`.
  SweepReader(Presets presets, Places places, Sources& sources)
      : presets_(std::move(presets)),
        mistakes_(presets_.mistakes()),
        folder_(std::move(places.folder)),
        programs_(std::move(places.programs)),
        sources_(sources),
        shelf_(presets_, sweep_.models) {}

  SweepReader(const SweepReader&) = delete;
  SweepReader& operator=(const SweepReader&) = delete;

  [[nodiscard]] Result<SweepSpec> read(const YamlNode& root);

 private:
  struct Placement {
    std::string_view section;
    const YamlNode* key;
  };

  // sweep_reader.cpp: the file as a whole
  void read_models(const YamlNode& root);
  void check_top_keys(const YamlNode& root);

  // grid.cpp: axes in constants, axes and zip
  void read_grid(const YamlNode& root);
  void read_constants(const YamlNode& map);
  void read_global_batch(const YamlNode& map);
  void read_axes(const YamlNode& map);
  void read_zips(const YamlNode& list);
  void read_zip(const YamlNode& map);
  void read_zip_axis(const AxisEntry& entry, ZipGroup& group);
  [[nodiscard]] Result<void> check_zip_rows(const ZipGroup& group, const AxisEntry& first) const;
  [[nodiscard]] Result<void> place(const AxisEntry& entry, std::string_view section);
  Result<void> check_world(const YamlNode& root) const;
  Result<void> check_auto() const;
  Result<void> check_tokens() const;
  void fill_defaults();
  [[nodiscard]] bool has_global_batch() const;

  // points.cpp: hand-picked ones and the free axes
  void read_vars(const YamlNode& map);
  void read_image_axis(const YamlNode& map);
  [[nodiscard]] VarValues read_var(const YamlNode& key, const YamlNode& value);
  void read_points(const YamlNode& list);
  void read_points_from(const YamlNode& node);
  void read_point(const YamlNode& map);
  /// The axes and vars of a point; `map` may have mistakes, which are noted.
  [[nodiscard]] PartialPoint read_settings(const YamlNode& map, std::string_view what);
  void read_control(const YamlNode& node);
  [[nodiscard]] Result<void> check_control(const PartialPoint& point, const YamlNode& node) const;
  void settle_network_probe(const YamlNode* control);
  Result<std::pair<std::string, std::string>> read_point_var(
      const YamlNode& key, const YamlNode& value) const;
  void inherit_single_values(PartialPoint& point) const;
  Result<void> check_world_of(const PartialPoint& point, const YamlNode& at) const;
  Result<void> complete_point(PartialPoint& point, const YamlNode& at) const;
  [[nodiscard]] std::vector<std::string_view> var_names() const;

  // trial_settings.cpp: how each point is measured
  void read_trial_settings(const YamlNode& root);
  void read_excludes(const YamlNode& list);
  void read_measure(const YamlNode& map);
  void read_search(const YamlNode& map);
  void shorten_first_runs(const YamlNode* measure);
  void read_env(const YamlNode& map);
  void read_secrets(const YamlNode& root);
  void read_sweep_container(const YamlNode& map);

  // runner.cpp: which program is measured
  void read_runner(const YamlNode& node);
  void read_proof(const YamlNode& root);
  void read_side_runs(const YamlNode& root);
  void read_remeasure(const YamlNode& root);
  void read_snapshot(const YamlNode& map);
  void read_hashes(const YamlNode& map);
  Result<std::string> read_program(const YamlNode& node) const;
  Result<std::string> read_profile(const YamlNode& node) const;

  // and a trainer as it is, in place of a program of the contract
  void read_trainer(const YamlNode& map);
  [[nodiscard]] std::string trainer_program(const std::string& word) const;
  void read_told(const YamlNode& map);
  void read_own_trainer(const YamlNode& node);
  void read_trainer_log(const YamlNode& map);
  void read_trainer_files(const YamlNode& map);
  [[nodiscard]] Result<std::string> read_template(const YamlNode& node);
  void check_placeholders_of(const YamlNode& map);
  void check_placeholders_in(const YamlNode& at, std::string_view text, PlaceholderScope scope);

  SweepSpec sweep_;
  Presets presets_;
  Mistakes& mistakes_;
  std::filesystem::path folder_;
  std::filesystem::path programs_;
  Sources& sources_;
  ModelShelf shelf_;
  std::map<const AxisInfo*, Placement> placed_;
  const YamlNode* batch_ = nullptr;  // the value of global_batch_tokens or _size
};

/// The sections of policy values: watch, retry and so on
[[nodiscard]] std::vector<std::string_view> policy_sections();
/// Reads those sections of a file; other values of `into` stay.
void read_policy(const YamlNode& root, Policy& into, Mistakes& mistakes);

/// A policy value as a sweep file writes it.
[[nodiscard]] std::string policy_text(const PolicyField& field, const Policy& policy);

[[nodiscard]] SourcePosition position_of(const YamlNode& node);

}  // namespace shardsweep::config
