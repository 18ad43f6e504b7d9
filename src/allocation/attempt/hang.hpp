// SPDX-License-Identifier: Apache-2.0
// Is a whole attempt hung, and whose fault is it? The node of rank 0 sees the records, every
// node the flight recorders of its own ranks: so the first suspects, all are asked, and only
// where nothing has advanced anywhere it is a hang. Pure.
#pragma once

#include <shardsweep/protocol.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// `0, 1, 2 and 61 more`
[[nodiscard]] std::string list_of_ranks(const std::vector<std::int32_t>& ranks);

class HangQuestion {
 public:
  /// True if the nodes are to be asked now.
  [[nodiscard]] bool suspect(const Suspect& suspicion, double now_s);
  void answer(const std::string& node, const NoProgress& still);
  /// The suspicion, once all of `nodes` have said that it is true. A node that keeps no flight
  /// recorder has no say.
  [[nodiscard]] std::optional<std::string> verdict(int nodes, double now_s);

 private:
  std::optional<Suspect> asked_;
  double asked_at_s_ = 0;
  double ask_again_at_s_ = 0;
  std::map<std::string, double> still_s_;
};

/// Joint reading of the flight recorders of all ranks (`shardbench-cpu --read-recorder`).
struct RecorderReading {
  struct Wait {
    std::string group;
    std::string operation;
    std::int64_t sequence = 0;
    std::vector<std::int32_t> waiting;
    std::vector<std::int32_t> never_came;
  };
  std::vector<std::int32_t> guilty;
  std::string why;  ///< how the guilty were told
  std::vector<Wait> waits;
};

/// "rank 3 on n2: shows no sign of life (0, 1, 2 wait in dp all_reduce 41, which it never
/// entered)"; empty if the recorders accuse nobody. `nodes`: names by index, as far as they
/// are known.
[[nodiscard]] std::string accusation(const RecorderReading& reading, std::int32_t ranks_per_node,
    const std::map<std::int32_t, std::string>& nodes);

}  // namespace shardsweep
