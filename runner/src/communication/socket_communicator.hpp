// SPDX-License-Identifier: Apache-2.0
// Collectives over the mesh: direct exchange (every member sums its own part), deadlines,
// tokens.
#pragma once

#include "communication/communicator.hpp"
#include "communication/mesh.hpp"
#include "device/memory.hpp"
#include "measurement/recorder.hpp"

#include <map>
#include <string>
#include <vector>

namespace shardbench {

class SocketCommunicator final : public Communicator {
 public:
  /// `limit_s`: how long one wait may take. `recorder` may be null.
  SocketCommunicator(
      Mesh& mesh, Memory& memory, Group group, double limit_s, FlightRecorder* recorder = nullptr);
  ~SocketCommunicator() override;

  i64 rank() const override { return index_; }
  i64 size() const override { return static_cast<i64>(group_.members.size()); }
  Token all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) override;
  Token reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) override;
  Token all_gather(const void* in, void* out, i64 count, Dtype dtype) override;
  Token broadcast(void* data, i64 count, Dtype dtype, i64 root) override;
  Token send(const void* data, i64 count, Dtype dtype, i64 to) override;
  Token receive(void* data, i64 count, Dtype dtype, i64 from) override;
  void wait(Token token) override;
  void progress() override;

 private:
  struct RunningOperation {
    Operation operation;
    int pending = 0;  // messages of the current stage still under way
    bool last_stage = true;
    u64 key = 0;
    u64 recorded = 0;
    std::byte* data = nullptr;  // vector of all_reduce, or `out` of reduce_scatter
    const std::byte* own = nullptr;
    i64 count = 0;
    Dtype dtype = Dtype::fp32;
    Reduction reduction = Reduction::sum;
    Block staging;
  };

  i64 member(i64 index) const { return group_.members[static_cast<std::size_t>(index)]; }
  RunningOperation& start(Operation operation, i64 count, Dtype dtype);
  u64 next_key(RunningOperation& op, i64 bytes);
  u64 message_key(RunningOperation& op, u64 sequence, i64 peer);
  void scatter_parts(RunningOperation& op, const std::byte* in, bool uneven);
  void end_reduction(RunningOperation& op);
  void advance(RunningOperation& op);
  void advance_all();

  Mesh& mesh_;
  Memory& memory_;
  Group group_;
  i64 index_ = 0;
  double limit_s_;
  FlightRecorder* recorder_;
  u64 sequence_ = 0;
  std::map<i64, u64> sent_to_;
  std::map<i64, u64> received_from_;
  Token last_token_ = 0;
  std::map<Token, RunningOperation> started_;
  Mesh::Listener listener_;
};

}  // namespace shardbench
