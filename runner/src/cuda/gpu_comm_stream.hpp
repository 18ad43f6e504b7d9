// SPDX-License-Identifier: Apache-2.0
// A stream of the GPU for communication, and its order against the one that computes.
#pragma once

#include "cuda/gpu.hpp"
#include "nccl/comm_stream.hpp"

#include <deque>
#include <utility>
#include <vector>

namespace shardbench {

class GpuCommStream final : public CommStream {
 public:
  /// `shared_with_compute` is the stream of `compute` itself, for what is waited for at once
  /// anyway: then there is nothing to order.
  enum class Kind { own, shared_with_compute };
  GpuCommStream(gpu::Stream compute, Kind kind);
  ~GpuCommStream() override;
  GpuCommStream(const GpuCommStream&) = delete;
  GpuCommStream& operator=(const GpuCommStream&) = delete;

  bool computes() const override { return kind_ == Kind::shared_with_compute; }
  void* native() override { return stream_.handle; }
  void follow_compute() override;
  u64 mark() override;
  void hold_compute(u64 mark) override;
  void follow(CommStream& other, u64 mark) override;
  bool reached(u64 mark) override;

 private:
  void wait_for(u64 mark, gpu::Stream waiting);
  gpu::Event take_event();
  void forget_reached();

  gpu::Stream compute_;
  Kind kind_;
  gpu::Stream stream_;
  u64 marked_ = 0;
  std::deque<std::pair<u64, gpu::Event>> ahead_;  // marks that may not have been reached
  std::vector<gpu::Event> free_events_;
};

}  // namespace shardbench
