// SPDX-License-Identifier: Apache-2.0
// A graph of cuDNN's operations and the plan that runs it. What cuDNN refuses is no failure of
// the rank: the first refusal is kept as a sentence, and all after it does nothing.
#pragma once

#include "cudnn/cudnn_table.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace shardbench {

using Extents4 = std::array<i64, 4>;

/// Target of a graph's plan: the GPU of a handle; or a described one (cuDNN 9.8), for which cuDNN
/// names engines. With neither, the graph is only checked in itself.
struct CudnnTarget {
  CudnnHandle handle = nullptr;
  CudnnDescriptor properties = nullptr;
  bool exists() const { return handle != nullptr || properties != nullptr; }
};

/// A GPU as cuDNN describes one in JSON; null if it does not take that.
CudnnDescriptor cudnn_device_properties(const CudnnTable& table, const std::string& json);

class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnTable& table) : table_(table) {}
  ~CudnnGraph();
  CudnnGraph(const CudnnGraph&) = delete;
  CudnnGraph& operator=(const CudnnGraph&) = delete;

  /// Place of a tensor's values: memory that run() names, between operations alone, or one number
  /// of the host.
  enum class Place { memory, between, host };
  struct Tensor {
    i64 id = 0;
    CudnnDescriptor descriptor = nullptr;
    Extents4 extents{};
  };
  /// Ids count up from 1.
  Tensor tensor(const Extents4& extents, const Extents4& strides, CudnnData data, Place place);
  /// Tensor of values between operations, packed.
  Tensor between(const Extents4& extents, CudnnData data = CudnnData::fp32);

  void multiply(const Tensor& a, const Tensor& b, const Tensor& c);
  /// y = x, mode, b; `t` chooses between them.
  struct Pointwise {
    CudnnPointwise mode;
    const Tensor* x = nullptr;
    const Tensor* b = nullptr;
    const Tensor* t = nullptr;
    CudnnData precision = CudnnData::fp32;
    std::optional<i64> axis = {};  // axis of an index
  };
  void pointwise(const Pointwise& what, const Tensor& y);
  void reduce(CudnnReduction how, const Tensor& x, const Tensor& y);
  void reshape(const Tensor& x, const Tensor& y);

  /// All operations as one, and the first of cuDNN's choices of engines that can be built.
  void finish(const CudnnTarget& target);
  i64 workspace_bytes() const { return workspace_bytes_; }
  /// How many engines cuDNN has named for the graph, whether they could be built or not.
  i64 engines() const { return engines_; }
  /// Workspace of each engine by its own word, before it is built; empty if cuDNN does not tell.
  const std::vector<i64>& told_workspaces() const { return told_workspaces_; }

  struct Operand {
    i64 id;
    void* data;
  };
  /// False if cuDNN refused.
  bool run(CudnnHandle handle, const std::vector<Operand>& operands, void* workspace);

  bool good() const { return refusal_.empty(); }
  const std::string& refusal() const { return refusal_; }

 private:
  void plan(const CudnnTarget& target);
  CudnnDescriptor make(CudnnKind kind, const char* name);
  void set(CudnnDescriptor descriptor, CudnnAttribute name, CudnnType type, i64 count,
      const void* values);
  void set_descriptor(CudnnDescriptor descriptor, CudnnAttribute name, CudnnDescriptor value);
  void finalize(CudnnDescriptor descriptor);
  bool accept(int status, const char* what);
  void add_operation(CudnnDescriptor operation);

  const CudnnTable& table_;
  std::vector<CudnnDescriptor> made_;
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_ = nullptr;
  CudnnDescriptor plan_ = nullptr;
  i64 workspace_bytes_ = 0;
  i64 engines_ = 0;
  std::vector<i64> told_workspaces_;
  i64 last_id_ = 0;
  std::string building_;
  std::string refusal_;
};

}  // namespace shardbench
