// SPDX-License-Identifier: Apache-2.0
// The check of nodes, an allocation's first act: what every node is to find out of itself
// before anything runs there, and what it has found.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Time of a check: before the first attempt, or as the allocation ends. `pairs`: right behind
/// `before`, the network between two nodes each (attempt/network_check.hpp).
enum class CheckTime : std::uint8_t { before, after, pairs };
SHARDSWEEP_WORDS(CheckTime, "before", "after", "pairs");

/// Orders of a daemon to the lead beside the limits (LaneLimits): part of allocation.json.
struct CheckOrder {
  std::vector<std::string> programs{};  ///< absolute paths that every node has to see
  std::vector<std::string> gemm{};      ///< the microbenchmark of one slot; empty: none
  /// The microbenchmark of the network, without what a rank alone knows; empty: none.
  std::vector<std::string> allreduce{};
  std::vector<std::string> before{};  ///< shell lines of the site's own; 0 as exit is well
  std::vector<std::string> after{};
  double gpu_slack_bytes = 0;  ///< GPU memory that may be in use
  /// The median over nodes with the same device, if enough of them have been checked.
  std::map<std::string, double> usual_gemm{};   ///< FLOP/s
  std::map<std::string, double> usual_clock{};  ///< MHz
  std::map<std::string, double> usual_busbw{};  ///< bytes/s of an all-reduce of two nodes
  std::map<std::string, double> usual_free{};   ///< share of the host's memory
  // Figures of the cluster file, for a device of which too few nodes are known. 0: none.
  double stated_gemm = 0;   ///< FLOP/s
  double stated_busbw = 0;  ///< bytes/s
  friend bool operator==(const CheckOrder&, const CheckOrder&) = default;
};
template <>
inline constexpr auto described<CheckOrder> = Entries{
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, CheckOrder, programs, gemm, allreduce, before, after,
        gpu_slack_bytes, usual_gemm, usual_clock, usual_busbw, usual_free, stated_gemm,
        stated_busbw),
};

/// Facts that a node has found about itself. Each text of `wrong` and `unmade` begins with the name
/// of its check: "home: can't be written: Read-only file system".
struct NodeFacts {
  std::string device{};          ///< the model of its GPUs, or of its CPU
  double gemm_flops = 0;         ///< FLOP/s of its slowest GPU, or of its CPUs; 0: not measured
  double sm_clock_mhz = 0;       ///< meanwhile; 0: not told
  double host_free = -1;         ///< share of the host's memory; -1: not told
  double gpu_used_bytes = -1;    ///< memory in use on the GPU with the most; -1: not told
  double busbw_bytes_per_s = 0;  ///< bandwidth of an all-reduce with the better of its partners; 0:
                                 ///< not measured
  std::string meet{};  ///< address where others may meet its ranks: host:port, a port for each GPU
  double seconds = 0;  ///< duration of the check
  std::vector<std::string> wrong{};
  std::vector<std::string> unmade{};  ///< checks that can't be made there, and why
  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};
template <>
inline constexpr auto described<NodeFacts> = Entries{
    SHARDSWEEP_FIELDS(NodeFacts, device, gemm_flops, sm_clock_mhz, host_free, gpu_used_bytes),
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, NodeFacts, busbw_bytes_per_s, meet),
    Field{"seconds", &NodeFacts::seconds},
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, NodeFacts, wrong, unmade),
};

}  // namespace shardsweep
