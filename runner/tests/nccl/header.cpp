// SPDX-License-Identifier: Apache-2.0
// Our declarations of NCCL against its own. Compiled where nccl.h is found; nothing runs.
#include "nccl/nccl_table.hpp"

#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace shardbench {

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(NcclResult) == sizeof(ncclResult_t));
static_assert(sizeof(NcclDtype) == sizeof(ncclDataType_t));
static_assert(sizeof(NcclReduction) == sizeof(ncclRedOp_t));

constexpr bool is(NcclResult ours, ncclResult_t theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(is(NcclResult::success, ncclSuccess));
static_assert(is(NcclResult::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(is(NcclResult::system_error, ncclSystemError));
static_assert(is(NcclResult::internal_error, ncclInternalError));
static_assert(is(NcclResult::invalid_argument, ncclInvalidArgument));
static_assert(is(NcclResult::invalid_usage, ncclInvalidUsage));
static_assert(is(NcclResult::remote_error, ncclRemoteError));
static_assert(is(NcclResult::in_progress, ncclInProgress));
static_assert(static_cast<int>(NcclDtype::fp32) == static_cast<int>(ncclFloat32));
static_assert(static_cast<int>(NcclDtype::fp64) == static_cast<int>(ncclFloat64));
static_assert(static_cast<int>(NcclDtype::bf16) == static_cast<int>(ncclBfloat16));
static_assert(static_cast<int>(NcclReduction::sum) == static_cast<int>(ncclSum));
static_assert(static_cast<int>(NcclReduction::max) == static_cast<int>(ncclMax));

// NCCL copies as many bytes as the config says it has, and takes the rest as not set: ours is
// the beginning of theirs.
static_assert(std::is_standard_layout_v<NcclConfig>);
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(NcclConfig, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
#if NCCL_VERSION_CODE >= 22700
static_assert(offsetof(NcclConfig, traffic_class) == offsetof(ncclConfig_t, trafficClass));
#endif
static_assert(nccl_undefined == NCCL_CONFIG_UNDEF_INT);
static_assert(nccl_oldest_version == NCCL_VERSION(2, 18, 0));

namespace {

constexpr ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;

}  // namespace

#if NCCL_VERSION_CODE >= 21900
using Register = ncclResult_t (*)(ncclComm_t, void*, std::size_t, void**);
using Deregister = ncclResult_t (*)(ncclComm_t, void*);
static_assert(std::is_convertible_v<decltype(&ncclCommRegister), Register>);
static_assert(std::is_convertible_v<decltype(&ncclCommDeregister), Deregister>);
#endif

static_assert(initial.magic == NcclConfig{}.magic);

}  // namespace shardbench
