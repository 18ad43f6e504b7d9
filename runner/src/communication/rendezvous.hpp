// SPDX-License-Identifier: Apache-2.0
// How the ranks of one run find each other: rank 0 publishes an address, the others come to it,
// and everyone ends with one connected socket per peer.
//
// A file from another run, or a stranger on the port, is told apart by the run id: rank 0 turns
// strangers away and goes on; a rank that is turned away reads the file again until the
// deadline.
#pragma once

#include "device/dtype.hpp"

#include <string>
#include <vector>

namespace shardbench {

struct RendezvousPlan {
  std::string where;   // DIR, tcp://HOST:PORT or fd:N (a bound, listening socket; rank 0 only)
  std::string run_id;  // the nonce
  i64 rank = 0;
  i64 world = 1;
  u64 fingerprint = 0;  // hash of the program and everything that defines the run: equal on all
                        // ranks
  double limit_s = 120;
};

struct MeetingResult {
  std::vector<int> sockets;        // sockets by rank; -1 for this rank
  std::vector<std::string> hosts;  // hosts by rank
};

/// Lets the ranks meet. Ends the rank with class timeout if peers are missing at the deadline,
/// naming them. Ends it with class comm_error if a peer of the same run has another fingerprint.
MeetingResult meet(const RendezvousPlan& plan);

std::string host_name();

}  // namespace shardbench
