// SPDX-License-Identifier: Apache-2.0
// Hangs to order: a layout, a rank, a train step and a way to stand still, drawn from a seed.
#pragma once

#include "programs/agent/allocation.hpp"

#include <map>
#include <string>
#include <vector>

namespace shardsweep::test {

struct HangCase {
  std::vector<std::string> flags;  ///< for shardbench; the last two are --fault and its value
  std::string fault;
  int world = 1;
  int rank = 0;  ///< the guilty one
};

/// Worlds of 2 to `most_ranks`, hang or SIGSTOP in one of the timed train steps.
[[nodiscard]] HangCase hang_case(unsigned seed, int most_ranks = 4);
/// The same training without the fault.
[[nodiscard]] std::vector<std::string> healthy(const HangCase& hang);

/// Until the guilty one stands still and each of the others waits, while the node agent is held
/// at node.launched_said: what it sees then are ranks that advance no more.
void wait_until_all_stand(const HangCase& hang, const Assign& attempt, Allocation& allocation);

/// Hung, when its limit was over, and the guilty rank named with its node.
void check_verdict(
    const HangCase& hang, const Ended& ended, double floor_s, const std::string& node = "local");

/// What an ended attempt's pack holds, by names within it.
[[nodiscard]] std::map<std::string, std::string> unpacked(const Assign& attempt);

}  // namespace shardsweep::test
