// SPDX-License-Identifier: Apache-2.0
// A sweep file to start from, as text with comments.
#pragma once

#include <shardsweep/model.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

struct NewSweep {
  std::string name;
  ClusterSpec cluster;
  std::vector<ModelSpec> models;     ///< presets, one at least
  bool whole_nodes = true;           ///< `worlds` counts nodes, else GPUs of one node
  std::vector<std::int64_t> worlds;  ///< one at least
};

/// Degrees and the global batch are chosen so that they fit the models and the worlds.
[[nodiscard]] std::string new_sweep_text(const NewSweep& sweep);

}  // namespace shardsweep
