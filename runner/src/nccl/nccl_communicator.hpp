// SPDX-License-Identifier: Apache-2.0
// One group's operations by NCCL, as work of a stream. The host waits for none of them: wait()
// makes the device's computation wait. Messages are kept until one of them is waited for, or
// start_messages() says that they are all, and then issued together, as opposite ones would
// wait for each other for ever.
#pragma once

#include "base/clock.hpp"
#include "communication/communicator.hpp"
#include "device/device.hpp"
#include "measurement/recorder.hpp"
#include "nccl/comm_stream.hpp"
#include "nccl/nccl_world.hpp"

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardbench {

class NcclCommunicator final : public Communicator {
 public:
  /// Collective over the group. `rank` is that of the world; `recorder` may be null.
  NcclCommunicator(NcclWorld& world, Group group, i64 rank, CommStream& stream, Device& device,
      FlightRecorder* recorder = nullptr);
  ~NcclCommunicator() override;

  i64 rank() const override { return index_; }
  i64 size() const override { return static_cast<i64>(group_.members.size()); }
  bool holds_memory() const override { return false; }
  Token all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) override;
  Token reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) override;
  Token all_gather(const void* in, void* out, i64 count, Dtype dtype) override;
  Token broadcast(void* data, i64 count, Dtype dtype, i64 root) override;
  Token send(const void* data, i64 count, Dtype dtype, i64 to) override;
  Token receive(void* data, i64 count, Dtype dtype, i64 from) override;
  void start_messages() override { issue_messages(); }
  void wait(Token token) override;
  void progress() override;
  double waited_s() override;

 private:
  friend class NcclWorld;
  /// An operation that the device has been given and is not known to have done.
  struct UnderWay {
    Token token;
    Operation operation;
    u64 mark;
    u64 recorded;
  };
  /// Posted, not yet issued.
  struct Message {
    Token token;
    Operation operation;
    void* data;
    i64 count;
    Dtype dtype;
    i64 peer;
  };

  i64 member(i64 index) const { return group_.members[static_cast<std::size_t>(index)]; }
  Token issue(Operation operation, i64 bytes, const std::function<NcclResult()>& call);
  u64 give(const std::string& what, const std::function<NcclResult()>& call);
  Token post(const Message& message);
  void issue_messages();
  NcclResult call_messages(const std::vector<Message>& messages) const;
  u64 record(Operation operation, u64 sequence, i64 bytes, i64 peer);
  u64 sequence_of(const Message& message);
  void hold_compute(u64 mark);

  /// Next operation of the device here.
  std::optional<std::string> oldest() const;
  /// Ends the rank when that has not moved within the limit.
  void check_time();

  NcclWorld& world_;
  Group group_;
  i64 index_ = 0;
  CommStream& stream_;
  Device& device_;
  FlightRecorder* recorder_;
  NcclComm* comm_ = nullptr;  // null in a group of one
  u64 sequence_ = 0;
  std::vector<u64> sent_to_;
  std::vector<u64> received_from_;
  Token last_token_ = 0;
  std::vector<Message> messages_;
  std::deque<UnderWay> under_way_;
  TimePoint moved_{};  // time at which the oldest operation became the first
  u64 held_ = 0;       // the device's computation waits for all up to this mark
  std::vector<std::pair<Mark, Mark>>
      waits_;  // between which the device stood still, not yet told as time
  std::list<NcclCommunicator*>::iterator user_;
};

}  // namespace shardbench
