// SPDX-License-Identifier: Apache-2.0
// A trainer that is not built in: a file as those of sweeps/trainers, which a sweep names in `log`.
// What it says becomes the sweep's own patterns and exclusions, so that a sweep that is stored
// needs the file no more.
#pragma once

#include "trainer/trainer_file.hpp"
#include "yaml/mistakes.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/sweep.hpp>

#include <optional>
#include <string>
#include <vector>

namespace shardsweep::config {

struct OwnTrainer {
  std::string path;
  TrainerFile file;
  std::vector<SourcePosition> positions;  ///< positions of file.rules
};

/// Empty if it has mistakes.
[[nodiscard]] std::optional<OwnTrainer> read_own_trainer(const YamlNode& root, Mistakes& mistakes);

}  // namespace shardsweep::config
