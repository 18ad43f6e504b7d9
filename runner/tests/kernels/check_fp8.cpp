// SPDX-License-Identifier: Apache-2.0
// Tensors in 8 bits: the same numbers as the CPU's, in both orders, and the magnitudes that
// scale them.
#include "cuda/kernels.hpp"
#include "operands.hpp"

namespace shardbench {
namespace {

std::vector<double> as_doubles(const std::vector<std::uint8_t>& bits) {
  return {bits.begin(), bits.end()};
}

/// `limit_share`: of the largest magnitude; below 1 some values are beyond what has a number.
void check_quantize(Checks& checks, i64 rows, i64 columns, Element element, double limit_share) {
  const auto values = checks.random().normals<Bf16>(rows * columns, 0.3);
  const auto count = static_cast<std::size_t>(rows * columns);
  std::vector<float> floats(count);
  std::transform(values.begin(), values.end(), floats.begin(), [](Bf16 v) { return to_float(v); });
  CpuDevice<float> cpu;
  float amax = 0;
  cpu.raise_amax(&amax, floats.data(), rows * columns);
  std::vector<std::uint8_t> straight(count);
  std::vector<std::uint8_t> transposed(count);
  float unit = 0;
  float seen = 0;
  const auto limit = static_cast<float>(amax * limit_share);
  cpu.quantize({floats.data(), rows, columns, element, straight.data(), transposed.data(), &limit,
      &unit, &seen});

  const Operand source(checks, values);
  const Operand device_amax(checks, std::vector<float>{0});
  kernels::raise_amax(checks.stream(), device_amax.data(), source.data(), rows * columns);
  const DeviceArray<float> device_limit = checks.array(std::vector<float>{limit});
  const DeviceArray<float> told = checks.array(std::vector<float>{0, 0});
  const DeviceArray<std::uint8_t> device_straight = checks.array<std::uint8_t>(rows * columns);
  const DeviceArray<std::uint8_t> device_transposed = checks.array<std::uint8_t>(rows * columns);
  kernels::quantize(checks.stream(),
      {source.data(), rows, columns, element, device_straight.data(), device_transposed.data(),
          device_limit.data(), told.data(), told.data() + 1});
  const std::string shape =
      words("rows", rows, "columns", columns) + ", " + std::string(element_name(element));
  checks.row("amax", shape, same_or_not(device_amax.read(), {amax}), 0);
  checks.row(
      "quantize", shape, same_or_not(as_doubles(device_straight.read()), as_doubles(straight)), 0);
  checks.row("quantize, transposed", shape,
      same_or_not(as_doubles(device_transposed.read()), as_doubles(transposed)), 0);
  checks.row("quantize, unit and amax", shape, same_or_not(told.read_doubles(), {unit, seen}), 0);
}

void check_transpose(Checks& checks, i64 rows, i64 columns) {
  std::vector<std::uint8_t> straight(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < straight.size(); ++i)
    straight[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  std::vector<std::uint8_t> want(straight.size());
  CpuDevice<float> cpu;
  cpu.transpose_8_bits(want.data(), straight.data(), rows, columns);
  const DeviceArray<std::uint8_t> from = checks.array(straight);
  const DeviceArray<std::uint8_t> to = checks.array<std::uint8_t>(rows * columns);
  kernels::transpose_8_bits(checks.stream(), to.data(), from.data(), rows, columns);
  checks.row("transpose_8_bits", words("rows", rows, "columns", columns),
      same_or_not(as_doubles(to.read()), as_doubles(want)), 0);
}

void check_history(Checks& checks) {
  constexpr i64 tensors = 300;
  constexpr i64 steps = 4;
  const auto start = checks.random().normals<float>((2 + steps) * tensors);
  std::vector<float> want = start;
  for (float& value : want)
    value = std::abs(value);
  const DeviceArray<float> device = checks.array(want);
  CpuDevice<float> cpu;
  for (i64 step = 0; step < 2 * steps; ++step) {
    const auto of = [&](float* state) {
      return Device::AmaxHistory{
          state, state + tensors, state + 2 * tensors, tensors, steps, step % steps};
    };
    cpu.keep_amax(of(want.data()));
    kernels::keep_amax(checks.stream(), of(device.data()));
    checks.row("keep_amax", "step " + std::to_string(step),
        same_or_not(device.read_doubles(), to_doubles(want)), 0);
  }
}

/// Compares what a kernel left with the result of reading its values again. A limit of 0: magnitude
/// alone.
class LeftBeside {
 public:
  LeftBeside(Checks& checks, i64 rows, i64 columns, Element element, bool transposed)
      : checks_(checks),
        rows_(rows),
        columns_(columns),
        element_(element),
        limit_(checks.array(std::vector<float>{2})),
        told_(checks.array(std::vector<float>{0, 0})),
        again_(checks.array(std::vector<float>{0, 0})),
        straight_(checks.array<std::uint8_t>(rows * columns)),
        turned_(checks.array<std::uint8_t>(rows * columns)),
        transposed_(transposed) {}

  Device::Quantization measured(const void* values) {
    return {.values = values,
        .rows = rows_,
        .columns = columns_,
        .element = element_,
        .seen = told_.data() + 1};
  }
  Device::Quantization scaled(const void* values) {
    Device::Quantization q = measured(values);
    q.straight = straight_.data();
    if (transposed_) q.transposed = turned_.data();
    q.limit = limit_.data();
    q.unit = told_.data();
    return q;
  }
  /// Compares with `values`, which a kernel that leaves nothing has made.
  void compare(const std::string& what, const std::string& shape, const Bf16* values) {
    const DeviceArray<std::uint8_t> straight = checks_.array<std::uint8_t>(rows_ * columns_);
    const DeviceArray<std::uint8_t> turned = checks_.array<std::uint8_t>(rows_ * columns_);
    kernels::quantize(checks_.stream(),
        {values, rows_, columns_, element_, straight.data(), turned.data(), limit_.data(),
            again_.data(), again_.data() + 1});
    checks_.row(what + " in 8 bits", shape,
        same_or_not(as_doubles(straight_.read()), as_doubles(straight.read())), 0);
    if (transposed_)
      checks_.row(what + " in 8 bits, transposed", shape,
          same_or_not(as_doubles(turned_.read()), as_doubles(turned.read())), 0);
    checks_.row(what + ", unit and amax", shape,
        same_or_not(told_.read_doubles(), again_.read_doubles()), 0);
  }
  /// Compares a kernel that was asked for the magnitude alone.
  void compare_magnitude(const std::string& what, const std::string& shape, const Bf16* values) {
    kernels::raise_amax(checks_.stream(), again_.data() + 1, values, rows_ * columns_);
    checks_.row(
        what + ", amax alone", shape, same_or_not(told_.read_doubles(), again_.read_doubles()), 0);
  }

 private:
  Checks& checks_;
  i64 rows_;
  i64 columns_;
  Element element_;
  DeviceArray<float> limit_;
  DeviceArray<float> told_;
  DeviceArray<float> again_;
  DeviceArray<std::uint8_t> straight_;
  DeviceArray<std::uint8_t> turned_;
  bool transposed_;
};

void check_norms_to_8_bits(Checks& checks, i64 tokens, i64 hidden, i64 weight_offset) {
  const Operand x(checks, checks.random().normals<Bf16>(tokens * hidden, 2));
  const Operand other(checks, checks.random().normals<Bf16>(tokens * hidden));
  const Operand w(checks, checks.random().normals<Bf16>(hidden), weight_offset);
  const std::vector<Bf16> nothing(static_cast<std::size_t>(tokens * hidden));
  const Operand want(checks, nothing);
  const Operand y(checks, nothing);
  const Operand sum(checks, nothing);
  const std::string shape = words("tokens", tokens, "hidden", hidden);
  for (const bool added : {false, true}) {
    const std::string name = added ? "add_rms_norm" : "rms_norm";
    const auto make = [&](const Operand<Bf16>& to, const Device::Quantization* left) {
      if (added)
        kernels::add_rms_norm(checks.stream(),
            {sum.data(), to.data(), x.data(), other.data(), w.data()}, tokens, hidden, left);
      else
        kernels::rms_norm(checks.stream(), {to.data(), x.data(), w.data()}, tokens, hidden, left);
    };
    make(want, nullptr);
    LeftBeside scaled(checks, tokens, hidden, Element::e4m3, false);
    Device::Quantization left = scaled.scaled(y.data());
    make(y, &left);
    checks.row(name + " beside 8 bits", shape, same_or_not(y.read(), want.read()), 0);
    scaled.compare(name, shape, want.data());
    LeftBeside measured(checks, tokens, hidden, Element::e4m3, false);
    left = measured.measured(y.data());
    make(y, &left);
    measured.compare_magnitude(name, shape, want.data());
  }
}

void check_swiglu_to_8_bits(Checks& checks, i64 tokens, i64 ffn) {
  const std::vector<Bf16> gate_up = checks.random().normals<Bf16>(tokens * 2 * ffn, 3);
  const Operand forward(checks, gate_up);
  const Operand dy(checks, checks.random().normals<Bf16>(tokens * ffn));
  const Operand want(checks, std::vector<Bf16>(static_cast<std::size_t>(tokens * ffn)));
  const Operand y(checks, std::vector<Bf16>(static_cast<std::size_t>(tokens * ffn)));
  const std::string shape = words("tokens", tokens, "ffn", ffn);
  kernels::swiglu(checks.stream(), want.data(), forward.data(), tokens, ffn);
  LeftBeside scaled(checks, tokens, ffn, Element::e4m3, false);
  Device::Quantization left = scaled.scaled(y.data());
  kernels::swiglu(checks.stream(), y.data(), forward.data(), tokens, ffn, &left);
  checks.row("swiglu beside 8 bits", shape, same_or_not(y.read(), want.read()), 0);
  scaled.compare("swiglu", shape, want.data());
  LeftBeside measured(checks, tokens, ffn, Element::e4m3, false);
  left = measured.measured(y.data());
  kernels::swiglu(checks.stream(), y.data(), forward.data(), tokens, ffn, &left);
  measured.compare_magnitude("swiglu", shape, want.data());

  const Operand want_gradient(checks, gate_up);
  kernels::swiglu_backward(checks.stream(), want_gradient.data(), dy.data(), tokens, ffn);
  const Operand gradient(checks, gate_up);
  LeftBeside measured_gradient(checks, tokens, 2 * ffn, Element::e5m2, true);
  left = measured_gradient.measured(gradient.data());
  kernels::swiglu_backward(checks.stream(), gradient.data(), dy.data(), tokens, ffn, &left);
  checks.row(
      "swiglu_backward beside amax", shape, same_or_not(gradient.read(), want_gradient.read()), 0);
  measured_gradient.compare_magnitude("swiglu_backward", shape, want_gradient.data());
  LeftBeside scaled_gradient(checks, tokens, 2 * ffn, Element::e5m2, true);
  left = scaled_gradient.scaled(forward.data());
  kernels::swiglu_backward(checks.stream(), forward.data(), dy.data(), tokens, ffn, &left);
  scaled_gradient.compare("swiglu_backward", shape, want_gradient.data());
}

}  // namespace

void check_fp8(Checks& checks) {
  check_norms_to_8_bits(checks, 16, 16, 0);
  check_norms_to_8_bits(checks, 48, 272, 0);
  // Weights between vectors: values one by one.
  check_norms_to_8_bits(checks, 16, 96, 5);
  check_swiglu_to_8_bits(checks, 16, 16);
  check_swiglu_to_8_bits(checks, 80, 144);
  // Shape with more values than one round of all threads.
  check_swiglu_to_8_bits(checks, 208, 720);
  for (const Element element : {Element::e4m3, Element::e5m2}) {
    check_quantize(checks, 16, 16, element, 1);
    check_quantize(checks, 80, 144, element, 1);
    check_quantize(checks, 64, 192, element, 0.5);
    if (checks.full()) check_quantize(checks, 4096, 4096, element, 1);
  }
  check_transpose(checks, 16, 16);
  check_transpose(checks, 80, 144);
  if (checks.full()) check_transpose(checks, 4096, 4096);
  check_history(checks);
}

}  // namespace shardbench
