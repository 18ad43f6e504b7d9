// SPDX-License-Identifier: Apache-2.0
#include "ordered_nccl.hpp"

#include "ordered_gpu.hpp"

namespace shardbench {

struct NcclComm {
  i64 size;
  i64 index;
};

namespace ordered {
namespace {

NcclOrder kept_order = NcclOrder::by_nccl;
// Stands for the place in the order of launches that each kernel of NCCL takes.
const char launch_order = 0;

i64 bytes_of(std::size_t count, NcclDtype dtype) {
  const i64 size = dtype == NcclDtype::bf16 ? 2 : dtype == NcclDtype::fp32 ? 4 : 8;
  return static_cast<i64>(count) * size;
}

NcclResult operate(void* stream, const char* what, const Range& in, const Range& out) {
  std::vector<Range> writes{out};
  if (kept_order == NcclOrder::by_events) writes.push_back({&launch_order, 1});
  work({stream}, what, {in}, writes);
  return NcclResult::success;
}

struct Functions {
  static NcclResult get_version(int* version) {
    *version = nccl_oldest_version;
    return NcclResult::success;
  }
  static NcclResult get_unique_id(NcclUniqueId*) { return NcclResult::success; }
  static NcclResult init(NcclComm** comm, int size, NcclUniqueId, int index, NcclConfig*) {
    *comm = new NcclComm{size, index};
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
  static NcclResult group() { return NcclResult::success; }
  // NOLINTBEGIN(readability-function-size): the library's parameters.
  static NcclResult all_reduce(const void* in, void* out, std::size_t count, NcclDtype dtype,
                               NcclReduction, NcclComm*, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, "all_reduce", {in, bytes}, {out, bytes});
  }
  static NcclResult reduce_scatter(const void* in, void* out, std::size_t count,
                                   NcclDtype dtype, NcclReduction, NcclComm* comm,
                                   void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, "reduce_scatter", {in, comm->size * bytes}, {out, bytes});
  }
  static NcclResult all_gather(const void* in, void* out, std::size_t count, NcclDtype dtype,
                               NcclComm* comm, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, "all_gather", {in, bytes}, {out, comm->size * bytes});
  }
  static NcclResult broadcast(const void* in, void* out, std::size_t count, NcclDtype dtype,
                              int, NcclComm*, void* stream) {
    const i64 bytes = bytes_of(count, dtype);
    return operate(stream, "broadcast", {in, bytes}, {out, bytes});
  }
  // NOLINTEND(readability-function-size)
  static NcclResult send(const void* data, std::size_t count, NcclDtype dtype, int, NcclComm*,
                         void* stream) {
    return operate(stream, "send", {data, bytes_of(count, dtype)}, {nullptr, 0});
  }
  static NcclResult receive(void* data, std::size_t count, NcclDtype dtype, int, NcclComm*,
                            void* stream) {
    return operate(stream, "receive", {nullptr, 0}, {data, bytes_of(count, dtype)});
  }
  static const char* error_string(NcclResult) { return ""; }
  static const char* last_error(NcclComm*) { return ""; }
};

}  // namespace

NcclTable nccl(NcclOrder order) {
  kept_order = order;
  using F = Functions;
  return {F::get_version, F::get_unique_id, F::init,           F::get_async_error,
          F::good,        F::good,          F::destroy,        F::group,
          F::group,       F::all_reduce,    F::reduce_scatter, F::all_gather,
          F::broadcast,   F::send,          F::receive,        F::error_string,
          F::last_error};
}

}  // namespace ordered
}  // namespace shardbench
