// SPDX-License-Identifier: Apache-2.0
// What the ranks of a run gave to NCCL, judged as one: do the members of each communicator
// agree, and would it come to an end.
#pragma once

#include "recording_nccl.hpp"

#include <map>
#include <string>
#include <vector>

namespace shardbench {

/// Calls of each rank, in order.
using IssuedItems = std::map<i64, std::vector<NcclItem>>;

/// First disagreement, else empty. Members of each communicator must issue the same collectives in
/// one order, and each pair the same groups of messages, seen from either side.
std::string disagreement(const IssuedItems& items);

/// Executes the items in strict order, as one queue per GPU does when launches keep the host's
/// order. A collective ends when all members have come to it, a group of messages when each message
/// has met its other side. Empty if all ends, else the stuck ranks and their places.
std::string deadlock(const IssuedItems& items);

}  // namespace shardbench
