// SPDX-License-Identifier: Apache-2.0
// A GPU that computes nothing: gpu.hpp, kernels.hpp and product_library.hpp as accesses to
// memory in streams, which HappensBefore judges. Addresses are numbers that nothing follows.
#pragma once

#include "cuda/gpu.hpp"
#include "happens_before.hpp"

#include <set>
#include <string>
#include <vector>

namespace shardbench::ordered {

/// Starts anew, without any stream. Edges with these numbers, counted from 0 as they are made,
/// are left out.
void reset(std::set<std::size_t> deleted_edges = {});

/// Something that orders: a stream waits for an event, or the host sees that it was reached.
struct Edge {
  std::string waits;    // "computation", "communication" or "the host"
  std::string follows;  // whose event it is
  std::string after;    // the work before the event
  std::string before;   // the first work after the wait; of the host nothing
  std::string behind;   // the last work of the waiting one before the wait
  u64 beside;           // its work that may run at the same time as that before the event
};
const std::vector<Edge>& edges();
std::vector<std::string> races();

struct Range {
  const void* data;
  i64 bytes;
};
/// Work of a stream.
void work(gpu::Stream stream, const std::string& what, const std::vector<Range>& reads,
          const std::vector<Range>& writes);

}  // namespace shardbench::ordered
