// SPDX-License-Identifier: Apache-2.0
// Job scripts: a strict, line-oriented template, and the values that go into it. No logic: a
// site can replace the template, and everything is computed before. Directives are validated
// words (a #SBATCH line is not read by a shell), everything in the body is quoted for one.
#pragma once

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Values for a template:
///   {{key}}    is replaced; the key must have a value
///   {{?key}}   on a line: the line vanishes where the key has no value (the mark itself
///   vanishes)
///   {{*key}}   on a line: the line is repeated for each element of a list
/// An unknown key and a value that no line uses are both errors.
struct TemplateValues {
  std::map<std::string, std::string, std::less<>> values;              ///< {{key}}, {{?key}}
  std::map<std::string, std::vector<std::string>, std::less<>> lists;  ///< {{*key}}
  std::vector<std::string> optional;  ///< keys that a template may leave unused or ask for in vain
};

/// `name` stands for the template in messages: "lane.sbatch:7: unknown key 'nods'".
[[nodiscard]] Result<std::string> render_template(
    std::string_view text, std::string_view name, const TemplateValues& values);

/// One word for a POSIX shell, whatever bytes it holds.
[[nodiscard]] std::string shell_quote(std::string_view word);
/// The words of a command, each quoted where it has to be.
[[nodiscard]] std::string shell_command(const std::vector<std::string>& argv);

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
[[nodiscard]] Result<std::string> directive_value(std::string_view what, const std::string& value);
/// A file for `--output`: Slurm replaces %j and the like in it, and %% stands for %.
[[nodiscard]] Result<std::string> output_value(const std::string& path);

/// The value of an option for an allocation of so many nodes; empty: the site does not say.
[[nodiscard]] std::string option_for(const std::vector<SlurmValue>& values, std::int32_t nodes);
/// Value of a site's option by the option's name.
[[nodiscard]] std::string site_value(
    const SiteSpec& site, const std::string& option, std::int32_t nodes);
/// GPUs that a job asks of each node, as generic resources: gpu:8. Empty: none, or another number.
[[nodiscard]] std::vector<SlurmValue> gpus_of_nodes(const SweepSpec& sweep, const SiteSpec& site);

/// Faults name the value that can't stand in a #SBATCH line and where it comes from.
[[nodiscard]] Result<TemplateValues> script_values(
    const SweepSpec& sweep, const SiteSpec& site, const ScriptContext& context);

}  // namespace shardsweep
