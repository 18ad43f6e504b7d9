// SPDX-License-Identifier: Apache-2.0
// Models and clusters: written out in a sweep file, or presets that it names. Presets come with
// the program, built in, so that a copied program needs no files beside it; a file of the same
// name in the user's folder goes before them.
#pragma once

#include "trainer/trainer_file.hpp"
#include "yaml/mistakes.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::config {

// A trainer that is not built in: a file as those of sweeps/trainers, which a sweep names in `log`.
// Its patterns and exclusions become the sweep's own, so that a sweep that is stored needs the file
// no more.

struct OwnTrainer {
  std::string path;
  TrainerFile file;
  std::vector<SourcePosition> positions;  ///< positions of file.rules
};

/// Empty if it has mistakes.
[[nodiscard]] std::optional<OwnTrainer> read_own_trainer(const YamlNode& root, Mistakes& mistakes);

/// `folder`/`path`, else `root`/`path` of what is built in. `root` is sweeps or templates.
[[nodiscard]] Result<ShippedFile> read_shipped(
    const std::filesystem::path& folder, std::string_view root, const std::filesystem::path& path);

/// Names of the .yaml files in `kind`, of the folder and built in, sorted, each once. `kind` is
/// models, clusters, or empty for sweeps.
[[nodiscard]] std::vector<std::string> shipped_names(
    const std::filesystem::path& folder, std::string_view kind);

/// Built-in presets, and before them a folder with clusters/ and models/; `sources` owns the files
/// it reads.
class Presets {
 public:
  /// Notes mistakes in names and files in `mistakes`.
  Presets(std::filesystem::path folder, Sources& sources, Mistakes& mistakes)
      : folder_(std::move(folder)), sources_(sources), mistakes_(mistakes) {}

  /// `node` names the model, or a file that holds what a model of `models:` may hold:
  /// `./mine.yaml`, or Hugging Face's config.json. None if there is no such preset, or it has
  /// mistakes.
  [[nodiscard]] std::optional<ModelSpec> model(const YamlNode& node) const;
  /// Or a file that holds what a `cluster:` map may hold: `calibrated/h100.yaml`.
  [[nodiscard]] std::optional<ClusterSpec> cluster(const YamlNode& node) const;
  /// A file as those of sweeps/trainers: `./mine.yaml`.
  [[nodiscard]] std::optional<OwnTrainer> trainer(const YamlNode& node) const;
  [[nodiscard]] Mistakes& mistakes() const { return mistakes_; }

 private:
  [[nodiscard]] std::optional<ClusterSpec> cluster_in_file(const YamlNode& node) const;
  /// The map in the file that a node names.
  [[nodiscard]] std::optional<YamlNodePtr> file_root(
      const YamlNode& node, std::string_view what) const;
  [[nodiscard]] std::optional<YamlNodePtr> open(const YamlNode& node, std::string_view kind) const;

  std::filesystem::path folder_;
  Sources& sources_;
  Mistakes& mistakes_;
};

/// Empty if it has mistakes.
[[nodiscard]] std::optional<ModelSpec> read_model(
    const YamlNode& map, const std::string& name, Mistakes& mistakes);
/// A preset's name, a file, or a map: with `preset`, what differs from it; else all of it.
[[nodiscard]] std::optional<ClusterSpec> read_cluster(const YamlNode& node, const Presets& presets);

}  // namespace shardsweep::config
