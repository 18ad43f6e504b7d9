// SPDX-License-Identifier: Apache-2.0
#include "agent/options.hpp"

#include "text/node_list.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

namespace shardsweep::agent {
namespace {

using Flags = std::map<std::string, std::string, std::less<>>;

tl::unexpected<Fault> wrong(std::string what) {
  return fault(FaultKind::invalid_input, std::move(what));
}

Result<Flags> parse_flags(
    const std::vector<std::string>& arguments, const std::set<std::string, std::less<>>& known) {
  Flags flags;
  for (std::size_t i = 1; i < arguments.size(); i += 2) {
    const std::string& name = arguments[i];
    if (!known.contains(name)) return wrong(fmt::format("unknown option '{}'", name));
    if (i + 1 == arguments.size()) return wrong(fmt::format("option '{}' needs a value", name));
    if (!flags.emplace(name, arguments[i + 1]).second)
      return wrong(fmt::format("option '{}' is given twice", name));
  }
  return flags;
}

Result<std::string> required(const Flags& flags, std::string_view name) {
  const auto found = flags.find(name);
  if (found == flags.end() || found->second.empty())
    return wrong(fmt::format("option '{}' is missing", name));
  return found->second;
}

Result<double> seconds(const Flags& flags, std::string_view name) {
  SHARDSWEEP_ASSIGN(const std::string text, required(flags, name));
  const auto value = number_from<double>(text);
  if (!value || !(*value > 0) || *value > 1e6)
    return wrong(fmt::format("option '{}' needs seconds, got '{}'", name, text));
  return *value;
}

/// Finds this node's place. Under srun every node gets the same command line and knows itself by
/// its environment. Which ranks are its own is never guessed: two nodes with the same ones would
/// measure nonsense.
Result<void> find_place(const Flags& flags, const Environment& environment, NodeIdentity& node) {
  const auto name = flags.find("--name");
  if (name != flags.end()) {
    node.name = name->second;
    return {};
  }
  const auto slurm_name = value_in(environment, "SLURMD_NODENAME");
  const auto index = number_from<int>(value_in(environment, "SLURM_NODEID").value_or(""));
  if (!slurm_name || !index || *index < 0)
    return wrong(
        "without --name it has to run under srun, which sets SLURMD_NODENAME and SLURM_NODEID");
  node.name = *slurm_name;
  node.index = *index;
  return {};
}

Result<NodeOptions> parse_node(const Flags& flags, const Environment& environment) {
  NodeOptions options;
  SHARDSWEEP_ASSIGN(const std::string slots, required(flags, "--slots"));
  const auto count = number_from<int>(slots);
  if (!count || *count < 1 || *count > 4096)
    return wrong(fmt::format("option '--slots' needs a count, got '{}'", slots));
  options.node.slots = *count;
  SHARDSWEEP_ASSIGN(options.lease_s, seconds(flags, "--lease"));
  SHARDSWEEP_ASSIGN(options.beat_s, seconds(flags, "--beat"));
  SHARDSWEEP_ASSIGN(options.watch_s, seconds(flags, "--watch"));
  SHARDSWEEP_TRY(find_place(flags, environment, options.node));
  const auto token = flags.find("--token");
  if (token != flags.end()) options.node.token = token->second;
  const auto ranks = flags.find("--ranks");
  const std::string word = ranks == flags.end() ? "" : ranks->second;
  if (ranks != flags.end() && word != "step" && word != "shell")
    return wrong(fmt::format("option '--ranks' can be 'step' or 'shell', got '{}'", word));
  options.node.ranks_are_step = word == "step";
  options.node.in_a_shell = word == "shell";
  if (options.node.ranks_are_step)
    options.node.job_nodes = nodes_in(value_in(environment, "SLURM_JOB_NODELIST").value_or(""));
  return options;
}

}  // namespace

Result<Options> parse_options(
    const std::vector<std::string>& arguments, const Environment& environment) {
  Options options;
  if (arguments.empty()) return wrong("no command given");
  const std::string& verb = arguments[0];
  if (verb == "--help" || verb == "-h") return options;
  if (verb == "--version") {
    options.verb = Verb::version;
  } else if (verb == "lead") {
    options.verb = Verb::lead;
    SHARDSWEEP_ASSIGN(const Flags flags, parse_flags(arguments, {"--dir"}));
    SHARDSWEEP_ASSIGN(options.dir, required(flags, "--dir"));
  } else if (verb == "rank") {
    options.verb = Verb::rank;
    SHARDSWEEP_ASSIGN(const Flags flags, parse_flags(arguments, {"--dir"}));
    SHARDSWEEP_ASSIGN(options.dir, required(flags, "--dir"));
  } else if (verb == "node") {
    options.verb = Verb::node;
    SHARDSWEEP_ASSIGN(const Flags flags,
        parse_flags(arguments,
            {"--name", "--slots", "--lease", "--beat", "--watch", "--token", "--ranks"}));
    SHARDSWEEP_ASSIGN(options.node, parse_node(flags, environment));
  } else if (verb == "check") {
    options.verb = Verb::check;
    SHARDSWEEP_ASSIGN(
        const Flags flags, parse_flags(arguments, {"--dir", "--name", "--time", "--round"}));
    SHARDSWEEP_ASSIGN(options.check.dir, required(flags, "--dir"));
    SHARDSWEEP_ASSIGN(options.check.node, required(flags, "--name"));
    SHARDSWEEP_ASSIGN(const std::string word, required(flags, "--time"));
    const auto time = from_word<CheckTime>(word);
    if (!time)
      return wrong(
          fmt::format("option '--time' can be 'before', 'after' or 'pairs', got '{}'", word));
    options.check.time = *time;
    if (const auto text = flags.find("--round"); text != flags.end()) {
      const auto round = number_from<std::int32_t>(text->second);
      if (!round || *round < 0)
        return wrong(fmt::format("option '--round' needs a count, got '{}'", text->second));
      options.check.round = *round;
    }
  } else if (verb == "sweep-leftovers") {
    options.verb = Verb::sweep_leftovers;
    SHARDSWEEP_ASSIGN(const Flags flags, parse_flags(arguments, {"--token"}));
    SHARDSWEEP_ASSIGN(options.token, required(flags, "--token"));
  } else {
    return wrong(fmt::format("unknown command '{}'", verb));
  }
  return options;
}

}  // namespace shardsweep::agent
