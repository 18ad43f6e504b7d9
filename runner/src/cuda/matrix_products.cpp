// SPDX-License-Identifier: Apache-2.0
#include "cuda/matrix_products.hpp"

#include "base/json.hpp"
#include "cuda/kernels.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace shardbench {
namespace {

// The first run of an algorithm loads its code; of the others the least counts.
constexpr int timed_runs = 3;

/// Memory of the GPU; null when there is none left.
class Scratch {
 public:
  explicit Scratch(i64 bytes) : data_(gpu::allocate(bytes)) {}
  ~Scratch() { gpu::release(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

class Timer {
 public:
  Timer(gpu::Stream stream, const std::function<void()>& pause) : stream_(stream), pause_(pause) {}
  ~Timer() {
    gpu::release_event(from_);
    gpu::release_event(to_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  double seconds(const std::function<void()>& work) {
    gpu::record(from_, stream_);
    work();
    gpu::record(to_, stream_);
    while (!gpu::reached(to_))
      pause_();
    return gpu::seconds_between(from_, to_);
  }

 private:
  gpu::Stream stream_;
  const std::function<void()>& pause_;
  gpu::Event from_ = gpu::make_event(gpu::Timing::on);
  gpu::Event to_ = gpu::make_event(gpu::Timing::on);
};

i64 bytes_of(Element element) {
  return element == Element::value ? i64{sizeof(Bf16)} : 1;
}
i64 bytes_a(const GemmKey& key) {
  return (key.rows_a() * key.lda + (key.batch - 1) * key.step_a) * bytes_of(key.element_a);
}
i64 bytes_b(const GemmKey& key) {
  return (key.rows_b() * key.ldb + (key.batch - 1) * key.step_b) * bytes_of(key.element_b);
}
i64 bytes_c(const GemmKey& key) {
  return (key.m * key.ldc + (key.batch - 1) * key.step_c) *
      dtype_size(key.gradient_output ? Dtype::fp32 : Dtype::bf16);
}

i64 most_bytes(const std::vector<GemmKey>& keys, i64 (*bytes)(const GemmKey&)) {
  i64 most = 0;
  for (const GemmKey& key : keys)
    most = std::max(most, bytes(key));
  // An operand may begin at less than the alignment of an allocation.
  return most + most_alignment;
}

/// Random numbers: products of zeros are faster on some hardware.
void fill(gpu::Stream stream, std::byte* data, i64 bytes) {
  const i64 values = bytes / i64{sizeof(Bf16)};
  kernels::initialize(stream, reinterpret_cast<Bf16*>(data), {1, 1, values, 0, 0, values}, 1);
}

struct Operands {
  std::byte* a;
  std::byte* b;
  std::byte* c;
  const float* unit;
};

/// The product of that key over the operands, as little aligned as the key says.
Gemm gemm_of(const GemmKey& key, const Operands& operands) {
  const i64 off = key.alignment < most_alignment ? key.alignment : 0;
  return {.transpose_a = key.transpose_a ? Transpose::yes : Transpose::no,
      .transpose_b = key.transpose_b ? Transpose::yes : Transpose::no,
      .m = key.m,
      .n = key.n,
      .k = key.k,
      .a = operands.a + off,
      .lda = key.lda,
      .b = operands.b + off,
      .ldb = key.ldb,
      .c = operands.c + off,
      .ldc = key.ldc,
      .accumulate = key.accumulate ? Accumulate::yes : Accumulate::no,
      .gradient_output = key.gradient_output,
      .element_a = key.element_a,
      .element_b = key.element_b,
      .unit_a = operands.unit,
      .unit_b = operands.unit,
      .batch = key.batch,
      .step_a = key.step_a,
      .step_b = key.step_b,
      .step_c = key.step_c};
}

std::string operands_name(const GemmKey& key) {
  if (key.element_a == Element::value) return "bf16";
  return std::string(element_name(key.element_a)) + " " + std::string(element_name(key.element_b));
}

double least_seconds(Timer& timer, const std::function<void()>& work) {
  work();
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < timed_runs; ++run)
    least = std::min(least, timer.seconds(work));
  return least;
}

}  // namespace

MatrixProducts::MatrixProducts(std::unique_ptr<ProductLibrary> library)
    : library_(std::move(library)) {}

MatrixProducts::ProductChoice& MatrixProducts::known(const GemmKey& key) {
  ProductChoice& known = known_[key];
  if (!known.product) known.product = library_->prepare(key);
  return known;
}

void MatrixProducts::multiply(gpu::Stream stream, const Gemm& gemm) {
  if (gemm.m == 0 || gemm.n == 0) return;
  const ProductChoice& of = known(key_of(gemm));
  of.product->run(stream, gemm, of.candidate);
}

void MatrixProducts::settle(
    gpu::Stream stream, const std::vector<GemmKey>& keys, const std::function<void()>& pause) {
  std::vector<GemmKey> open;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(open),
      [&](const GemmKey& key) { return key.m > 0 && key.n > 0 && !known(key).settled; });
  if (open.empty()) return;
  const Scratch a(most_bytes(open, bytes_a));
  const Scratch b(most_bytes(open, bytes_b));
  const Scratch c(most_bytes(open, bytes_c));
  const Scratch unit(most_alignment);
  // Give up: if the largest a, b and c have no room beside each other, training will not fit.
  if (a.data() == nullptr || b.data() == nullptr || c.data() == nullptr || unit.data() == nullptr)
    return;
  gpu::zero(stream, unit.data(), most_alignment);
  fill(stream, a.data(), most_bytes(open, bytes_a));
  fill(stream, b.data(), most_bytes(open, bytes_b));
  Timer timer(stream, pause);
  for (const GemmKey& key : open) {
    ProductChoice& of = known(key);
    const Gemm gemm =
        gemm_of(key, {a.data(), b.data(), c.data(), reinterpret_cast<const float*>(unit.data())});
    gpu::zero(stream, c.data(), bytes_c(key) + most_alignment);
    for (std::size_t i = 0; i < of.product->candidates(); ++i) {
      const double seconds = least_seconds(timer, [&] { of.product->run(stream, gemm, i); });
      if (i == 0) of.first_seconds = seconds;
      if (i > 0 && seconds >= of.seconds) continue;
      of.seconds = seconds;
      of.candidate = i;
    }
    of.settled = true;
  }
}

std::string MatrixProducts::choices_json() const {
  std::vector<std::string> choices;
  i64 unsettled = 0;
  for (const auto& [key, of] : known_) {
    if (!of.settled) {
      ++unsettled;
      continue;
    }
    choices.push_back(JsonObject{}
                          .integer("m", key.m)
                          .integer("n", key.n)
                          .integer("k", key.k)
                          .integer("batch", key.batch)
                          .text("operands", operands_name(key))
                          .text("output", key.gradient_output ? "fp32" : "bf16")
                          .boolean("accumulate", key.accumulate)
                          .integer("candidate", static_cast<i64>(of.candidate))
                          .integer("candidates", static_cast<i64>(of.product->candidates()))
                          .number("ms", of.seconds * 1e3)
                          .number("first_ms", of.first_seconds * 1e3)
                          .str());
  }
  return JsonObject{}.integer("unsettled", unsettled).raw("choices", json_array(choices)).str();
}

}  // namespace shardbench
