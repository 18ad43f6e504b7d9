// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend API, found at run time: the program builds and starts without cuDNN. The
// numbers are our own; tests/cudnn/header.cpp holds them against cuDNN's header where there is
// one.
#pragma once

#include "device/dtype.hpp"

#include <cstddef>
#include <string>

namespace shardbench {

enum class CudnnType : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  void_ptr = 6,
  heuristic_mode = 8,
  pointwise_mode = 14,
  descriptor = 15,
  reduction = 18,
  text = 24
};
enum class CudnnData : int { fp32 = 0, int32 = 4, bf16 = 9, boolean = 11 };
enum class CudnnPointwise : int {
  add = 0,
  multiply = 1,
  divide = 6,
  subtract = 9,
  exponential = 13,
  logarithm = 15,
  identity = 21,
  greater_or_equal = 303,
  index = 501,
  select = 601
};
enum class CudnnReduction : int { sum = 0, max = 3 };
enum class CudnnKind : int {
  pointwise = 0,
  engine_config = 3,
  heuristics = 4,
  plan = 5,
  pointwise_operation = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  matmul_operation = 19,
  reduction = 21,
  reduction_operation = 22,
  reshape_operation = 31,
  device_properties = 38
};
enum class CudnnAttribute : int {
  pointwise_mode = 0,
  pointwise_precision = 1,
  pointwise_axis = 9,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_properties = 204,
  config_workspace = 303,
  plan_handle = 400,
  plan_config = 401,
  plan_workspace = 402,
  pointwise_descriptor = 750,
  pointwise_x = 751,
  pointwise_b = 752,
  pointwise_y = 753,
  pointwise_t = 758,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  matmul_precision = 1500,
  matmul_a = 1520,
  matmul_b = 1521,
  matmul_c = 1522,
  matmul_descriptor = 1523,
  reduction_operator = 1600,
  reduction_precision = 1601,
  reduction_x = 1610,
  reduction_y = 1611,
  reduction_descriptor = 1612,
  reshape_x = 2200,
  reshape_y = 2201,
  properties_json = 2702
};
constexpr int cudnn_success = 0;
constexpr int cudnn_heuristic_mode_a = 3;
/// The first one whose engines clear the accumulated gradient to q themselves.
constexpr std::size_t cudnn_oldest_version = 90600;

using CudnnHandle = void*;
using CudnnDescriptor = void*;

struct CudnnTable {
  std::size_t (*get_version)() = nullptr;
  int (*create)(CudnnHandle* handle) = nullptr;
  int (*destroy)(CudnnHandle handle) = nullptr;
  int (*set_stream)(CudnnHandle handle, void* stream) = nullptr;
  const char* (*get_error_string)(int status) = nullptr;
  int (*create_descriptor)(CudnnKind kind, CudnnDescriptor* descriptor) = nullptr;
  int (*destroy_descriptor)(CudnnDescriptor descriptor) = nullptr;
  int (*set_attribute)(CudnnDescriptor descriptor, CudnnAttribute name, CudnnType type, i64 count,
      const void* values) = nullptr;
  int (*get_attribute)(CudnnDescriptor descriptor, CudnnAttribute name, CudnnType type, i64 most,
      i64* count, void* values) = nullptr;
  int (*finalize)(CudnnDescriptor descriptor) = nullptr;
  int (*execute)(CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor pack) = nullptr;
};

/// cuDNN as loaded, or the sentence that says why not.
struct CudnnLibrary {
  CudnnTable table;
  std::size_t version = 0;
  std::string refusal;
};

/// Loads the library that SHARDBENCH_CUDNN names, else libcudnn.so.9; it stays loaded. None
/// if that variable is "off".
CudnnLibrary load_cudnn();

/// "9.19.0".
std::string cudnn_version_name(std::size_t version);

}  // namespace shardbench
