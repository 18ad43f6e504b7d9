// SPDX-License-Identifier: Apache-2.0
#include "ordered_nccl.hpp"

#include "communication/communicator.hpp"
#include "ordered_gpu.hpp"

namespace shardbench {

struct NcclComm {
  i64 size;
  i64 index;
  std::string group;
  std::string members;
};

namespace ordered {
namespace {

NcclOrder kept_order = NcclOrder::by_nccl;
// Stands for the place in the order of launches that each kernel of NCCL takes.
const char launch_order = 0;
u64 calls = 0;  // calls to NCCL; messages of a group are one
int group_depth = 0;

i64 bytes_of(std::size_t count, NcclDtype dtype) {
  const i64 size = dtype == NcclDtype::bf16 ? 2 : dtype == NcclDtype::fp32 ? 4 : 8;
  return static_cast<i64>(count) * size;
}

/// Bytes sent by this member, or to it by a receive.
struct SentBytes {
  i64 bytes;
  i64 peer = -1;
};
NcclResult operate(void* stream, const NcclComm& comm, Operation operation, const Range& in,
    const Range& out, const SentBytes& sent) {
  std::vector<Range> writes{out};
  if (kept_order == NcclOrder::by_events) writes.push_back({&launch_order, 1});
  if (group_depth == 0) ++calls;
  const std::string name(operation_name(operation));
  const Traffic traffic{
      comm.group, comm.members, name, comm.size, comm.index, sent.peer, sent.bytes, calls};
  work({stream}, name, {in}, writes, {.traffic = traffic});
  return NcclResult::success;
}

/// Bytes that NCCL's rings send for x bytes of each member: 2(n - 1)/n · x, or (n - 1) parts.
i64 sent_by(const NcclComm& comm, Operation operation, i64 bytes) {
  if (operation == Operation::all_reduce) return 2 * (comm.size - 1) * bytes / comm.size;
  return operation == Operation::broadcast ? bytes : (comm.size - 1) * bytes;
}

struct Functions {
  static NcclResult get_version(int* version) {
    *version = nccl_oldest_version;
    return NcclResult::success;
  }
  static NcclResult get_unique_id(NcclUniqueId*) { return NcclResult::success; }
  static NcclResult init(NcclComm** comm, int size, NcclUniqueId id, int index, NcclConfig*) {
    const std::string members = id.internal.data();
    *comm = new NcclComm{size, index, members.substr(0, members.find(' ')), members};
    return NcclResult::success;
  }
  static NcclResult get_async_error(NcclComm*, NcclResult* state) {
    *state = NcclResult::success;
    return NcclResult::success;
  }
  static NcclResult good(NcclComm*) { return NcclResult::success; }
  static NcclResult destroy(NcclComm* comm) {
    delete comm;
    return NcclResult::success;
  }
  static NcclResult group_start() {
    if (group_depth++ == 0) ++calls;
    return NcclResult::success;
  }
  static NcclResult group_end() {
    --group_depth;
    return NcclResult::success;
  }
  // NOLINTBEGIN(readability-function-size): the library's parameters.
  static NcclResult all_reduce(const void* in, void* out, std::size_t count, NcclDtype dtype,
      NcclReduction, NcclComm* comm, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, *comm, Operation::all_reduce, {in, bytes}, {out, bytes},
        {sent_by(*comm, Operation::all_reduce, bytes)});
  }
  static NcclResult reduce_scatter(const void* in, void* out, std::size_t count, NcclDtype dtype,
      NcclReduction, NcclComm* comm, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, *comm, Operation::reduce_scatter, {in, comm->size * bytes}, {out, bytes},
        {sent_by(*comm, Operation::reduce_scatter, bytes)});
  }
  static NcclResult all_gather(
      const void* in, void* out, std::size_t count, NcclDtype dtype, NcclComm* comm, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, *comm, Operation::all_gather, {in, bytes}, {out, comm->size * bytes},
        {sent_by(*comm, Operation::all_gather, bytes)});
  }
  static NcclResult broadcast(const void* in, void* out, std::size_t count, NcclDtype dtype, int,
      NcclComm* comm, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, *comm, Operation::broadcast, {in, bytes}, {out, bytes},
        {sent_by(*comm, Operation::broadcast, bytes)});
  }
  // NOLINTEND(readability-function-size)
  static NcclResult send(const void* data, std::size_t count, NcclDtype dtype, int peer,
      NcclComm* comm, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, *comm, Operation::send, {data, bytes}, {nullptr, 0}, {bytes, peer});
  }
  static NcclResult receive(
      void* data, std::size_t count, NcclDtype dtype, int peer, NcclComm* comm, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, *comm, Operation::receive, {nullptr, 0}, {data, bytes}, {bytes, peer});
  }
  static const char* error_string(NcclResult) { return ""; }
  static const char* last_error(NcclComm*) { return ""; }
};

}  // namespace

NcclTable nccl(NcclOrder order) {
  kept_order = order;
  using F = Functions;
  return {F::get_version, F::get_unique_id, F::init, F::get_async_error, F::good, F::good,
      F::destroy, F::group_start, F::group_end, F::all_reduce, F::reduce_scatter, F::all_gather,
      F::broadcast, F::send, F::receive, F::error_string, F::last_error};
}

}  // namespace ordered
}  // namespace shardbench
