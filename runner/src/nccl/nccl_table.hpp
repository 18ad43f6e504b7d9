// SPDX-License-Identifier: Apache-2.0
// NCCL's functions, found at run time: the program builds and starts without NCCL, and tests
// put a recording fake in their place. Declarations are our own; tests/nccl/header.cpp holds
// them against nccl.h where there is one.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardbench {

/// A communicator of NCCL; never looked into.
struct NcclComm;

struct NcclUniqueId {
  std::array<char, 128> internal{};
};

enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};
enum class NcclDtype : int { fp32 = 7, fp64 = 8, bf16 = 9 };
enum class NcclReduction : int { sum = 0, max = 2 };

constexpr int nccl_oldest_version = 21800;
constexpr int nccl_undefined = std::numeric_limits<int>::min();

/// ncclConfig_t as version 2.18 has it; later ones take what is missing as not set. There the
/// bytes after split_share are a gap, which 2.27 fills with the traffic class.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = nccl_oldest_version;
  int blocking = nccl_undefined;
  int cga_cluster_size = nccl_undefined;
  int min_ctas = nccl_undefined;
  int max_ctas = nccl_undefined;
  const char* net_name = nullptr;
  int split_share = nccl_undefined;
  int traffic_class = nccl_undefined;
};

/// Streams are cudaStream_t.
struct NcclTable {
  NcclResult (*get_version)(int* version) = nullptr;
  NcclResult (*get_unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*comm_init_rank_config)(
      NcclComm** comm, int size, NcclUniqueId id, int rank, NcclConfig* config) = nullptr;
  NcclResult (*comm_get_async_error)(NcclComm* comm, NcclResult* state) = nullptr;
  NcclResult (*comm_abort)(NcclComm* comm) = nullptr;
  NcclResult (*comm_finalize)(NcclComm* comm) = nullptr;
  NcclResult (*comm_destroy)(NcclComm* comm) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*all_reduce)(const void* in, void* out, std::size_t count, NcclDtype dtype,
      NcclReduction reduction, NcclComm* comm, void* stream) = nullptr;
  NcclResult (*reduce_scatter)(const void* in, void* out, std::size_t count, NcclDtype dtype,
      NcclReduction reduction, NcclComm* comm, void* stream) = nullptr;
  NcclResult (*all_gather)(const void* in, void* out, std::size_t count, NcclDtype dtype,
      NcclComm* comm, void* stream) = nullptr;
  NcclResult (*broadcast)(const void* in, void* out, std::size_t count, NcclDtype dtype, int root,
      NcclComm* comm, void* stream) = nullptr;
  NcclResult (*send)(const void* data, std::size_t count, NcclDtype dtype, int peer, NcclComm* comm,
      void* stream) = nullptr;
  NcclResult (*receive)(void* data, std::size_t count, NcclDtype dtype, int peer, NcclComm* comm,
      void* stream) = nullptr;
  const char* (*get_error_string)(NcclResult result) = nullptr;
  const char* (*get_last_error)(NcclComm* comm) = nullptr;
  // Functions of NCCL 2.19 and later; else null.
  NcclResult (*comm_register)(
      NcclComm* comm, void* buffer, std::size_t bytes, void** handle) = nullptr;
  NcclResult (*comm_deregister)(NcclComm* comm, void* handle) = nullptr;
};

/// Ways to keep kernels of several communicators on one GPU from waiting for each other in a
/// circle, over the ranks. `by_room`: all that can run at once fit on the GPU beside each other. A
/// stream has one kernel at a time, and communicators are told how many blocks a kernel may have.
/// Each kernel then starts when its stream comes to it, without waiting for another group's
/// reduction. `by_nccl`: kernels start in the order of the host's calls (2.26 and later,
/// NCCL_LAUNCH_ORDER_IMPLICIT=1). `by_events`: this program lets each wait for the end of the one
/// before.
enum class NcclOrder { by_room, by_nccl, by_events };
std::string_view nccl_order_name(NcclOrder order);
constexpr int nccl_orders_launches_from = 22600;

/// Communicators that block hand work to the GPU within each call; others by a thread that the
/// call starts, whose end is polled.
enum class NcclCalls { polled, blocking };
constexpr std::string_view nccl_calls_name(NcclCalls calls) {
  return calls == NcclCalls::blocking ? "blocking" : "polled";
}

/// NCCL as loaded, or the sentence that says why not.
struct NcclLibrary {
  NcclTable table;
  int version = 0;
  std::string refusal;
  NcclOrder order = NcclOrder::by_room;
};

/// Loads the library that SHARDBENCH_NCCL names, else libnccl.so.2; it stays loaded. Kernels
/// of several communicators are ordered by_room, unless NCCL_LAUNCH_ORDER_IMPLICIT is set: 1 means
/// by_nccl (by_events before 2.26), 0 by_events.
NcclLibrary load_nccl();

/// Blocks per kernel of each communicator, so that one kernel of each of `streams` fits on a GPU
/// with this many multiprocessors; empty if one stream has the GPU for itself.
std::optional<int> blocks_for_room(int streams, int multiprocessors);

/// "2.28.9".
std::string nccl_version_name(int version);

/// Name and value of the NCCL_* variables of the environment, sorted; the first 64 of them,
/// values cut at 256 characters.
std::vector<std::pair<std::string, std::string>> nccl_settings();

}  // namespace shardbench
