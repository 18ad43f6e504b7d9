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
void check_quantize(Checks& checks, i64 rows, i64 columns, Element element,
                    double limit_share) {
  const auto values = checks.random().normals<Bf16>(rows * columns, 0.3);
  const auto count = static_cast<std::size_t>(rows * columns);
  std::vector<float> floats(count);
  std::transform(values.begin(), values.end(), floats.begin(),
                 [](Bf16 v) { return to_float(v); });
  CpuDevice<float> cpu;
  float amax = 0;
  cpu.raise_amax(&amax, floats.data(), rows * columns);
  std::vector<std::uint8_t> straight(count);
  std::vector<std::uint8_t> transposed(count);
  float unit = 0;
  float seen = 0;
  const auto limit = static_cast<float>(amax * limit_share);
  cpu.quantize({floats.data(), rows, columns, element, straight.data(), transposed.data(),
                &limit, &unit, &seen});

  const Operand source(checks, values);
  const Operand device_amax(checks, std::vector<float>{0});
  kernels::raise_amax(checks.stream(), device_amax.data(), source.data(), rows * columns);
  const DeviceArray<float> device_limit = checks.array(std::vector<float>{limit});
  const DeviceArray<float> told = checks.array(std::vector<float>{0, 0});
  const DeviceArray<std::uint8_t> device_straight = checks.array<std::uint8_t>(rows * columns);
  const DeviceArray<std::uint8_t> device_transposed =
      checks.array<std::uint8_t>(rows * columns);
  kernels::quantize(checks.stream(), {source.data(), rows, columns, element,
                                      device_straight.data(), device_transposed.data(),
                                      device_limit.data(), told.data(), told.data() + 1});
  const std::string shape =
      words("rows", rows, "columns", columns) + ", " + std::string(element_name(element));
  checks.row("amax", shape, same_or_not(device_amax.read(), {amax}), 0);
  checks.row("quantize", shape,
             same_or_not(as_doubles(device_straight.read()), as_doubles(straight)), 0);
  checks.row("quantize, transposed", shape,
             same_or_not(as_doubles(device_transposed.read()), as_doubles(transposed)), 0);
  checks.row("quantize, unit and amax", shape, same_or_not(told.read_doubles(), {unit, seen}),
             0);
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
      return Device::AmaxHistory{state,   state + tensors, state + 2 * tensors,
                                 tensors, steps,           step % steps};
    };
    cpu.keep_amax(of(want.data()));
    kernels::keep_amax(checks.stream(), of(device.data()));
    checks.row("keep_amax", "step " + std::to_string(step),
               same_or_not(device.read_doubles(), to_doubles(want)), 0);
  }
}

}  // namespace

void check_fp8(Checks& checks) {
  for (const Element element : {Element::e4m3, Element::e5m2}) {
    check_quantize(checks, 16, 16, element, 1);
    check_quantize(checks, 80, 144, element, 1);
    check_quantize(checks, 64, 192, element, 0.5);
    if (checks.full()) check_quantize(checks, 4096, 4096, element, 1);
  }
  check_history(checks);
}

}  // namespace shardbench
