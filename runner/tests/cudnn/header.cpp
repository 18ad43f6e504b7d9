// SPDX-License-Identifier: Apache-2.0
// Our numbers of cuDNN's backend API against its own. Compiled where its header is; nothing
// runs.
#include "cudnn/cudnn_table.hpp"

#include <cudnn_graph.h>

namespace shardbench {
namespace {

template <typename Ours, typename Theirs>
constexpr bool is(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

using A = CudnnAttribute;
using K = CudnnKind;
static_assert(is(CudnnType::handle, CUDNN_TYPE_HANDLE));
static_assert(is(CudnnType::data_type, CUDNN_TYPE_DATA_TYPE));
static_assert(is(CudnnType::boolean, CUDNN_TYPE_BOOLEAN));
static_assert(is(CudnnType::int64, CUDNN_TYPE_INT64));
static_assert(is(CudnnType::void_ptr, CUDNN_TYPE_VOID_PTR));
static_assert(is(CudnnType::heuristic_mode, CUDNN_TYPE_HEUR_MODE));
static_assert(is(CudnnType::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE));
static_assert(is(CudnnType::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR));
static_assert(is(CudnnType::reduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE));
static_assert(is(CudnnData::fp32, CUDNN_DATA_FLOAT));
static_assert(is(CudnnData::int32, CUDNN_DATA_INT32));
static_assert(is(CudnnData::bf16, CUDNN_DATA_BFLOAT16));
static_assert(is(CudnnData::boolean, CUDNN_DATA_BOOLEAN));
static_assert(is(CudnnPointwise::add, CUDNN_POINTWISE_ADD));
static_assert(is(CudnnPointwise::multiply, CUDNN_POINTWISE_MUL));
static_assert(is(CudnnPointwise::divide, CUDNN_POINTWISE_DIV));
static_assert(is(CudnnPointwise::subtract, CUDNN_POINTWISE_SUB));
static_assert(is(CudnnPointwise::exponential, CUDNN_POINTWISE_EXP));
static_assert(is(CudnnPointwise::logarithm, CUDNN_POINTWISE_LOG));
static_assert(is(CudnnPointwise::identity, CUDNN_POINTWISE_IDENTITY));
static_assert(is(CudnnPointwise::greater_or_equal, CUDNN_POINTWISE_CMP_GE));
static_assert(is(CudnnPointwise::index, CUDNN_POINTWISE_GEN_INDEX));
static_assert(is(CudnnPointwise::select, CUDNN_POINTWISE_BINARY_SELECT));
static_assert(is(CudnnReduction::sum, CUDNN_REDUCE_TENSOR_ADD));
static_assert(is(CudnnReduction::max, CUDNN_REDUCE_TENSOR_MAX));
static_assert(is(K::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
static_assert(is(K::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
static_assert(is(K::heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
static_assert(is(K::plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
static_assert(is(K::pointwise_operation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
static_assert(is(K::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
static_assert(is(K::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
static_assert(is(K::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
static_assert(is(K::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR));
static_assert(is(K::matmul_operation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR));
static_assert(is(K::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
static_assert(is(K::reduction_operation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR));
static_assert(is(K::reshape_operation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR));
static_assert(is(A::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE));
static_assert(is(A::pointwise_precision, CUDNN_ATTR_POINTWISE_MATH_PREC));
static_assert(is(A::pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS));
static_assert(is(A::heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE));
static_assert(is(A::heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
static_assert(is(A::heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS));
static_assert(is(A::plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
static_assert(is(A::plan_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
static_assert(is(A::plan_workspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
static_assert(is(A::pointwise_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR));
static_assert(is(A::pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
static_assert(is(A::pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
static_assert(is(A::pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
static_assert(is(A::pointwise_t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
static_assert(is(A::graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
static_assert(is(A::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS));
static_assert(is(A::tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
static_assert(is(A::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE));
static_assert(is(A::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS));
static_assert(is(A::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES));
static_assert(is(A::tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID));
static_assert(is(A::tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL));
static_assert(is(A::tensor_is_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE));
static_assert(is(A::pack_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS));
static_assert(is(A::pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
static_assert(is(A::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
static_assert(is(A::matmul_precision, CUDNN_ATTR_MATMUL_COMP_TYPE));
static_assert(is(A::matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
static_assert(is(A::matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
static_assert(is(A::matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
static_assert(is(A::matmul_descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC));
static_assert(is(A::reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR));
static_assert(is(A::reduction_precision, CUDNN_ATTR_REDUCTION_COMP_TYPE));
static_assert(is(A::reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
static_assert(is(A::reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
static_assert(is(A::reduction_descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC));
static_assert(is(A::reshape_x, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
static_assert(is(A::reshape_y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
static_assert(cudnn_success == CUDNN_STATUS_SUCCESS);
static_assert(cudnn_heuristic_mode_a == CUDNN_HEUR_MODE_A);
#if CUDNN_VERSION >= 90800
static_assert(is(CudnnType::text, CUDNN_TYPE_CHAR));
static_assert(is(K::device_properties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
static_assert(is(A::heuristics_properties, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP));
static_assert(is(A::config_workspace, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
static_assert(is(A::properties_json, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION));
#endif

}  // namespace
}  // namespace shardbench
