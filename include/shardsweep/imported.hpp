// SPDX-License-Identifier: Apache-2.0
// Trials from a table of runs, on their way into the database: a submission whose trials have
// ended already.
#pragma once

#include <shardsweep/outcome.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/table.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace shardsweep {

struct ImportedTrial {
  Point point;
  TrialNames names;
  Prediction prediction;  ///< zeros if the trainer's family is unknown
  Outcome outcome = Outcome::completed;
  std::string cause;                                   ///< place in the table
  std::string runner_version;                          ///< version of the software, as the table
                                                       ///< has it
  std::map<std::string, double, std::less<>> metrics;  ///< values by MetricInfo::name
  std::vector<Value> labels;                           ///< one per ImportedSweep::labels
};

struct ImportedSweep {
  SweepSpec sweep;  ///< name, cluster, models and runner
  std::string source;
  std::vector<std::string> labels;  ///< columns of `results`, beside our own
  std::string flops_model;          ///< model of FLOPs behind each mfu
  std::vector<ImportedTrial> trials;
};

/// Fills `file` (new), an inbox as write_inbox makes it. A repeated import adds nothing: its trials
/// are known by their identities.
[[nodiscard]] Result<void> write_imported(
    const std::filesystem::path& file, const ImportedSweep& imported);

}  // namespace shardsweep
