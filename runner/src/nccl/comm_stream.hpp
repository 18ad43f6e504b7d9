// SPDX-License-Identifier: Apache-2.0
// The order between a device's computation and its communication. NCCL's operations are work of
// a stream; what they wait for, and who waits for them, is said here.
#pragma once

#include "device/dtype.hpp"

namespace shardbench {

class CommStream {
 public:
  virtual ~CommStream() = default;
  CommStream() = default;
  CommStream(const CommStream&) = delete;
  CommStream& operator=(const CommStream&) = delete;

  /// True for the stream that computes: its operations delay computation by themselves.
  virtual bool computes() const { return false; }
  /// The stream as cudaStream_t, for NCCL.
  virtual void* native() = 0;
  /// Makes this stream's next work start after all computation that the device was given.
  virtual void follow_compute() = 0;
  /// Makes later computation start after everything that this stream's next operation waits for.
  virtual void go_first() {}
  /// A point after what this stream was given so far; counted from 1, in order.
  virtual u64 mark() = 0;
  /// Makes later computation start after that point.
  virtual void hold_compute(u64 mark) = 0;
  /// Makes this stream's next work start after `mark` of `other`, which is of the same kind.
  virtual void follow(CommStream& other, u64 mark) = 0;
  /// The stream has come as far as that point.
  virtual bool reached(u64 mark) = 0;
};

}  // namespace shardbench
