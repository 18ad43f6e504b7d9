// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

/// A job has no login shell's functions. /etc/profile is not written for `set -u`.
constexpr const char* define_module =
    "type module >/dev/null 2>&1 || { set +eu; . /etc/profile; set -eu; }";

Result<std::vector<std::string>> site_options(const SiteSpec& site, std::int32_t nodes) {
  std::vector<std::string> options;
  for (const auto& [option, values] : site.slurm) {
    if (option == "exclude" || option == "nodelist") continue;  // joined with our own
    for (const SlurmValue& value : values) {
      if (nodes < value.from || nodes > value.to) continue;
      if (value.value.empty()) {
        options.push_back("--" + option);
        continue;
      }
      SHARDSWEEP_ASSIGN(const std::string word,
                        directive_value("site option " + option, value.value));
      options.push_back(fmt::format("--{}={}", option, word));
    }
  }
  return options;
}

/// The site's own value of an option for so many nodes; empty: none.
std::string site_value(const SiteSpec& site, const std::string& option, std::int32_t nodes) {
  const auto found = site.slurm.find(option);
  if (found == site.slurm.end()) return "";
  for (const SlurmValue& value : found->second) {
    if (nodes >= value.from && nodes <= value.to) return value.value;
  }
  return "";
}

/// sbatch takes the last of several equal options: what the site excludes and what is out stand
/// in one. A node that is tried again is the only one asked for.
Result<void> add_nodes(const SiteSpec& site, const ScriptContext& context,
                       std::vector<std::string>& options) {
  std::string exclude = site_value(site, "exclude", context.nodes);
  for (const std::string& node : context.exclude)
    exclude += (exclude.empty() ? "" : ",") + node;
  std::string only = context.only_node;
  if (only.empty()) only = site_value(site, "nodelist", context.nodes);
  if (!context.only_node.empty()) exclude.clear();
  if (!exclude.empty()) {
    SHARDSWEEP_ASSIGN(const std::string word, directive_value("site option exclude", exclude));
    options.push_back("--exclude=" + word);
  }
  if (!only.empty()) {
    SHARDSWEEP_ASSIGN(const std::string word, directive_value("site option nodelist", only));
    options.push_back("--nodelist=" + word);
  }
  return {};
}

/// "--time=90": minutes, never less than what was asked for.
std::string time_option(double limit_s) {
  return std::to_string(static_cast<std::int64_t>(std::ceil(limit_s / 60)));
}

/// What the site does not say by itself. sbatch takes the last of several equal options, but
/// gpus-per-node beside a site's own gres would be a second request.
void add_defaults(const SweepSpec& sweep, const SiteSpec& site, const ScriptContext& context,
                  TemplateValues& values) {
  const auto said = [&site](std::string_view option) {
    return site.slurm.count(std::string(option)) != 0 ||
           std::find(site.slurm_without.begin(), site.slurm_without.end(), option) !=
               site.slurm_without.end();
  };
  auto& defaults = values.lists["default_options"];
  const bool gpus = said("gpus-per-node") || said("gres") || said("gpus") ||
                    said("gpus-per-task") || said("tres-per-task");
  if (!gpus) {
    defaults.push_back(fmt::format("--gpus-per-node={}", sweep.cluster.gpus_per_node));
  }
  if (!said("exclusive")) defaults.emplace_back("--exclusive");
  const bool memory = said("mem") || said("mem-per-cpu") || said("mem-per-gpu");
  if (!memory) defaults.emplace_back("--mem=0");
  if (!said("time") && context.time_limit_s > 0) {
    defaults.push_back("--time=" + time_option(context.time_limit_s));
  }
}

}  // namespace

Result<std::string> directive_value(std::string_view what, const std::string& value) {
  if (stands_in_directive(value)) return value;
  return fault(FaultKind::invalid_input,
               fmt::format("{} '{}' cannot stand in a #SBATCH line: no spaces, quotes, control "
                           "characters or any of \\ # ` $ ; & | < >",
                           what, value));
}

Result<std::string> output_value(const std::string& path) {
  std::string escaped;
  for (const char c : path)
    escaped += c == '%' ? std::string("%%") : std::string(1, c);
  return directive_value("the log's path", escaped);
}

Result<TemplateValues> script_values(const SweepSpec& sweep, const SiteSpec& site,
                                     const ScriptContext& context) {
  TemplateValues values;
  SHARDSWEEP_ASSIGN(values.values["job_name"],
                    directive_value("the job name", context.job_name));
  SHARDSWEEP_ASSIGN(values.values["output"], output_value(context.paths.log().string()));
  values.values["sweep"] = sweep.name;
  values.values["nodes"] = std::to_string(context.nodes);
  values.values["lead_command"] =
      shell_command({context.agent, "lead", "--dir", context.paths.dir.string()});
  SHARDSWEEP_ASSIGN(values.lists["slurm_options"], site_options(site, context.nodes));
  SHARDSWEEP_TRY(add_nodes(site, context, values.lists["slurm_options"]));
  add_defaults(sweep, site, context, values);
  values.lists["modules"];
  if (!site.modules.empty()) values.lists["modules"].emplace_back(define_module);
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
