// SPDX-License-Identifier: Apache-2.0
// Matrix products: OpenBLAS where CMake found it, else a plain blocked loop.
#include "device/cpu_device.hpp"

#ifdef SHARDBENCH_OPENBLAS
#include <cblas.h>
#endif

#include <algorithm>

namespace shardbench {
namespace {

#ifdef SHARDBENCH_OPENBLAS

CBLAS_TRANSPOSE cblas_transpose(Transpose transpose) {
  return transpose == Transpose::yes ? CblasTrans : CblasNoTrans;
}

blasint narrow(i64 value) {
  return static_cast<blasint>(value);
}

void multiply(const Gemm& g, float) {
  cblas_sgemm(CblasRowMajor, cblas_transpose(g.transpose_a), cblas_transpose(g.transpose_b),
      narrow(g.m), narrow(g.n), narrow(g.k), 1.0F, static_cast<const float*>(g.a), narrow(g.lda),
      static_cast<const float*>(g.b), narrow(g.ldb), g.accumulate == Accumulate::yes ? 1.0F : 0.0F,
      static_cast<float*>(g.c), narrow(g.ldc));
}

void multiply(const Gemm& g, double) {
  cblas_dgemm(CblasRowMajor, cblas_transpose(g.transpose_a), cblas_transpose(g.transpose_b),
      narrow(g.m), narrow(g.n), narrow(g.k), 1.0, static_cast<const double*>(g.a), narrow(g.lda),
      static_cast<const double*>(g.b), narrow(g.ldb), g.accumulate == Accumulate::yes ? 1.0 : 0.0,
      static_cast<double*>(g.c), narrow(g.ldc));
}

// Every rank is one thread: eight ranks share two cores in the tests, and a node's ranks its
// cores.
[[maybe_unused]] const bool single_thread = [] {
  openblas_set_num_threads(1);
  return true;
}();

#else

// Rows of A are taken four at a time against a panel of B that stays in cache.
constexpr i64 panel_k = 128;
constexpr i64 panel_n = 256;

template <typename T>
T element(const void* matrix, i64 ld, Transpose transpose, i64 row, i64 column) {
  const T* data = static_cast<const T*>(matrix);
  return transpose == Transpose::yes ? data[column * ld + row] : data[row * ld + column];
}

template <typename T>
void multiply_panel(const Gemm& g, const T* panel, i64 k0, i64 k1, i64 n0, i64 n1) {
  for (i64 i = 0; i < g.m; ++i) {
    T* row = static_cast<T*>(g.c) + i * g.ldc;
    for (i64 k = k0; k < k1; ++k) {
      const T a = element<T>(g.a, g.lda, g.transpose_a, i, k);
      const T* b = panel + (k - k0) * panel_n;
      for (i64 j = n0; j < n1; ++j)
        row[j] += a * b[j - n0];
    }
  }
}

template <typename T>
void multiply(const Gemm& g, T) {
  if (g.accumulate == Accumulate::no)
    for (i64 i = 0; i < g.m; ++i)
      std::fill_n(static_cast<T*>(g.c) + i * g.ldc, g.n, T(0));
  T panel[panel_k * panel_n];
  for (i64 n0 = 0; n0 < g.n; n0 += panel_n) {
    const i64 n1 = std::min(g.n, n0 + panel_n);
    for (i64 k0 = 0; k0 < g.k; k0 += panel_k) {
      const i64 k1 = std::min(g.k, k0 + panel_k);
      for (i64 k = k0; k < k1; ++k)
        for (i64 j = n0; j < n1; ++j)
          panel[(k - k0) * panel_n + j - n0] = element<T>(g.b, g.ldb, g.transpose_b, k, j);
      multiply_panel(g, panel, k0, k1, n0, n1);
    }
  }
}

#endif

}  // namespace

template <typename T>
void CpuDevice<T>::gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.element_a != Element::value) {
    multiply_fp8(g);
    return;
  }
  for (i64 i = 0; i < g.batch; ++i) {
    Gemm one = g;
    one.a = static_cast<const T*>(g.a) + i * g.step_a;
    one.b = static_cast<const T*>(g.b) + i * g.step_b;
    one.c = static_cast<T*>(g.c) + i * g.step_c;
    multiply(one, T{});
  }
}

template void CpuDevice<float>::gemm(const Gemm&);
template void CpuDevice<double>::gemm(const Gemm&);

const char* cpu_gemm_library() {
#ifdef SHARDBENCH_OPENBLAS
  return openblas_get_config();
#else
  return "plain";
#endif
}

}  // namespace shardbench
