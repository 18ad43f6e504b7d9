// SPDX-License-Identifier: Apache-2.0
// An NCCL that moves nothing: it keeps what each rank asks for, in order, can stay in progress
// and report errors on request, and notes every use that the real one would punish.
#pragma once

#include "base/clock.hpp"
#include "communication/communicator.hpp"
#include "nccl/comm_stream.hpp"
#include "nccl/nccl_table.hpp"

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardbench {

struct NcclCall {
  Operation operation;
  std::size_t count;
  NcclDtype dtype;
  NcclReduction reduction;
  i64 peer;  // peer of messages; the root of a broadcast; else -1
  bool operator==(const NcclCall&) const = default;
};

/// Work that a rank gave to one stream at once: one call, or those of a group.
struct NcclItem {
  std::string comm;  // the unique id: the same on all members
  i64 size;
  i64 index;
  const void* stream;
  std::vector<NcclCall> calls;
  bool is_message() const {
    return calls.front().operation == Operation::send ||
        calls.front().operation == Operation::receive;
  }
};

/// One rank's communicator, and what became of it.
struct NcclFate {
  i64 rank;
  std::string comm;
  int finalized = 0;
  int destroyed = 0;
  int aborted = 0;
  int registered = 0;  // buffers, less those that were deregistered
};

class RecordingNccl {
 public:
  /// Becomes the one that the functions of table() reach; one at a time.
  RecordingNccl();
  ~RecordingNccl();
  RecordingNccl(const RecordingNccl&) = delete;
  RecordingNccl& operator=(const RecordingNccl&) = delete;

  static NcclTable table();

  /// Sets the rank that calls from now on.
  void as_rank(i64 rank) { rank_ = rank; }
  /// Each request is in progress for that many polls.
  void stay_in_progress(int polls) { polls_ = polls; }
  /// Keeps each request in progress until it is asked and `is_over`.
  void stay_in_progress_until(std::function<bool()> is_over) { is_over_ = std::move(is_over); }
  /// The request with this number, counted from 0 over all ranks' inits and items, stays in
  /// progress for ever.
  void hang_at(i64 request) { hang_at_ = request; }
  enum class Told { at_once, when_polled };
  void fail_at(i64 request, NcclResult result, Told told);
  /// Memory is refused.
  void refuse_memory() { refuses_memory_ = true; }
  /// Aborts never return, as where a kernel that nobody ends holds up the stream.
  void hang_in_abort() { hangs_in_abort_ = true; }

  std::map<i64, std::vector<NcclItem>> items;  // items by rank
  std::vector<std::string> misuses;
  std::vector<int> most_blocks;     // limits that the communicators were asked for
  std::vector<std::string> aborts;  // the calls of the last abort of all, in order
  std::vector<NcclFate> fates() const;

 private:
  friend struct RecordingFunctions;
  void misuse(const std::string& what);
  NcclResult begin(NcclComm& comm);
  NcclResult operate(NcclComm* comm, const NcclCall& call, void* stream);
  NcclResult take_group();
  bool usable(const NcclComm& comm, const char* what);
  bool another_lives(const NcclComm& comm) const;

  i64 rank_ = 0;
  int polls_ = 0;
  std::function<bool()> is_over_;
  i64 requests_ = 0;
  i64 hang_at_ = -1;
  i64 fail_at_ = -1;
  NcclResult failure_ = NcclResult::success;
  Told told_ = Told::at_once;
  bool hangs_in_abort_ = false;
  bool refuses_memory_ = false;
  int group_depth_ = 0;
  std::vector<std::pair<NcclComm*, NcclItem>> group_;
  std::vector<std::unique_ptr<NcclComm>> comms_;
  i64 ids_ = 0;
};

/// A stream of the recording NCCL: its operations have to stand between follow_compute() and
/// mark().
class RecordingStream final : public CommStream {
 public:
  void* native() override { return this; }
  void follow_compute() override { follows_ = true; }
  void go_first() override { went_first.push_back(marks_ + 1); }
  u64 mark() override;
  void hold_compute(u64 mark) override;
  void follow(CommStream& other, u64 mark) override { followed.emplace_back(&other, mark); }
  bool reached(u64 mark) override { return is_reached ? is_reached(mark) : mark <= done; }

  bool follows() const { return follows_; }
  u64 marks() const { return marks_; }

  std::vector<u64> held;
  std::vector<u64> went_first;  // marks of the operations that follow
  std::vector<std::pair<const CommStream*, u64>> followed;
  u64 done = std::numeric_limits<u64>::max();
  std::function<bool(u64)> is_reached;
  std::function<void(u64)> on_mark;
  std::function<void()> on_hold;

 private:
  bool follows_ = false;
  u64 marks_ = 0;
};

}  // namespace shardbench
