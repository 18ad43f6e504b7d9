// SPDX-License-Identifier: Apache-2.0
// NCCL's communicators of one rank, from their making to their end. Any of them can be aborted
// at any point. If they do not block, whatever is still in progress is polled here, with a
// deadline of our own, and nothing else of the program calls NCCL meanwhile. If they block, a
// second thread has the deadline, and may abort them (call_guard.hpp).
//
// Kernels of several communicators on one GPU must not wait for each other in a circle over the
// ranks: see NcclOrder. Whatever keeps them from it, the host's calls are in one order on all
// ranks (tests/nccl/layouts.cpp), and each stream keeps its own.
#pragma once

#include "communication/communicator.hpp"
#include "nccl/call_guard.hpp"
#include "nccl/comm_stream.hpp"
#include "nccl/nccl_table.hpp"

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace shardbench {

class NcclCommunicator;

/// Services of a rank for NCCL.
struct NcclHost {
  /// The id that member 0 of the group has made; `own` is that on member 0. Collective.
  std::function<NcclUniqueId(const Group& group, const NcclUniqueId& own)> exchange_id;
  /// Called between two polls: moves the sockets, which bring errors of peers, and sleeps a
  /// moment.
  std::function<void()> pause;
  /// How long one wait may take, and how long an operation may be the device's next.
  double limit_s = 0;
  NcclOrder order = NcclOrder::by_nccl;
  /// How many blocks a kernel may have; nothing: as many as NCCL likes.
  std::optional<int> most_blocks = std::nullopt;
  NcclCalls calls = NcclCalls::polled;
};

/// Gives each member the id that member 0 made, through `sockets`, a communicator of host memory.
NcclUniqueId share_id(Communicator& sockets, const NcclUniqueId& own);

class NcclWorld {
 public:
  /// `table` outlives it.
  NcclWorld(const NcclTable& table, NcclHost host);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  /// The communicator of these members on that stream, made when it is first asked for; groups
  /// that differ by name alone share it. Collective over the group.
  NcclComm* communicator(const Group& group, i64 index, CommStream& stream);

  /// Calls NCCL, and returns when `comm` has taken the request. Otherwise the error that ends this
  /// rank names it: "`what` in group …".
  void run(NcclComm* comm, const Group& group, const std::string& what,
      const std::function<NcclResult()>& call);

  /// Memory that operations use from now on: NCCL may send from it and into it without a copy.
  /// Where it refuses, operations copy as before.
  void register_memory(void* data, i64 bytes);
  /// Registered bytes of all communicators together.
  i64 registered_bytes() const { return registered_bytes_; }
  /// Checks while the host waits for the device: ends the rank if NCCL reports an error, or if an
  /// operation does not end.
  void check();
  /// Frees what peers may be waiting for, when this rank fails. Each communicator once, all in
  /// one group: an abort waits for its communicator's stream, and a kernel there may stand
  /// behind another communicator's, which ends only when that is aborted too.
  void abort_all();
  /// The end of a good run, when the device has done all work. Collective over the world.
  void finalize();

  const NcclTable& table() const { return table_; }
  double limit_s() const { return host_.limit_s; }

 private:
  friend class NcclCommunicator;
  struct CommEntry {
    NcclComm* comm;
    Group group;
    CommStream* stream;
    std::vector<void*> registered;
  };
  void deregister(CommEntry& made);

  /// Keeps one order around an operation of `comm` on `stream`: called before and after it. If NCCL
  /// does not keep the host's order, the stream waits for the last operation of another
  /// communicator.
  void take_turn(const NcclComm* comm, CommStream& stream);
  void took_turn(const NcclComm* comm, CommStream& stream, u64 mark);

  void settle(NcclComm* comm, const Group& group, const std::string& what, NcclResult state);
  [[noreturn]] void fail_with(
      NcclComm* comm, const Group& group, const std::string& what, NcclResult result);

  NcclResult guarded(
      const Group& group, const std::string& what, const std::function<NcclResult()>& call);

  const NcclTable& table_;
  NcclHost host_;
  std::optional<CallGuard> guard_;
  std::vector<CommEntry> made_;
  i64 registered_bytes_ = 0;
  struct Turn {
    const NcclComm* comm = nullptr;
    CommStream* stream = nullptr;
    u64 mark = 0;
  };
  Turn last_;
  std::list<NcclCommunicator*> users_;
};

}  // namespace shardbench
