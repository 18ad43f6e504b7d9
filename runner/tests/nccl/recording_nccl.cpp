// SPDX-License-Identifier: Apache-2.0
#include "recording_nccl.hpp"

#include "base/clock.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

namespace shardbench {

struct NcclComm {
  NcclFate fate = {};
  i64 size = 0;
  i64 index = 0;
  int polls_left = 0;
  bool is_busy = false;  // busy until the test says otherwise
  bool hangs = false;
  bool blocks = false;
  std::atomic<bool> is_aborted = false;
  NcclResult error = NcclResult::success;
};

namespace {

RecordingNccl* current = nullptr;

}  // namespace

/// The C functions of the table, which reach the current recording.
struct RecordingFunctions {
  static NcclResult get_version(int* version) {
    *version = 22809;
    return NcclResult::success;
  }
  static NcclResult get_unique_id(NcclUniqueId* id) {
    std::snprintf(id->internal.data(), id->internal.size(), "id %lld",
        static_cast<long long>(++current->ids_));
    return NcclResult::success;
  }
  static NcclResult init(
      NcclComm** comm, int size, NcclUniqueId id, int index, NcclConfig* config) {
    if (config->magic != 0xcafebeef || config->size != sizeof(NcclConfig))
      current->misuse("init with a config that NCCL would not know");
    if (index < 0 || index >= size || size < 2) current->misuse("init of no place in a group");
    current->most_blocks.push_back(config->max_ctas);
    current->comms_.push_back(std::make_unique<NcclComm>());
    NcclComm& made = *current->comms_.back();
    made.fate = {current->rank_, id.internal.data()};
    made.size = size;
    made.index = index;
    made.blocks = config->blocking != 0;
    *comm = &made;
    return current->begin(**comm);
  }
  static NcclResult get_async_error(NcclComm* comm, NcclResult* state) {
    if (!current->usable(*comm, "poll")) return NcclResult::invalid_argument;
    if (comm->is_busy && current->is_over_()) comm->is_busy = false;
    const bool busy = comm->hangs || comm->polls_left > 0 || comm->is_busy;
    *state = busy ? NcclResult::in_progress : comm->error;
    comm->polls_left = std::max(0, comm->polls_left - 1);
    return NcclResult::success;
  }
  static NcclResult abort(NcclComm* comm) {
    if (comm->fate.aborted++ > 0) current->misuse("second abort");
    if (comm->fate.destroyed > 0) current->misuse("abort of a destroyed communicator");
    if (current->group_depth_ == 0 && current->another_lives(*comm))
      current->misuse("abort alone while another communicator's kernel may stand before it");
    current->aborts.push_back("abort " + comm->fate.comm);
    comm->is_aborted = true;
    while (current->hangs_in_abort_)
      ::pause();
    return NcclResult::success;
  }
  static NcclResult finalize(NcclComm* comm) {
    if (!current->usable(*comm, "finalize")) return NcclResult::invalid_argument;
    if (comm->fate.finalized++ > 0) current->misuse("second finalize");
    return current->begin(*comm);
  }
  static NcclResult destroy(NcclComm* comm) {
    if (!current->usable(*comm, "destroy")) return NcclResult::invalid_argument;
    if (comm->polls_left > 0) current->misuse("destroy before finalize has ended");
    if (comm->fate.finalized == 0) current->misuse("destroy without finalize");
    if (comm->fate.registered != 0) current->misuse("destroy with memory registered");
    ++comm->fate.destroyed;
    return NcclResult::success;
  }
  static NcclResult group_start() {
    ++current->group_depth_;
    current->aborts = {"group start"};
    return NcclResult::success;
  }
  static NcclResult group_end() {
    if (current->group_depth_ == 0) current->misuse("group end without start");
    --current->group_depth_;
    current->aborts.emplace_back("group end");
    return current->take_group();
  }
  // NOLINTBEGIN(readability-function-size): the library's parameters.
  static NcclResult all_reduce(const void* in, void* out, std::size_t count, NcclDtype dtype,
      NcclReduction reduction, NcclComm* comm, void* stream) {
    if (in != out) current->misuse("all-reduce out of place");
    return current->operate(comm, {Operation::all_reduce, count, dtype, reduction, -1}, stream);
  }
  static NcclResult reduce_scatter(const void*, void*, std::size_t count, NcclDtype dtype,
      NcclReduction reduction, NcclComm* comm, void* stream) {
    return current->operate(comm, {Operation::reduce_scatter, count, dtype, reduction, -1}, stream);
  }
  static NcclResult all_gather(
      const void*, void*, std::size_t count, NcclDtype dtype, NcclComm* comm, void* stream) {
    return current->operate(comm, {Operation::all_gather, count, dtype, {}, -1}, stream);
  }
  static NcclResult broadcast(const void*, void*, std::size_t count, NcclDtype dtype, int root,
      NcclComm* comm, void* stream) {
    return current->operate(comm, {Operation::broadcast, count, dtype, {}, root}, stream);
  }
  // NOLINTEND(readability-function-size)
  static NcclResult send(
      const void*, std::size_t count, NcclDtype dtype, int peer, NcclComm* comm, void* stream) {
    return current->operate(comm, {Operation::send, count, dtype, {}, peer}, stream);
  }
  static NcclResult receive(
      void*, std::size_t count, NcclDtype dtype, int peer, NcclComm* comm, void* stream) {
    return current->operate(comm, {Operation::receive, count, dtype, {}, peer}, stream);
  }
  static NcclResult register_memory(
      NcclComm* comm, void* buffer, std::size_t bytes, void** handle) {
    if (!current->usable(*comm, "register")) return NcclResult::invalid_argument;
    if (comm->polls_left > 0) current->misuse("register with a communicator in progress");
    if (buffer == nullptr || bytes == 0) current->misuse("register of no memory");
    if (current->refuses_memory_) return NcclResult::invalid_usage;
    *handle = buffer;
    ++comm->fate.registered;
    return NcclResult::success;
  }
  static NcclResult deregister(NcclComm* comm, void* handle) {
    if (!current->usable(*comm, "deregister")) return NcclResult::invalid_argument;
    if (comm->fate.finalized > 0) current->misuse("deregister after finalize");
    if (handle == nullptr || comm->fate.registered == 0)
      current->misuse("deregister of what is not registered");
    --comm->fate.registered;
    return current->begin(*comm);
  }
  static const char* error_string(NcclResult result) {
    return result == NcclResult::system_error ? "unhandled system error" : "some error";
  }
  static const char* last_error(NcclComm*) { return "the cable is out"; }
};

RecordingNccl::RecordingNccl() {
  current = this;
}

RecordingNccl::~RecordingNccl() {
  current = nullptr;
}

NcclTable RecordingNccl::table() {
  using F = RecordingFunctions;
  return {F::get_version, F::get_unique_id, F::init, F::get_async_error, F::abort, F::finalize,
      F::destroy, F::group_start, F::group_end, F::all_reduce, F::reduce_scatter, F::all_gather,
      F::broadcast, F::send, F::receive, F::error_string, F::last_error, F::register_memory,
      F::deregister};
}

void RecordingNccl::fail_at(i64 request, NcclResult result, Told told) {
  fail_at_ = request;
  failure_ = result;
  told_ = told;
}

std::vector<NcclFate> RecordingNccl::fates() const {
  std::vector<NcclFate> fates;
  for (const auto& comm : comms_)
    fates.push_back(comm->fate);
  return fates;
}

void RecordingNccl::misuse(const std::string& what) {
  misuses.push_back(std::string("rank ") + std::to_string(rank_) + ": " + what);
}

bool RecordingNccl::usable(const NcclComm& comm, const char* what) {
  const bool gone = comm.fate.aborted > 0 || comm.fate.destroyed > 0;
  if (gone) misuse(std::string(what) + " of a communicator that is gone");
  if (comm.fate.rank != rank_) misuse(std::string(what) + " of another rank's communicator");
  return !gone;
}

bool RecordingNccl::another_lives(const NcclComm& comm) const {
  return std::any_of(comms_.begin(), comms_.end(), [&](const auto& other) {
    const NcclFate& fate = other->fate;
    return other.get() != &comm && fate.rank == comm.fate.rank && fate.aborted == 0 &&
        fate.destroyed == 0;
  });
}

NcclResult RecordingNccl::begin(NcclComm& comm) {
  const i64 request = requests_++;
  comm.polls_left = polls_;
  comm.hangs = request == hang_at_;
  if (comm.blocks && comm.hangs) {
    // A communicator without an address can't be aborted yet.
    while (!comm.is_aborted)
      sleep_ms(1);
    return NcclResult::internal_error;
  }
  if (comm.blocks) comm.polls_left = 0;
  if (request == fail_at_ && told_ == Told::at_once) return failure_;
  if (request == fail_at_) comm.error = failure_;
  comm.is_busy = is_over_ != nullptr && !comm.blocks;
  if (comm.blocks) return NcclResult::success;
  return comm.hangs || polls_ > 0 || comm.is_busy ? NcclResult::in_progress : NcclResult::success;
}

NcclResult RecordingNccl::operate(NcclComm* comm, const NcclCall& call, void* stream) {
  if (!usable(*comm, "use")) return NcclResult::invalid_argument;
  if (comm->polls_left > 0 || comm->hangs) misuse("use of a communicator in progress");
  if (comm->fate.finalized > 0) misuse("use of a finalized communicator");
  if (!static_cast<RecordingStream*>(stream)->follows())
    misuse("an operation that does not follow what was computed");
  const bool message = call.operation == Operation::send || call.operation == Operation::receive;
  if (message && (call.peer < 0 || call.peer >= comm->size || call.peer == comm->index))
    misuse("a message to no other member");
  const NcclItem item{comm->fate.comm, comm->size, comm->index, stream, {call}};
  group_.emplace_back(comm, item);
  if (group_depth_ > 0 && !message) misuse("a collective within a group");
  return group_depth_ > 0 ? NcclResult::success : take_group();
}

/// Calls of one communicator become one item.
NcclResult RecordingNccl::take_group() {
  if (group_depth_ > 0) return NcclResult::success;
  NcclResult result = NcclResult::success;
  const auto group = std::exchange(group_, {});
  for (std::size_t i = 0; i < group.size(); ++i) {
    std::vector<NcclItem>& own = items[rank_];
    if (i > 0 && group[i].first == group[i - 1].first) {
      own.back().calls.push_back(group[i].second.calls.front());
      continue;
    }
    own.push_back(group[i].second);
    const NcclResult begun = begin(*group[i].first);
    if (begun != NcclResult::success) result = begun;
  }
  return result;
}

u64 RecordingStream::mark() {
  follows_ = false;
  ++marks_;
  if (on_mark) on_mark(marks_);
  return marks_;
}

void RecordingStream::hold_compute(u64 mark) {
  held.push_back(mark);
  if (on_hold) on_hold();
}

}  // namespace shardbench
