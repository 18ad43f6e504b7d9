// SPDX-License-Identifier: Apache-2.0
// Port: files into values. Errors read `sweep.yaml:12:7: unknown key 'micro_batches', did you
// mean 'micro_batch'?` followed by the line and a caret.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Presets are built in. `<presets>/clusters/NAME.yaml` and `<presets>/models/NAME.yaml` go
/// before them.
struct LoadOptions {
  std::filesystem::path presets;
  std::vector<std::string> set;  ///< `axes.tp=2,4`, applied over the file
  /// The folder of our own programs. Given: `runner.program` has to be there, and becomes a
  /// path that holds on every node. Empty: it is taken as it stands.
  std::filesystem::path programs{};
};

[[nodiscard]] Result<SweepSpec> load_sweep(
    const std::filesystem::path& file, const LoadOptions& options);
/// The text of a sweep file, at most 4 MiB. Who keeps the text and reads the sweep from it has
/// one version of the file, whatever an editor writes meanwhile.
[[nodiscard]] Result<std::string> read_sweep_text(const std::filesystem::path& file);
/// Loads a sweep from text; `name` stands for the file in messages.
[[nodiscard]] Result<SweepSpec> load_sweep_text(
    std::string_view text, const std::string& name, const LoadOptions& options);
/// The daemon's own values: those of a sweep file's sections for it, as `daemon.tick=5s`.
[[nodiscard]] Result<Policy> load_policy(const std::vector<std::string>& set);
/// A cluster preset by its name, or a file.
[[nodiscard]] Result<ClusterSpec> load_cluster(
    const std::string& name, const std::filesystem::path& presets);
/// A model preset by its name, or a file.
[[nodiscard]] Result<ModelSpec> load_model(
    const std::string& name, const std::filesystem::path& presets);

/// The folder of a user's own settings: ~/.config/shardsweep, or in XDG_CONFIG_HOME.
[[nodiscard]] std::filesystem::path user_folder();
/// True if a text names a file, and nothing that is built in.
[[nodiscard]] bool is_file_name(std::string_view text);
/// A trainer's file of the user: `./mine.yaml` itself, or for a name that is not built in
/// trainers/NAME.yaml in user_folder(). Empty: there is none.
[[nodiscard]] std::filesystem::path own_trainer_file(std::string_view name);
struct TrainerFile;
/// The content of own_trainer_file(), with the patterns of the trainer that it extends.
[[nodiscard]] Result<TrainerFile> load_trainer(const std::string& name);

enum class PresetKind : std::uint8_t { model, cluster, sweep };
/// Names of the presets that are built in and of those in that folder, sorted.
[[nodiscard]] std::vector<std::string> preset_names(
    const std::filesystem::path& presets, PresetKind kind);
/// A file that comes with the program.
struct ShippedFile {
  std::string text;
  std::filesystem::path file;  ///< user's file that differs from the built-in one; empty: none
  [[nodiscard]] std::string where() const { return file.empty() ? "built in" : file.string(); }
};
/// Reads a preset from that folder, else the built-in one.
[[nodiscard]] Result<ShippedFile> read_preset(
    const std::filesystem::path& presets, PresetKind kind, const std::string& name);
/// Reads the job script's template: `templates`/`name`, else the built-in one.
[[nodiscard]] Result<ShippedFile> read_job_template(
    const std::filesystem::path& templates, const std::string& name);
/// Answer of this machine's sbatch about a long option.
struct OptionAnswer {
  std::optional<bool> takes;        ///< true: known; none: sbatch can't be asked here
  std::vector<std::string> listed;  ///< options in its help: one of them may have been meant
};
using AskSbatch = std::function<OptionAnswer(const std::string& option)>;
/// `ask`: is asked for each key of `slurm`, unless jobs go over slurmrestd. If it can't say,
/// a near miss of a well-known option is refused. Without it, as for a text that was checked
/// when it was stored, each name of the right form is taken.
[[nodiscard]] Result<SiteSpec> load_site(
    const std::filesystem::path& file, const AskSbatch& ask = {});
[[nodiscard]] Result<SiteSpec> load_site_text(
    std::string_view text, const std::string& name, const AskSbatch& ask = {});

/// Seconds of `30d`, `5min` or `250ms`, as in a sweep file; `name` says whose value it is.
[[nodiscard]] Result<double> parse_duration(std::string_view text, const std::string& name);

/// Prints the sweep as a complete sweep file: presets written out, every default in force, each
/// policy value with its reason as a comment. Loading it gives an equal SweepSpec (positions
/// apart); it is what the database keeps of a sweep and what `plan --explain` prints.
[[nodiscard]] std::string explain_sweep(const SweepSpec& sweep);
/// A cluster as a file that `cluster:` can name; loading it gives an equal one.
[[nodiscard]] std::string explain_cluster(const ClusterSpec& cluster);
/// A container's keys, as a sweep file has them; empty if it has none.
[[nodiscard]] std::string explain_container(const ContainerSpec& container);
/// Prints a site; loading it gives an equal SiteSpec (position apart). The database keeps it, so
/// that a daemon on any login node submits as the user's file said.
[[nodiscard]] std::string explain_site(const SiteSpec& site);

// Port: what sweep and site files may hold, from the tables that the loader reads by.

struct ReferenceTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// Tables of `keys`, `axes`, `units`, `placeholders`, `patterns`, `words`, `site` or `columns`, or
/// of a section or key of the sweep file; none for another word.
[[nodiscard]] std::vector<ReferenceTable> reference_of(std::string_view topic);
[[nodiscard]] std::string reference_markdown(const std::vector<ReferenceTable>& tables);
[[nodiscard]] std::string reference_text(const std::vector<ReferenceTable>& tables);

/// JSON Schema (draft 7) of the sweep file, for editors.
[[nodiscard]] std::string sweep_schema();
/// JSON Schema of a trainer's file.
[[nodiscard]] std::string trainer_schema();

}  // namespace shardsweep
