// SPDX-License-Identifier: Apache-2.0
// cublasLt works on columns: a row-major matrix is the transpose of the column-major one in the
// same memory, so C = op(A)·op(B) is asked for as Cᵀ = op(B)ᵀ·op(A)ᵀ, operands exchanged.
#include "base/error.hpp"
#include "cuda/product_library.hpp"
#include "cuda/runtime.hpp"

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardbench {
namespace {

// Size that NVIDIA recommends for Hopper; older GPUs need less.
constexpr i64 workspace_bytes = i64{32} << 20;
constexpr int most_candidates = 8;

void accept(cublasStatus_t answer, const char* call) {
  if (answer != CUBLAS_STATUS_SUCCESS)
    fail(ErrorClass::internal,
        std::string(call) + ": " + cublasLtGetStatusName(answer) + ": " +
            cublasLtGetStatusString(answer));
}

/// Owns the descriptions of one product.
class Description {
 public:
  /// `memory`: any of the GPU's.
  Description(const GemmKey& g, const std::byte* memory) {
    const bool ta = g.transpose_a;
    const bool tb = g.transpose_b;
    const cudaDataType output = g.gradient_output ? CUDA_R_32F : CUDA_R_16BF;
    accept(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
    in_fp8_ = g.element_a != Element::value;
    if (in_fp8_) {
      // Sums within tensor cores are short of fp32: good enough for activations, as Transformer
      // Engine has it, and not for gradients.
      const std::int8_t fast = g.element_a == g.element_b ? 1 : 0;
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
      // Set scales before algorithms are chosen: an algorithm must be able to scale by numbers in
      // memory.
      set_scales(memory, memory);
    }
    set_transpose(CUBLASLT_MATMUL_DESC_TRANSA, tb);
    set_transpose(CUBLASLT_MATMUL_DESC_TRANSB, ta);
    left_ = layout(type_of(g.element_b), tb ? g.k : g.n, tb ? g.n : g.k, g.ldb);
    right_ = layout(type_of(g.element_a), ta ? g.m : g.k, ta ? g.k : g.m, g.lda);
    output_ = layout(output, g.n, g.m, g.ldc);
    if (g.batch == 1) return;
    set_batch(left_, g.batch, g.step_b);
    set_batch(right_, g.batch, g.step_a);
    set_batch(output_, g.batch, g.step_c);
  }
  ~Description() {
    (void)cublasLtMatrixLayoutDestroy(left_);
    (void)cublasLtMatrixLayoutDestroy(right_);
    (void)cublasLtMatrixLayoutDestroy(output_);
    (void)cublasLtMatmulDescDestroy(product_);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  std::vector<cublasLtMatmulAlgo_t> algorithms(
      cublasLtHandle_t handle, std::uint32_t alignment) const {
    cublasLtMatmulPreference_t wishes = nullptr;
    accept(cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
    const auto most_workspace = static_cast<std::size_t>(workspace_bytes);
    wish(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
    for (const auto operand :
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      wish(wishes, operand, alignment);
    std::array<cublasLtMatmulHeuristicResult_t, most_candidates> found{};
    int count = 0;
    const cublasStatus_t answer = cublasLtMatmulAlgoGetHeuristic(handle, product_, left_, right_,
        output_, output_, wishes, most_candidates, found.data(), &count);
    (void)cublasLtMatmulPreferenceDestroy(wishes);
    accept(answer, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i)
      if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(found[static_cast<std::size_t>(i)].algo);
    return algorithms;
  }

  void run(cublasLtHandle_t handle, const Gemm& g, const cublasLtMatmulAlgo_t& algorithm,
      void* workspace, gpu::Stream stream) const {
    if (in_fp8_) set_scales(g.unit_b, g.unit_a);
    const float one = 1;
    const float beta = g.accumulate == Accumulate::yes ? 1.0F : 0.0F;
    accept(cublasLtMatmul(handle, product_, &one, g.b, left_, g.a, right_, &beta, g.c, output_, g.c,
               output_, &algorithm, workspace, static_cast<std::size_t>(workspace_bytes),
               static_cast<cudaStream_t>(stream.handle)),
        "cublasLtMatmul");
  }

 private:
  static cublasLtMatrixLayout_t layout(cudaDataType type, i64 rows, i64 columns, i64 stride) {
    cublasLtMatrixLayout_t made = nullptr;
    accept(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
               static_cast<std::uint64_t>(columns), stride),
        "cublasLtMatrixLayoutCreate");
    return made;
  }
  static cudaDataType type_of(Element element) {
    if (element == Element::value) return CUDA_R_16BF;
    return element == Element::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
  }
  static void set_batch(cublasLtMatrixLayout_t layout, i64 batch, std::int64_t step) {
    const auto count = static_cast<std::int32_t>(batch);
    accept(cublasLtMatrixLayoutSetAttribute(
               layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
    accept(cublasLtMatrixLayoutSetAttribute(
               layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
        "cublasLtMatrixLayoutSetAttribute");
  }
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    accept(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
  }
  void set_scales(const void* left, const void* right) const {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, left);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, right);
  }
  void set_transpose(cublasLtMatmulDescAttributes_t operand, bool transposed) const {
    set(operand, transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  }
  template <typename T>
  static void wish(cublasLtMatmulPreference_t wishes,
      cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    accept(cublasLtMatmulPreferenceSetAttribute(wishes, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasLtMatmulDesc_t product_ = nullptr;
  bool in_fp8_ = false;
  cublasLtMatrixLayout_t left_ = nullptr;
  cublasLtMatrixLayout_t right_ = nullptr;
  cublasLtMatrixLayout_t output_ = nullptr;
};

class CublasLtProduct final : public PreparedProduct {
 public:
  CublasLtProduct(cublasLtHandle_t handle, std::byte* workspace, const GemmKey& key)
      : handle_(handle),
        workspace_(workspace),
        description_(key, workspace),
        algorithms_(description_.algorithms(handle, static_cast<std::uint32_t>(key.alignment))) {
    if (algorithms_.empty())
      fail(ErrorClass::internal,
          "cublasLt has no algorithm for a product of " + std::to_string(key.m) + " x " +
              std::to_string(key.n) + " x " + std::to_string(key.k));
  }
  std::size_t candidates() const override { return algorithms_.size(); }
  void run(gpu::Stream stream, const Gemm& gemm, std::size_t candidate) override {
    description_.run(handle_, gemm, algorithms_[candidate], workspace_, stream);
  }

 private:
  cublasLtHandle_t handle_;
  std::byte* workspace_;
  Description description_;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
};

class CublasLtLibrary final : public ProductLibrary {
 public:
  CublasLtLibrary() : workspace_(gpu::allocate(workspace_bytes)) {
    if (workspace_ == nullptr)
      fail({.kind = ErrorClass::oom,
          .message = "out of memory: no room for the workspace of cublasLt",
          .memory_class = "workspace",
          .bytes_requested = static_cast<u64>(workspace_bytes)});
    accept(cublasLtCreate(&handle_), "cublasLtCreate");
  }
  ~CublasLtLibrary() override {
    (void)cublasLtDestroy(handle_);
    gpu::release(workspace_);
  }
  CublasLtLibrary(const CublasLtLibrary&) = delete;
  CublasLtLibrary& operator=(const CublasLtLibrary&) = delete;

  std::unique_ptr<PreparedProduct> prepare(const GemmKey& key) override {
    return std::make_unique<CublasLtProduct>(handle_, workspace_, key);
  }

  std::string name() const override {
    const std::size_t version = cublasLtGetVersion();
    return "cublasLt " + std::to_string(version / 10000) + "." +
        std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  }

 private:
  std::byte* workspace_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<ProductLibrary> make_product_library() {
  return std::make_unique<CublasLtLibrary>();
}

}  // namespace shardbench
