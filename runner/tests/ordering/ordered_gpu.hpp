// SPDX-License-Identifier: Apache-2.0
// A GPU that computes nothing: gpu.hpp, kernels.hpp and product_library.hpp as accesses to
// memory in streams, which HappensBefore judges. Addresses are numbers that nothing follows.
#pragma once

#include "cuda/gpu.hpp"
#include "happens_before.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardbench::ordered {

/// Starts anew, without any stream. Edges with these numbers, counted from 0 as they are made,
/// are left out.
void reset(std::set<std::size_t> deleted_edges = {});

/// Order between two works: a stream waits for an event, or the host sees that it was reached.
struct Edge {
  std::string waits;    // "computation", "communication" or "the host"
  std::string follows;  // owner of the event
  std::string after;    // the work before the event
  std::string before;   // the first work after the wait; of the host nothing
  std::string behind;   // the last work of the waiting one before the wait
  u64 beside;           // work of `waits` that may run at the same time as the work before the
                        // event
  std::string group;    // group of NCCL's operation, before the event or after the wait
  bool goes_first;      // the event stands before an operation: it orders no data
};
const std::vector<Edge>& edges();
std::vector<std::string> races();

struct Range {
  const void* data;
  i64 bytes;
};

/// A part of an operation of NCCL: all of a collective, or one message.
struct Traffic {
  std::string group;      // name of the group
  std::string members;    // text that is equal on all members
  std::string operation;  // "all_reduce"
  i64 size;
  i64 index;
  i64 peer;   // peer of messages; else -1
  i64 bytes;  // bytes that it sends, or receives if it is a receive
  u64 call;   // messages of a group have one number
};

/// Costs of work beside the bytes that it reads and writes.
struct Cost {
  double flops = 0;
  bool in_fp8 = false;
  std::optional<Traffic> traffic = std::nullopt;
};

/// Work of a stream, in the order of the host's calls.
struct Work {
  std::string what;
  std::size_t stream;  // number of the stream in the order of making: 0 computes
  i64 bytes_read;
  i64 bytes_written;
  Cost cost;
  std::vector<std::size_t> after;  // items of other streams that it waits for
  /// Items of other streams whose turn has come when this one's does.
  std::vector<std::size_t> begun = {};
};
const std::vector<Work>& works();

/// Work of a stream.
void work(gpu::Stream stream, const std::string& what, const std::vector<Range>& reads,
    const std::vector<Range>& writes, const Cost& cost = {});

}  // namespace shardbench::ordered
