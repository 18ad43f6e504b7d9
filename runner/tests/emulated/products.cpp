// SPDX-License-Identifier: Apache-2.0
// Matrix products of the emulated GPU: operands as floats, the product by the CPU device, one
// rounding at the end, as tensor cores with fp32 sums have it.
#include "base/error.hpp"
#include "cuda/product_library.hpp"
#include "device/bf16.hpp"
#include "device/cpu_device.hpp"
#include "emulated_gpu.hpp"

#include <utility>
#include <vector>

namespace shardbench {
namespace {

/// Values that the 8-bit numbers stand for.
std::vector<float> packed_fp8(
    const void* data, i64 rows, i64 columns, i64 stride, Element element, float unit) {
  const auto* numbers = static_cast<const std::uint8_t*>(data);
  std::vector<float> out;
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j)
      out.push_back(from_fp8(numbers[i * stride + j], element) * unit);
  return out;
}

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

std::vector<double>& delays_s() {
  static std::vector<double> delays{0};
  return delays;
}

std::vector<emulator::ProductRun>& runs() {
  static std::vector<emulator::ProductRun> all;
  return all;
}

/// All candidates do the same, each with a delay of its own.
class EmulatedProduct final : public PreparedProduct {
 public:
  explicit EmulatedProduct(const GemmKey& key) : key_(key) {}

  std::size_t candidates() const override { return delays_s().size(); }

  void run(gpu::Stream, const Gemm& g, std::size_t candidate) override {
    check(key_of(g) == key_, "a product is of the key that it was prepared for");
    if (candidates() > 1) runs().push_back({key_, candidate, g.c});
    emulator::advance_clock(delays_s()[candidate]);
    for (i64 i = 0; i < g.batch; ++i)
      multiply(one_of(g, i));
  }

 private:
  static Gemm one_of(const Gemm& g, i64 i) {
    if (g.batch == 1) return g;
    Gemm one = g;
    one.batch = 1;
    one.a = static_cast<const Bf16*>(g.a) + i * g.step_a;
    one.b = static_cast<const Bf16*>(g.b) + i * g.step_b;
    const i64 element = g.gradient_output ? i64{sizeof(float)} : i64{sizeof(Bf16)};
    one.c = static_cast<std::byte*>(g.c) + i * g.step_c * element;
    return one;
  }

  void multiply(const Gemm& g) {
    const bool ta = g.transpose_a == Transpose::yes;
    const bool tb = g.transpose_b == Transpose::yes;
    const bool in_fp8 = g.element_a != Element::value;
    if (in_fp8) check(!ta && tb && g.element_b != Element::value, "FP8 lies along the sum");
    const std::vector<float> a = in_fp8 ? packed_fp8(g.a, g.m, g.k, g.lda, g.element_a, *g.unit_a)
                                        : packed(g.a, ta ? g.k : g.m, ta ? g.m : g.k, g.lda);
    const std::vector<float> b = in_fp8 ? packed_fp8(g.b, g.n, g.k, g.ldb, g.element_b, *g.unit_b)
                                        : packed(g.b, tb ? g.n : g.k, tb ? g.k : g.n, g.ldb);
    std::vector<float> product(static_cast<std::size_t>(g.m * g.n));
    Gemm inner = g;
    inner.a = a.data();
    inner.lda = ta ? g.m : g.k;
    inner.b = b.data();
    inner.ldb = tb ? g.k : g.n;
    inner.c = product.data();
    inner.ldc = g.n;
    inner.accumulate = Accumulate::no;
    inner.element_a = inner.element_b = Element::value;
    cpu_.gemm(inner);
    if (g.gradient_output)
      store<float>(g, product);
    else
      store<Bf16>(g, product);
  }

  GemmKey key_;
  CpuDevice<float> cpu_;
};

class EmulatedLibrary final : public ProductLibrary {
 public:
  std::unique_ptr<PreparedProduct> prepare(const GemmKey& key) override {
    return std::make_unique<EmulatedProduct>(key);
  }
  std::string name() const override { return "emulated"; }
};

}  // namespace

void emulator::set_product_delays(std::vector<double> seconds) {
  delays_s() = std::move(seconds);
}

std::vector<emulator::ProductRun> emulator::take_product_runs() {
  return std::exchange(runs(), {});
}

std::unique_ptr<ProductLibrary> make_product_library() {
  return std::make_unique<EmulatedLibrary>();
}

}  // namespace shardbench
