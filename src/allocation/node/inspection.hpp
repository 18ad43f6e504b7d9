// SPDX-License-Identifier: Apache-2.0
// What /proc shows of a process that does not get on: for the evidence of a hang.
#pragma once

#include "machine/processes.hpp"
#include "node/nvml.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

struct ThreadState {
  pid_t tid = 0;
  char state = '?';
  std::string waits_in;  ///< the kernel function; empty if the kernel does not tell
};

struct ProcessState {
  ProcessEntry process;
  pid_t parent = 0;
  char state = '?';
  std::int64_t resident_bytes = 0;
  std::string kernel_stack;          ///< root alone may read it
  std::vector<ThreadState> threads;  ///< the first 64
  bool catches_quit = false;         ///< has a handler of its own for SIGQUIT
};

/// Only the pid is known if the process has ended meanwhile.
[[nodiscard]] ProcessState inspect(pid_t pid);

/// Observations on a node of an attempt whose ranks were about to be ended.
struct NodeEvidence {
  std::string node;
  std::int64_t attempt = 0;
  std::string why;
  double still_s = -1;  ///< see NoProgress
  struct OfRank {
    int rank = 0;
    std::string last_line;  ///< last line of its output
    ProcessState state;
  };
  std::vector<OfRank> ranks;
  std::vector<ProcessState> others;  ///< processes that the ranks have started
  std::vector<GpuState> gpus;        ///< GPUs of its ranks
};

/// One JSON object, indented: it is read by people.
[[nodiscard]] std::string encode(const NodeEvidence& evidence);

}  // namespace shardsweep
