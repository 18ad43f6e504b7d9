// SPDX-License-Identifier: Apache-2.0
// A communicator that only counts: bytes that would be sent, memory that would be held.
#pragma once

#include "communication/communicator.hpp"
#include "device/memory.hpp"

#include <map>

namespace shardbench {

/// Memory of the rank that operations hold while they are under way.
enum class Staging { none, of_sockets };

class NullCommunicator final : public Communicator {
 public:
  NullCommunicator(
      Memory& memory, i64 rank, const Group& group, Staging staging = Staging::of_sockets);

  i64 rank() const override { return index_; }
  i64 size() const override { return size_; }
  bool holds_memory() const override { return staging_ != Staging::none; }
  Token all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) override;
  Token reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) override;
  Token all_gather(const void* in, void* out, i64 count, Dtype dtype) override;
  Token broadcast(void* data, i64 count, Dtype dtype, i64 root) override;
  Token send(const void* data, i64 count, Dtype dtype, i64 to) override;
  Token receive(void* data, i64 count, Dtype dtype, i64 from) override;
  void wait(Token token) override { held_.erase(token); }
  void progress() override {}

 private:
  Token hold(Operation operation, i64 index, i64 count, Dtype dtype);

  Memory& memory_;
  i64 index_;
  i64 size_;
  Staging staging_;
  Token last_token_ = 0;
  std::map<Token, Block> held_;
};

}  // namespace shardbench
