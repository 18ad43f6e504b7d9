// SPDX-License-Identifier: Apache-2.0
#include "domain/script.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

/// sbatch reads the rest of the line up to white space or a comment; it knows quotes, but a
/// value that needs them is more likely a mistake, and a newline would begin a line of its own.
bool stands_in_directive(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte < 0x7f &&
           std::string_view("\"'\\#`$;&|<>").find(c) == std::string_view::npos;
  });
}

Result<std::string> directive_value(std::string_view what, const std::string& value) {
  if (stands_in_directive(value)) return value;
  return fault(FaultKind::invalid_input,
               fmt::format("{} '{}' cannot stand in a #SBATCH line: no spaces, quotes, control "
                           "characters or any of \\ # ` $ ; & | < >",
                           what, value));
}

}  // namespace

Result<TemplateValues> script_values(const SweepSpec& sweep, const SiteSpec& site,
                                     const ScriptContext& context) {
  TemplateValues values;
  SHARDSWEEP_ASSIGN(values.values["job_name"],
                    directive_value("the job name", context.job_name));
  SHARDSWEEP_ASSIGN(values.values["output"],
                    directive_value("the log's path", context.paths.log().string()));
  values.values["sweep"] = sweep.name;
  values.values["nodes"] = std::to_string(context.nodes);
  values.values["gpus_per_node"] = std::to_string(sweep.cluster.gpus_per_node);
  values.values["lead_command"] =
      shell_command({context.agent, "lead", "--dir", context.paths.dir.string()});
  values.lists["slurm_options"];
  for (const auto& [option, value] : site.slurm) {
    if (value.empty()) {
      values.lists["slurm_options"].push_back("--" + option);
      continue;
    }
    SHARDSWEEP_ASSIGN(const std::string word, directive_value("site option " + option, value));
    values.lists["slurm_options"].push_back(fmt::format("--{}={}", option, word));
  }
  values.lists["modules"];
  for (const std::string& module : site.modules) {
    values.lists["modules"].push_back("module load " + shell_quote(module));
  }
  values.lists["prolog"] = site.prolog;
  values.lists["env"];
  for (const auto& [name, value] : site.env) {
    values.lists["env"].push_back(fmt::format("{}={}", name, shell_quote(value)));
  }
  return values;
}

}  // namespace shardsweep
