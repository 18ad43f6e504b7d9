// SPDX-License-Identifier: Apache-2.0
// The seam to communication: collectives within one group of ranks, asynchronous by token.
//
// All members issue the same operations in the same order. Sums are taken in the order of the
// ranks, so that every member gets the same bits. Implementations: sockets, staged (a device's
// buffers over sockets), NCCL, null (meta).
#pragma once

#include "device/dtype.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

enum class Reduction { sum, max };
enum class Operation { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };
constexpr std::size_t operation_count = 6;
std::string_view operation_name(Operation operation);

/// A started operation; 0 is one that has ended.
using Token = u64;

/// Cost of a group's operations for this rank: calls, and payload bytes sent, by operation.
struct CommCounters {
  std::array<i64, operation_count> calls{};
  std::array<i64, operation_count> sent_bytes{};
  i64 total_sent() const;
  bool operator==(const CommCounters&) const = default;
};

/// Payload bytes that member `index` of `size` sends for one operation; the model that the
/// counters of every implementation must equal. `count`: all_reduce, broadcast, send: elements;
/// reduce_scatter, all_gather: elements per rank.
i64 bytes_sent(Operation operation, i64 size, i64 index, i64 count, Dtype dtype);
/// Memory of class communication that the operation holds until its token is waited for.
i64 staging_bytes(Operation operation, i64 size, i64 index, i64 count, Dtype dtype);

/// Elements [first, last) of an all-reduce that member `index` sums up. Short vectors are
/// summed by member 0 alone: two hops with 2(n−1) messages instead of 2n(n−1).
struct Span {
  i64 first;
  i64 last;
  i64 count() const { return last - first; }
};
Span reduced_by(i64 size, i64 index, i64 count, Dtype dtype);

struct Group {
  std::string name;          // "tp", "dp", …: for messages and counters
  u64 id = 0;                // equal on all members, different for groups that share ranks
  std::vector<i64> members;  // ranks of the world, in group order
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual i64 rank() const = 0;
  virtual i64 size() const = 0;

  /// Buffers stay untouched by the caller until wait() has returned.
  virtual Token all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) = 0;
  /// Takes size·count elements from `in`, gives count to `out`, which may be this rank's part of
  /// `in`.
  virtual Token reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) = 0;
  /// Takes count elements from `in`, gives size·count to `out`; `in` may be this rank's part of
  /// `out`.
  virtual Token all_gather(const void* in, void* out, i64 count, Dtype dtype) = 0;
  virtual Token broadcast(void* data, i64 count, Dtype dtype, i64 root) = 0;
  /// Messages between two members arrive in the order in which they were sent.
  virtual Token send(const void* data, i64 count, Dtype dtype, i64 to) = 0;
  virtual Token receive(void* data, i64 count, Dtype dtype, i64 from) = 0;
  /// Closes a group of messages: all of them start before one is waited for. Every member that
  /// takes part calls it.
  virtual void start_messages() {}

  /// A reduction under way holds memory of this rank, staging_bytes() of it, until it is waited
  /// for.
  virtual bool holds_memory() const { return true; }

  /// Makes later work of the device follow the operation; a device that works at once has ended it.
  /// Ends the rank (class timeout) at the deadline.
  virtual void wait(Token token) = 0;
  /// Lets started operations move on; cheap.
  virtual void progress() = 0;

  /// Lets operations that start from now on travel under computation; they are not waited for at
  /// once.
  void begin_travel() { travels_ = true; }
  void end_travel() { travels_ = false; }
  bool travels() const { return travels_; }

  const CommCounters& counters() const { return counters_; }
  /// Time that the rank has stood still in wait(); of an asynchronous device after its
  /// synchronize().
  virtual double waited_s() { return waited_s_; }

 protected:
  void count_operation(Operation operation, i64 sent);
  void count_wait(double seconds) { waited_s_ += seconds; }

 private:
  CommCounters counters_;
  double waited_s_ = 0;
  bool travels_ = false;
};

}  // namespace shardbench
