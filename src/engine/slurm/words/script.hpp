// SPDX-License-Identifier: Apache-2.0
// The values of the job script's template: directives are validated words (a #SBATCH line is
// not read by a shell), everything in the body is quoted for one.
#pragma once

#include "slurm/words/shell_template.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <string>
#include <vector>

namespace shardsweep {

struct ScriptContext {
  std::string job_name;
  std::string agent;  ///< absolute path of shardsweep-agent
  AllocationPaths paths;
  std::int32_t nodes = 1;
  double time_limit_s = 0;             ///< wall time; 0: the partition's own
  std::vector<std::string> exclude{};  ///< nodes that it must not get
  std::string only_node{};             ///< the node that it must get; empty: any
};

/// A word of a #SBATCH line as it is, or a fault that says why it can't stand there. `what`
/// names it.
[[nodiscard]] Result<std::string> directive_value(std::string_view what,
                                                  const std::string& value);
/// A file for `--output`: Slurm replaces %j and the like in it, and %% stands for %.
[[nodiscard]] Result<std::string> output_value(const std::string& path);

/// Faults name the value that can't stand in a #SBATCH line and where it comes from.
[[nodiscard]] Result<TemplateValues> script_values(const SweepSpec& sweep, const SiteSpec& site,
                                                   const ScriptContext& context);

}  // namespace shardsweep
