// SPDX-License-Identifier: Apache-2.0
#include "cudnn/cudnn_graph.hpp"

#include <utility>

namespace shardbench {
namespace {

constexpr i64 byte_alignment = 16;
constexpr i64 most_configs = 16;

}  // namespace

CudnnGraph::~CudnnGraph() {
  for (auto descriptor = made_.rbegin(); descriptor != made_.rend(); ++descriptor)
    (void)table_.destroy_descriptor(*descriptor);
}

bool CudnnGraph::accept(int status, const char* what) {
  if (status == cudnn_success) return true;
  if (refusal_.empty())
    refusal_ = building_ + ": " + what + ": " + table_.get_error_string(status) + " (" +
        std::to_string(status) + ")";
  return false;
}

CudnnDescriptor CudnnGraph::make(CudnnKind kind, const char* name) {
  if (!good()) return nullptr;
  building_ = name;
  CudnnDescriptor descriptor = nullptr;
  if (!accept(table_.create_descriptor(kind, &descriptor), "making it")) return nullptr;
  made_.push_back(descriptor);
  return descriptor;
}

void CudnnGraph::set(CudnnDescriptor descriptor, CudnnAttribute name, CudnnType type, i64 count,
    const void* values) {
  if (good()) accept(table_.set_attribute(descriptor, name, type, count, values), "an attribute");
}

void CudnnGraph::set_descriptor(
    CudnnDescriptor descriptor, CudnnAttribute name, CudnnDescriptor value) {
  set(descriptor, name, CudnnType::descriptor, 1, &value);
}

void CudnnGraph::finalize(CudnnDescriptor descriptor) {
  if (good()) accept(table_.finalize(descriptor), "checking it");
}

void CudnnGraph::add_operation(CudnnDescriptor operation) {
  finalize(operation);
  operations_.push_back(operation);
}

CudnnGraph::Tensor CudnnGraph::tensor(
    const Extents4& extents, const Extents4& strides, CudnnData data, Place place) {
  const Tensor tensor{++last_id_, make(CudnnKind::tensor, "a tensor"), extents};
  const bool is_virtual = place == Place::between;
  const bool by_value = place == Place::host;
  CudnnDescriptor d = tensor.descriptor;
  set(d, CudnnAttribute::tensor_data_type, CudnnType::data_type, 1, &data);
  set(d, CudnnAttribute::tensor_dimensions, CudnnType::int64, 4, extents.data());
  set(d, CudnnAttribute::tensor_strides, CudnnType::int64, 4, strides.data());
  set(d, CudnnAttribute::tensor_id, CudnnType::int64, 1, &tensor.id);
  set(d, CudnnAttribute::tensor_alignment, CudnnType::int64, 1, &byte_alignment);
  set(d, CudnnAttribute::tensor_is_virtual, CudnnType::boolean, 1, &is_virtual);
  set(d, CudnnAttribute::tensor_is_by_value, CudnnType::boolean, 1, &by_value);
  finalize(d);
  return tensor;
}

CudnnGraph::Tensor CudnnGraph::between(const Extents4& e, CudnnData data) {
  return tensor(e, {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}, data, Place::between);
}

void CudnnGraph::multiply(const Tensor& a, const Tensor& b, const Tensor& c) {
  constexpr CudnnData precision = CudnnData::fp32;
  CudnnDescriptor how = make(CudnnKind::matmul, "a product");
  set(how, CudnnAttribute::matmul_precision, CudnnType::data_type, 1, &precision);
  finalize(how);
  CudnnDescriptor operation = make(CudnnKind::matmul_operation, "a product");
  set_descriptor(operation, CudnnAttribute::matmul_a, a.descriptor);
  set_descriptor(operation, CudnnAttribute::matmul_b, b.descriptor);
  set_descriptor(operation, CudnnAttribute::matmul_c, c.descriptor);
  set_descriptor(operation, CudnnAttribute::matmul_descriptor, how);
  add_operation(operation);
}

void CudnnGraph::pointwise(const Pointwise& what, const Tensor& y) {
  CudnnDescriptor how = make(CudnnKind::pointwise, "an operation by elements");
  set(how, CudnnAttribute::pointwise_mode, CudnnType::pointwise_mode, 1, &what.mode);
  set(how, CudnnAttribute::pointwise_precision, CudnnType::data_type, 1, &what.precision);
  if (what.axis) set(how, CudnnAttribute::pointwise_axis, CudnnType::int64, 1, &*what.axis);
  finalize(how);
  CudnnDescriptor operation = make(CudnnKind::pointwise_operation, "an operation by elements");
  set_descriptor(operation, CudnnAttribute::pointwise_descriptor, how);
  set_descriptor(operation, CudnnAttribute::pointwise_x, what.x->descriptor);
  if (what.b != nullptr) set_descriptor(operation, CudnnAttribute::pointwise_b, what.b->descriptor);
  if (what.t != nullptr) set_descriptor(operation, CudnnAttribute::pointwise_t, what.t->descriptor);
  set_descriptor(operation, CudnnAttribute::pointwise_y, y.descriptor);
  add_operation(operation);
}

void CudnnGraph::reduce(CudnnReduction kind, const Tensor& x, const Tensor& y) {
  constexpr CudnnData precision = CudnnData::fp32;
  CudnnDescriptor how = make(CudnnKind::reduction, "a reduction");
  set(how, CudnnAttribute::reduction_precision, CudnnType::data_type, 1, &precision);
  set(how, CudnnAttribute::reduction_operator, CudnnType::reduction, 1, &kind);
  finalize(how);
  CudnnDescriptor operation = make(CudnnKind::reduction_operation, "a reduction");
  set_descriptor(operation, CudnnAttribute::reduction_x, x.descriptor);
  set_descriptor(operation, CudnnAttribute::reduction_y, y.descriptor);
  set_descriptor(operation, CudnnAttribute::reduction_descriptor, how);
  add_operation(operation);
}

void CudnnGraph::reshape(const Tensor& x, const Tensor& y) {
  CudnnDescriptor operation = make(CudnnKind::reshape_operation, "a reshape");
  set_descriptor(operation, CudnnAttribute::reshape_x, x.descriptor);
  set_descriptor(operation, CudnnAttribute::reshape_y, y.descriptor);
  add_operation(operation);
}

CudnnDescriptor cudnn_device_properties(const CudnnTable& table, const std::string& json) {
  CudnnDescriptor properties = nullptr;
  if (table.create_descriptor(CudnnKind::device_properties, &properties) != cudnn_success)
    return nullptr;
  if (table.set_attribute(properties, CudnnAttribute::properties_json, CudnnType::text,
          static_cast<i64>(json.size()), json.data()) == cudnn_success &&
      table.finalize(properties) == cudnn_success)
    return properties;
  (void)table.destroy_descriptor(properties);
  return nullptr;
}

void CudnnGraph::finish(const CudnnTarget& target) {
  graph_ = make(CudnnKind::operation_graph, "the graph");
  if (target.handle != nullptr)
    set(graph_, CudnnAttribute::graph_handle, CudnnType::handle, 1, &target.handle);
  set(graph_, CudnnAttribute::graph_operations, CudnnType::descriptor,
      static_cast<i64>(operations_.size()), operations_.data());
  finalize(graph_);
  if (target.exists()) plan(target);
}

void CudnnGraph::plan(const CudnnTarget& target) {
  CudnnDescriptor heuristics = make(CudnnKind::heuristics, "cuDNN's choice of engines");
  constexpr int mode = cudnn_heuristic_mode_a;
  set_descriptor(heuristics, CudnnAttribute::heuristics_graph, graph_);
  set(heuristics, CudnnAttribute::heuristics_mode, CudnnType::heuristic_mode, 1, &mode);
  if (target.properties != nullptr)
    set_descriptor(heuristics, CudnnAttribute::heuristics_properties, target.properties);
  finalize(heuristics);
  std::vector<CudnnDescriptor> configs;
  for (i64 i = 0; i < most_configs; ++i)
    configs.push_back(make(CudnnKind::engine_config, "an engine"));
  i64 count = 0;
  if (!good() ||
      !accept(table_.get_attribute(heuristics, CudnnAttribute::heuristics_results,
                  CudnnType::descriptor, most_configs, &count, configs.data()),
          "the list of engines"))
    return;
  engines_ = count;
  for (i64 i = 0; i < count; ++i) {
    i64 bytes = 0;
    i64 got = 0;
    if (table_.get_attribute(configs[static_cast<std::size_t>(i)], CudnnAttribute::config_workspace,
            CudnnType::int64, 1, &got, &bytes) == cudnn_success)
      told_workspaces_.push_back(bytes);
  }
  // A plan would be compiled, and nothing could run it.
  if (target.handle == nullptr) {
    refusal_ = "the GPU is a description";
    return;
  }
  for (i64 i = 0; i < count; ++i) {
    CudnnDescriptor plan = make(CudnnKind::plan, "a plan");
    set(plan, CudnnAttribute::plan_handle, CudnnType::handle, 1, &target.handle);
    set_descriptor(plan, CudnnAttribute::plan_config, configs[static_cast<std::size_t>(i)]);
    if (!good()) return;
    // An engine that does not take the graph is none of ours; the next one may.
    if (table_.finalize(plan) != cudnn_success) continue;
    i64 got = 0;
    if (accept(table_.get_attribute(plan, CudnnAttribute::plan_workspace, CudnnType::int64, 1, &got,
                   &workspace_bytes_),
            "the workspace"))
      plan_ = plan;
    return;
  }
  refusal_ = "none of cuDNN's " + std::to_string(count) + " engines takes the graph";
}

bool CudnnGraph::run(CudnnHandle handle, const std::vector<Operand>& operands, void* workspace) {
  if (!good() || plan_ == nullptr) return false;
  std::vector<i64> ids;
  std::vector<void*> pointers;
  for (const Operand& operand : operands) {
    ids.push_back(operand.id);
    pointers.push_back(operand.data);
  }
  CudnnDescriptor pack = make(CudnnKind::variant_pack, "a run");
  const auto count = static_cast<i64>(operands.size());
  set(pack, CudnnAttribute::pack_ids, CudnnType::int64, count, ids.data());
  set(pack, CudnnAttribute::pack_pointers, CudnnType::void_ptr, count, pointers.data());
  set(pack, CudnnAttribute::pack_workspace, CudnnType::void_ptr, 1, &workspace);
  finalize(pack);
  if (good()) accept(table_.execute(handle, plan_, pack), "running it");
  if (pack != nullptr) {
    (void)table_.destroy_descriptor(pack);
    made_.pop_back();
  }
  return good();
}

}  // namespace shardbench
