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

  /// It is the stream that computes: what it is given stands in computation's way by itself.
  virtual bool computes() const { return false; }
  /// As cudaStream_t, for NCCL.
  virtual void* native() = 0;
  /// What this stream is given next starts after all that the device was given to compute.
  virtual void follow_compute() = 0;
  /// What the device is given to compute from now on starts after all that this stream's next
  /// operation waits for: so the operation finds multiprocessors before a product has all.
  virtual void go_first() {}
  /// A point after what this stream was given so far; counted from 1, in order.
  virtual u64 mark() = 0;
  /// What the device is given to compute from now on starts after that point.
  virtual void hold_compute(u64 mark) = 0;
  /// What this stream is given next starts after `mark` of `other`, which is of the same kind.
  virtual void follow(CommStream& other, u64 mark) = 0;
  /// The stream has come as far as that point.
  virtual bool reached(u64 mark) = 0;
};

}  // namespace shardbench
