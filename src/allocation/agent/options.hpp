// SPDX-License-Identifier: Apache-2.0
// The agent's command line: a verb and `--name value` pairs. Pure.
#pragma once

#include "agent/node_agent.hpp"
#include "agent/node_facts.hpp"

#include <shardsweep/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::agent {

enum class Verb : std::uint8_t { help, version, lead, node, rank, check, sweep_leftovers };

struct Options {
  Verb verb = Verb::help;
  std::string dir;    ///< folder of lead and rank
  std::string token;  ///< token for sweep-leftovers
  NodeOptions node;
  CheckOptions check;
};

inline constexpr std::string_view usage_text =
    R"(shardsweep-agent runs attempts inside an allocation. The daemon starts it, not you.

  shardsweep-agent lead --dir FOLDER
      run what FOLDER/to_lead assigns; FOLDER/allocation.json says how
  shardsweep-agent node --slots N --lease S --beat S --watch S [--name NODE] [--token T] [--ranks step | shell]
      guard and node agent, spoken to over stdin and stdout
      --ranks step: attempts are Slurm steps of all ranks, not this node's children
      --ranks shell: this is no job, and ranks get what they need of the environment
  shardsweep-agent rank --dir FOLDER
      within such a step: become the rank that Slurm says, of the attempt in FOLDER
  shardsweep-agent check --dir FOLDER --name NODE --time before | after
      what this node finds of itself, as FOLDER/allocation.json asks: one line
  shardsweep-agent sweep-leftovers --token T
      end the processes on this machine that carry the marker of allocation T; prints them
  shardsweep-agent --version | --help
)";

/// `environment` gives a node's name and index under Slurm.
[[nodiscard]] Result<Options> parse_options(
    const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace shardsweep::agent
