// SPDX-License-Identifier: Apache-2.0
#include "communication/null_communicator.hpp"

#include <algorithm>

namespace shardbench {

NullCommunicator::NullCommunicator(Memory& memory, i64 rank, const Group& group, Staging staging)
    : memory_(memory),
      index_(std::find(group.members.begin(), group.members.end(), rank) - group.members.begin()),
      size_(static_cast<i64>(group.members.size())),
      staging_(staging) {}

Token NullCommunicator::hold(Operation operation, i64 index, i64 count, Dtype dtype) {
  count_operation(operation, bytes_sent(operation, size_, index, count, dtype));
  const i64 staging = staging_bytes(operation, size_, index, count, dtype);
  if (staging == 0 || staging_ == Staging::none) return 0;
  held_[++last_token_] =
      memory_.allocate(MemoryClass::communication, staging, operation_name(operation));
  return last_token_;
}

Token NullCommunicator::all_reduce(void*, i64 count, Dtype dtype, Reduction) {
  return hold(Operation::all_reduce, index_, count, dtype);
}

Token NullCommunicator::reduce_scatter(const void*, void*, i64 count, Dtype dtype) {
  return hold(Operation::reduce_scatter, index_, count, dtype);
}

Token NullCommunicator::all_gather(const void*, void*, i64 count, Dtype dtype) {
  return hold(Operation::all_gather, index_, count, dtype);
}

Token NullCommunicator::broadcast(void*, i64 count, Dtype dtype, i64 root) {
  return hold(Operation::broadcast, (index_ - root + size_) % size_, count, dtype);
}

Token NullCommunicator::send(const void*, i64 count, Dtype dtype, i64) {
  return hold(Operation::send, index_, count, dtype);
}

Token NullCommunicator::receive(void*, i64 count, Dtype dtype, i64) {
  return hold(Operation::receive, index_, count, dtype);
}

}  // namespace shardbench
