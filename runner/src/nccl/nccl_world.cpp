// SPDX-License-Identifier: Apache-2.0
#include "nccl_world.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "nccl/nccl_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace shardbench {
namespace {

// NCCL hands what it is asked to a thread of its own, which needs some microseconds: so long
// the host asks again and again, and lets others have the core between. The shortest sleep
// takes ten times as long, and a train step has hundreds of operations.
constexpr double spin_s = 1e-3;
// How long a rank that got an error from NCCL looks for the report of a peer that caused it.
constexpr double first_cause_s = 0.5;

}  // namespace

NcclUniqueId share_id(Communicator& sockets, const NcclUniqueId& own) {
  NcclUniqueId id = own;
  constexpr i64 words = sizeof(id.internal) / sizeof(double);
  sockets.wait(sockets.broadcast(id.internal.data(), words, Dtype::fp64, 0));
  return id;
}

NcclWorld::NcclWorld(const NcclTable& table, NcclHost host)
    : table_(table), host_(std::move(host)) {
  if (host_.calls == NcclCalls::blocking)
    guard_.emplace(
        host_.pause,
        [this](const std::string& what) {
          fail(ErrorClass::timeout,
              what + " was not accepted by NCCL within " + std::to_string(host_.limit_s) + " s");
        },
        host_.limit_s);
}

NcclWorld::~NcclWorld() {
  abort_all();
}

NcclComm* NcclWorld::communicator(const Group& group, i64 index, CommStream& stream) {
  for (const CommEntry& made : made_)
    if (made.group.members == group.members && made.stream == &stream) return made.comm;
  NcclUniqueId own;
  if (index == 0) {
    const NcclResult result = table_.get_unique_id(&own);
    if (result != NcclResult::success) fail_with(nullptr, group, "making an id", result);
  }
  const NcclUniqueId id = host_.exchange_id(group, own);
  NcclConfig config;
  config.blocking = host_.calls == NcclCalls::blocking ? 1 : 0;
  if (host_.most_blocks) config.max_ctas = *host_.most_blocks;
  NcclComm* comm = nullptr;
  const NcclResult result = guarded(group, "connecting", [&] {
    return table_.comm_init_rank_config(
        &comm, static_cast<int>(group.members.size()), id, static_cast<int>(index), &config);
  });
  if (comm != nullptr) made_.push_back({comm, group, &stream, {}});
  if (comm == nullptr && result == NcclResult::in_progress)
    fail(ErrorClass::comm_error, "NCCL gave no communicator for group " + group.name);
  settle(comm, group, "connecting", result);
  return comm;
}

void NcclWorld::run(NcclComm* comm, const Group& group, const std::string& what,
    const std::function<NcclResult()>& call) {
  settle(comm, group, what, guarded(group, what, call));
}

NcclResult NcclWorld::guarded(
    const Group& group, const std::string& what, const std::function<NcclResult()>& call) {
  return guard_ ? guard_->during(what + " in group " + group.name, call) : call();
}

/// Polls until `comm` is no longer in progress.
void NcclWorld::settle(
    NcclComm* comm, const Group& group, const std::string& what, NcclResult state) {
  if (state == NcclResult::success) return;
  const Deadline limit = Deadline::in(host_.limit_s);
  const Deadline spin = Deadline::in(spin_s);
  while (state == NcclResult::in_progress) {
    const NcclResult polled = table_.comm_get_async_error(comm, &state);
    if (polled != NcclResult::success) state = polled;
    if (state != NcclResult::in_progress) break;
    if (limit.passed())
      fail(ErrorClass::timeout,
          what + " in group " + group.name + " was not accepted by NCCL " + "within " +
              std::to_string(host_.limit_s) + " s");
    if (spin.passed())
      host_.pause();
    else
      std::this_thread::yield();
  }
  if (state != NcclResult::success) fail_with(comm, group, what, state);
}

void NcclWorld::fail_with(
    NcclComm* comm, const Group& group, const std::string& what, NcclResult result) {
  std::string message = what + " in group " + group.name +
      ": NCCL: " + table_.get_error_string(result) + " (" +
      std::to_string(static_cast<int>(result)) + ")";
  const char* detail = table_.get_last_error(comm);
  if (detail != nullptr && *detail != '\0') message += std::string("; ") + detail;
  const Deadline grace = Deadline::in(first_cause_s);
  while (!grace.passed())
    host_.pause();
  fail(ErrorClass::comm_error, message);
}

void NcclWorld::register_memory(void* data, i64 bytes) {
  if (table_.comm_register == nullptr || table_.comm_deregister == nullptr || bytes == 0) return;
  for (CommEntry& made : made_) {
    void* handle = nullptr;
    const NcclResult result =
        table_.comm_register(made.comm, data, static_cast<std::size_t>(bytes), &handle);
    if (result == NcclResult::in_progress) settle(made.comm, made.group, "registering", result);
    const bool taken = result == NcclResult::success || result == NcclResult::in_progress;
    if (!taken || handle == nullptr) continue;
    made.registered.push_back(handle);
    registered_bytes_ += bytes;
  }
}

void NcclWorld::deregister(CommEntry& made) {
  for (void* handle : std::exchange(made.registered, {}))
    run(made.comm, made.group, "deregistering",
        [&] { return table_.comm_deregister(made.comm, handle); });
}

void NcclWorld::check() {
  for (const CommEntry& made : made_) {
    NcclResult state = NcclResult::success;
    const NcclResult polled = table_.comm_get_async_error(made.comm, &state);
    if (polled != NcclResult::success) state = polled;
    if (state == NcclResult::success || state == NcclResult::in_progress) continue;
    std::string what = "work";
    for (const NcclCommunicator* user : users_)
      if (user->comm_ == made.comm && user->oldest()) what = *user->oldest();
    fail_with(made.comm, made.group, what, state);
  }
  for (NcclCommunicator* user : users_)
    user->check_time();
}

void NcclWorld::abort_all() {
  // Taken out first: an abort that fails and comes back here finds nothing left to do.
  const std::vector<CommEntry> made = std::exchange(made_, {});
  if (made.empty()) return;
  (void)table_.group_start();
  for (const CommEntry& one : made)
    (void)table_.comm_abort(one.comm);
  (void)table_.group_end();
}

void NcclWorld::take_turn(const NcclComm* comm, CommStream& stream) {
  if (host_.order != NcclOrder::by_events || last_.stream == nullptr) return;
  if (last_.comm != comm && last_.stream != &stream) stream.follow(*last_.stream, last_.mark);
}

void NcclWorld::took_turn(const NcclComm* comm, CommStream& stream, u64 mark) {
  last_ = {comm, &stream, mark};
}

void NcclWorld::finalize() {
  for (CommEntry& made : made_)
    deregister(made);
  for (const CommEntry& made : made_)
    run(made.comm, made.group, "finalizing", [&] { return table_.comm_finalize(made.comm); });
  // Destroyed ones are none that a failure could still abort.
  while (!made_.empty()) {
    const CommEntry made = std::move(made_.back());
    made_.pop_back();
    const NcclResult result =
        guarded(made.group, "destroying", [&] { return table_.comm_destroy(made.comm); });
    if (result != NcclResult::success) fail_with(nullptr, made.group, "destroying", result);
  }
}

}  // namespace shardbench
