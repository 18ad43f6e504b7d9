// SPDX-License-Identifier: Apache-2.0
// Matrix products of the emulated GPU: operands as floats, the product by the CPU device, one
// rounding at the end, as tensor cores with fp32 sums have it.
#include "bf16.hpp"
#include "cpu_device.hpp"
#include "cuda/matrix_products.hpp"

#include <vector>

namespace shardbench {
namespace {

/// `rows` rows of `columns` values, without the stride.
std::vector<float> packed(const void* data, i64 rows, i64 columns, i64 stride) {
  const auto* values = static_cast<const Bf16*>(data);
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(rows * columns));
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j)
      out.push_back(to_float(values[i * stride + j]));
  return out;
}

void add_to(float& output, float value, bool accumulate) {
  output = accumulate ? output + value : value;
}

void add_to(Bf16& output, float value, bool accumulate) {
  output = to_bf16(accumulate ? to_float(output) + value : value);
}

template <typename Output>
void store(const Gemm& g, const std::vector<float>& product) {
  for (i64 i = 0; i < g.m; ++i)
    for (i64 j = 0; j < g.n; ++j)
      add_to(static_cast<Output*>(g.c)[i * g.ldc + j],
             product[static_cast<std::size_t>(i * g.n + j)], g.accumulate == Accumulate::yes);
}

class EmulatedProducts final : public MatrixProducts {
 public:
  void multiply(gpu::Stream, const Gemm& g) override {
    const bool ta = g.transpose_a == Transpose::yes;
    const bool tb = g.transpose_b == Transpose::yes;
    const std::vector<float> a = packed(g.a, ta ? g.k : g.m, ta ? g.m : g.k, g.lda);
    const std::vector<float> b = packed(g.b, tb ? g.n : g.k, tb ? g.k : g.n, g.ldb);
    std::vector<float> product(static_cast<std::size_t>(g.m * g.n));
    Gemm inner = g;
    inner.a = a.data();
    inner.lda = ta ? g.m : g.k;
    inner.b = b.data();
    inner.ldb = tb ? g.k : g.n;
    inner.c = product.data();
    inner.ldc = g.n;
    inner.accumulate = Accumulate::no;
    cpu_.gemm(inner);
    if (g.gradient_output)
      store<float>(g, product);
    else
      store<Bf16>(g, product);
  }

  std::string library() const override { return "emulated"; }

 private:
  CpuDevice<float> cpu_;
};

}  // namespace

std::unique_ptr<MatrixProducts> make_matrix_products() {
  return std::make_unique<EmulatedProducts>();
}

}  // namespace shardbench
