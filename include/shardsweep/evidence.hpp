// SPDX-License-Identifier: Apache-2.0
// Words of verdicts. They are stored, and sent between node agents, leads and the daemon.
#pragma once

#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

/// Source that said how an attempt ended.
enum class SaidBy : std::uint8_t {
  nobody,
  runner,
  exit,  ///< the exit status of a rank
  log,
  agent,
  policy,
  request,
  daemon,
  scheduler,
  import,  ///< a table of other people's measurements
};
SHARDSWEEP_WORDS(SaidBy, "", "runner", "exit", "log", "agent", "policy", "request", "daemon",
    "scheduler", "import");

/// Why a measurement is kept and not ranked. `cut_short` has a column of its own.
enum class Mark : std::uint8_t { none, contaminated, implausible, cut_short };
SHARDSWEEP_WORDS(Mark, "", "contaminated", "implausible", "cut_short");

/// Findings on a node, or conclusions from how an attempt ended on it.
enum class EvidenceKind : std::uint8_t {
  silent,    ///< no word from its agent
  lost,      ///< Slurm gave it up
  hardware,  ///< the GPU or its driver says so
  dirty,     ///< remains on it can't be removed
  failed,    ///< no program could be started
  control,   ///< the reference layout ran beyond its tolerance
  check,     ///< the check of nodes has failed
  leaving,   ///< end of its agent
  leaked,    ///< processes or memory of earlier attempts, which were removed
  suspect,   ///< trial that failed here was measured elsewhere
  slower,    ///< than its peers, in one attempt
  on_pace,   ///< pace of its peers, in one attempt
  slow,      ///< slow in most of its attempts
  hung,
  comm_error,
  crashed,
  unstarted,  ///< no lead has started in a job that began there
  killed,     ///< all its agents were killed at once, by an unknown hand
  slow_pair,  ///< the network between it and one other node is slow; which of the two is to blame
              ///< is unknown
  read_only,  ///< a runner could not write there
};
SHARDSWEEP_WORDS(EvidenceKind, "silent", "lost", "hardware", "dirty", "failed", "control", "check",
    "leaving", "leaked", "suspect", "slower", "on pace", "slow", "hung", "comm_error", "crashed",
    "unstarted", "killed", "slow pair", "read-only");

}  // namespace shardsweep
