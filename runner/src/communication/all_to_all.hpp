// SPDX-License-Identifier: Apache-2.0
// Every member of a group gives each member a part of its own: the all-to-all(v) of experts'
// rows and of heads.
#pragma once

#include "parallel/rank_context.hpp"

#include <vector>

namespace shardbench {

/// Values that belong to the members of a group, one member's after the other's.
struct PartsOfMembers {
  std::byte* data;
  std::vector<i64> counts;
};

/// Part i of `out` goes to member i, part i of `in` comes from it. Messages, which start
/// together: NCCL has no collective for it, and a flight recorder tells which member does not
/// come. Both buffers are the exchange's until it has been waited for.
class Exchange {
 public:
  Exchange(const RankContext& context, Communicator& group, const PartsOfMembers& in,
      const PartsOfMembers& out);
  /// Returns when work that is given to the device from now on finds what has come.
  void wait();

 private:
  Communicator& group_;
  std::vector<Token> tokens_;
};

/// Exchanges and waits.
void all_to_all(const RankContext& context, Communicator& group, const PartsOfMembers& in,
    const PartsOfMembers& out);

}  // namespace shardbench
