// SPDX-License-Identifier: Apache-2.0
// A stream of the GPU for communication, and its order against the one that computes.
#pragma once

#include "cuda/gpu.hpp"
#include "nccl/comm_stream.hpp"
#include "parallel/layout.hpp"

#include <deque>
#include <string_view>
#include <utility>
#include <vector>

namespace shardbench {

class GpuCommStream final : public CommStream {
 public:
  /// `shared_with_compute` is the stream of `compute` itself, for operations that are waited for at
  /// once anyway: they need no further order.
  enum class Kind { own, shared_with_compute };
  /// `goes_first`: as a habit.
  GpuCommStream(gpu::Stream compute, Kind kind, bool goes_first = false);
  ~GpuCommStream() override;
  GpuCommStream(const GpuCommStream&) = delete;
  GpuCommStream& operator=(const GpuCommStream&) = delete;

  bool computes() const override { return kind_ == Kind::shared_with_compute; }
  void* native() override { return stream_.handle; }
  void follow_compute() override;
  void go_first() override;
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
  bool goes_first_;
  gpu::Stream stream_;
  u64 marked_ = 0;
  std::deque<std::pair<u64, gpu::Event>> ahead_;  // marks that may not have been reached
  std::vector<gpu::Event> free_events_;
};

/// One stream per kind of communication, of high priority. TP uses the computing stream if nothing
/// of TP is hidden: immediate waits cost no hand-over there.
class CommStreams {
 public:
  CommStreams(gpu::Stream compute, const Habits& habits);
  GpuCommStream& of(std::string_view group);
  /// How many of them a rank of the layout gives work to.
  int used_by(const Layout& layout);

 private:
  GpuCommStream tensor_;
  GpuCommStream pipeline_;
  GpuCommStream exchanges_;  // exchanges of cp and ep: must not queue behind gradients that nothing
                             // waits for yet
  GpuCommStream data_;
  GpuCommStream replicas_;  // runs under the reductions of the units below
};

}  // namespace shardbench
