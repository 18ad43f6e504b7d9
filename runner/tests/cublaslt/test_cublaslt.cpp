// SPDX-License-Identifier: Apache-2.0
// What cublasLt is told of a product, and when: its functions are fakes that write down which
// attributes a description has as algorithms are asked for, and as the product runs.
#include "cuda/product_library.hpp"

#include <doctest/doctest.h>

#include <cublasLt.h>

#include <cstring>
#include <map>
#include <vector>

using namespace shardbench;

namespace {

using Attributes = std::map<int, std::vector<unsigned char>>;

/// The description under work: the tests make one at a time.
Attributes described;
Attributes when_asked;
Attributes when_run;
std::vector<std::int32_t> batches;  // batches of the layouts, in the order of their making
std::vector<std::int64_t> steps;

template <typename T>
T value_of(const Attributes& attributes, int attribute) {
  T value{};
  const auto found = attributes.find(attribute);
  if (found != attributes.end()) std::memcpy(&value, found->second.data(), sizeof value);
  return value;
}

GemmKey product(Element a, Element b) {
  GemmKey key{};
  key.transpose_b = true;
  key.m = 32;
  key.n = 48;
  key.k = key.lda = key.ldb = 64;
  key.ldc = 48;
  key.alignment = 16;
  key.element_a = a;
  key.element_b = b;
  return key;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t*) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t) {
  return "status";
}
const char* cublasLtGetStatusString(cublasStatus_t) {
  return "what it means";
}
size_t cublasLtGetVersion() {
  return 130100;
}
cublasStatus_t cublasLtMatmulDescCreate(
    cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t) {
  described.clear();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(value);
  described[attribute].assign(first, first + bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t*, cudaDataType, uint64_t, uint64_t, int64_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t attribute, const void* value, size_t) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    steps.push_back(*static_cast<const std::int64_t*>(value));
  else
    batches.push_back(*static_cast<const std::int32_t*>(value));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t*) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
// NOLINTBEGIN(readability-function-size): the library's parameters.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* found, int* count) {
  when_asked = described;
  found[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
    cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*, const void*,
    cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*,
    size_t, cudaStream_t) {
  when_run = described;
  return CUBLAS_STATUS_SUCCESS;
}
// NOLINTEND(readability-function-size)

}  // extern "C"

TEST_CASE("a product in FP8 has places of its scales when algorithms are asked for") {
  const auto library = make_product_library();
  const auto prepared = library->prepare(product(Element::e4m3, Element::e5m2));
  CHECK(value_of<const void*>(when_asked, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) != nullptr);
  CHECK(value_of<const void*>(when_asked, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) != nullptr);
  // Gradients are summed in whole fp32.
  CHECK(value_of<std::int8_t>(when_asked, CUBLASLT_MATMUL_DESC_FAST_ACCUM) == 0);
  const float unit_a = 1;
  const float unit_b = 2;
  Gemm gemm;
  gemm.unit_a = &unit_a;
  gemm.unit_b = &unit_b;
  prepared->run({}, gemm, 0);
  // Operands change places: cublasLt works on columns.
  CHECK(value_of<const void*>(when_run, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) == &unit_b);
  CHECK(value_of<const void*>(when_run, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) == &unit_a);
}

TEST_CASE("a product in bf16 has no scales") {
  const auto library = make_product_library();
  const auto prepared = library->prepare(product(Element::value, Element::value));
  CHECK(when_asked.count(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) == 0);
  prepared->run({}, {}, 0);
  CHECK(when_run.count(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) == 0);
}

TEST_CASE("several products of one shape are one, with steps between operands") {
  const auto library = make_product_library();
  GemmKey key = product(Element::value, Element::value);
  (void)library->prepare(key);
  CHECK(batches.empty());
  key.batch = 4;
  key.step_a = 1;
  key.step_b = 2;
  key.step_c = 3;
  (void)library->prepare(key);
  CHECK(batches == std::vector<std::int32_t>{4, 4, 4});
  CHECK(steps == std::vector<std::int64_t>{2, 1, 3});
}
