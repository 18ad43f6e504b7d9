// SPDX-License-Identifier: Apache-2.0
// A device's buffers over a communicator that works in host memory: each operation copies its
// input down when it is issued and its output up when it is waited for. So several processes
// can share one GPU, which NCCL refuses, and every layout runs with the real kernels.
#pragma once

#include "communication/communicator.hpp"
#include "device/device.hpp"
#include "device/memory.hpp"

#include <map>
#include <memory>

namespace shardbench {

class StagedCommunicator final : public Communicator {
 public:
  /// `inner` moves host memory; `host` makes blocks of it, best pinned ones.
  StagedCommunicator(std::unique_ptr<Communicator> inner, Device& device, Memory& host);

  i64 rank() const override { return inner_->rank(); }
  i64 size() const override { return inner_->size(); }
  Token all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) override;
  Token reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) override;
  Token all_gather(const void* in, void* out, i64 count, Dtype dtype) override;
  Token broadcast(void* data, i64 count, Dtype dtype, i64 root) override;
  Token send(const void* data, i64 count, Dtype dtype, i64 to) override;
  Token receive(void* data, i64 count, Dtype dtype, i64 from) override;
  void wait(Token token) override;
  void progress() override { inner_->progress(); }
  /// Includes the time of the copies, which a rank with a GPU of its own would not need.
  double waited_s() override { return Communicator::waited_s() + inner_->waited_s(); }

 private:
  /// Result of an operation in host memory: `bytes` from `at`, for the device's `to`.
  struct StagedResult {
    Block host;
    std::byte* at = nullptr;
    void* to = nullptr;
    i64 bytes = 0;
  };

  Block host_block(Operation operation, i64 bytes);
  void fetch(std::byte* host, const void* from, i64 bytes);
  // Takes a reference: a block by value might be moved before the other arguments are evaluated.
  Token keep(Token token, Block&& host);
  Token keep(Token token, Block&& host, std::byte* at, void* to, i64 bytes);

  std::unique_ptr<Communicator> inner_;
  Device& device_;
  Memory& host_;
  std::map<Token, StagedResult> staged_;
};

}  // namespace shardbench
