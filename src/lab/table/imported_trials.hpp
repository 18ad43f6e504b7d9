// SPDX-License-Identifier: Apache-2.0
// Rows of somebody's table as trials of a sweep.
#pragma once

#include "predict/family.hpp"

#include <shardsweep/imported.hpp>
#include <shardsweep/recorded.hpp>

#include <string>
#include <vector>

namespace shardsweep {

/// Facts that a table lacks about itself.
struct ImportOptions {
  std::string name;  ///< name of the sweep
  ClusterSpec cluster;
  const Family* family = nullptr;   ///< family of the trainer; null: unknown, no predictions
  std::vector<std::string> labels;  ///< names for RecordedSweep::labels, label_names()
};

/// One trial per row. Rows of one layout, software version and kernel are its repeats, in the
/// table's order. mfu is computed anew for all of them, from one parameter count of the model,
/// flops_per_token() and the cluster's peak; without a peak there is none. Models of one name
/// whose shapes differ get names that say in what.
[[nodiscard]] ImportedSweep imported_trials(
    const RecordedSweep& recorded, const ImportOptions& options);

}  // namespace shardsweep
