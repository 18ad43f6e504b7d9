// SPDX-License-Identifier: Apache-2.0
// Tokens are those of the inner communicator. It works in place wherever it can, so that an
// operation needs one host block.
#include "communication/staged_communicator.hpp"

#include "base/clock.hpp"

#include <utility>

namespace shardbench {

StagedCommunicator::StagedCommunicator(
    std::unique_ptr<Communicator> inner, Device& device, Memory& host)
    : inner_(std::move(inner)), device_(device), host_(host) {}

Block StagedCommunicator::host_block(Operation operation, i64 bytes) {
  return host_.allocate(MemoryClass::communication, bytes, operation_name(operation));
}

void StagedCommunicator::fetch(std::byte* host, const void* from, i64 bytes) {
  // Finish the device's work first: it is no time of communication.
  device_.synchronize();
  const TimePoint start = now();
  device_.download(host, from, bytes);
  count_wait(seconds_since(start));
}

/// Holds the block until the token is waited for; nothing is to be copied back.
Token StagedCommunicator::keep(Token token, Block&& host) {
  return keep(token, std::move(host), nullptr, nullptr, 0);
}

Token StagedCommunicator::keep(Token token, Block&& host, std::byte* at, void* to, i64 bytes) {
  staged_[token] = {std::move(host), at, to, bytes};
  return token;
}

Token StagedCommunicator::all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) {
  count_operation(
      Operation::all_reduce, bytes_sent(Operation::all_reduce, size(), rank(), count, dtype));
  if (size() == 1 || count == 0) return 0;
  const i64 bytes = count * dtype_size(dtype);
  Block host = host_block(Operation::all_reduce, bytes);
  std::byte* at = host.data();
  fetch(at, data, bytes);
  return keep(inner_->all_reduce(at, count, dtype, reduction), std::move(host), at, data, bytes);
}

Token StagedCommunicator::reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) {
  count_operation(Operation::reduce_scatter,
      bytes_sent(Operation::reduce_scatter, size(), rank(), count, dtype));
  const i64 bytes = count * dtype_size(dtype);
  if (size() == 1 && in != out) device_.copy(out, in, bytes);
  if (size() == 1 || count == 0) return 0;
  Block host = host_block(Operation::reduce_scatter, size() * bytes);
  std::byte* all = host.data();
  std::byte* own = all + rank() * bytes;
  fetch(all, in, size() * bytes);
  return keep(inner_->reduce_scatter(all, own, count, dtype), std::move(host), own, out, bytes);
}

Token StagedCommunicator::all_gather(const void* in, void* out, i64 count, Dtype dtype) {
  count_operation(
      Operation::all_gather, bytes_sent(Operation::all_gather, size(), rank(), count, dtype));
  const i64 bytes = count * dtype_size(dtype);
  if (size() == 1 && in != out) device_.copy(out, in, bytes);
  if (size() == 1 || count == 0) return 0;
  Block host = host_block(Operation::all_gather, size() * bytes);
  std::byte* all = host.data();
  fetch(all + rank() * bytes, in, bytes);
  return keep(inner_->all_gather(all + rank() * bytes, all, count, dtype), std::move(host), all,
      out, size() * bytes);
}

Token StagedCommunicator::broadcast(void* data, i64 count, Dtype dtype, i64 root) {
  const i64 from_root = (rank() - root + size()) % size();
  count_operation(
      Operation::broadcast, bytes_sent(Operation::broadcast, size(), from_root, count, dtype));
  if (size() == 1 || count == 0) return 0;
  const i64 bytes = count * dtype_size(dtype);
  Block host = host_block(Operation::broadcast, bytes);
  std::byte* at = host.data();
  if (rank() == root) fetch(at, data, bytes);
  const Token token = inner_->broadcast(at, count, dtype, root);
  if (rank() == root) return keep(token, std::move(host));
  return keep(token, std::move(host), at, data, bytes);
}

Token StagedCommunicator::send(const void* data, i64 count, Dtype dtype, i64 to) {
  count_operation(Operation::send, bytes_sent(Operation::send, size(), rank(), count, dtype));
  const i64 bytes = count * dtype_size(dtype);
  Block host = host_block(Operation::send, bytes);
  std::byte* at = host.data();
  fetch(at, data, bytes);
  return keep(inner_->send(at, count, dtype, to), std::move(host));
}

Token StagedCommunicator::receive(void* data, i64 count, Dtype dtype, i64 from) {
  count_operation(Operation::receive, 0);
  const i64 bytes = count * dtype_size(dtype);
  Block host = host_block(Operation::receive, bytes);
  std::byte* at = host.data();
  return keep(inner_->receive(at, count, dtype, from), std::move(host), at, data, bytes);
}

void StagedCommunicator::wait(Token token) {
  const auto at = staged_.find(token);
  if (at == staged_.end()) return;
  inner_->wait(token);
  const TimePoint start = now();
  const StagedResult& staged = at->second;
  if (staged.bytes > 0) {
    device_.upload(staged.to, staged.at, staged.bytes);
    // Wait: an upload from pinned memory returns before it has read, and the block goes back now.
    device_.synchronize();
  }
  count_wait(seconds_since(start));
  staged_.erase(at);
}

}  // namespace shardbench
