// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"
#include "cuda/kernels.hpp"

namespace shardbench {
namespace {

// Half a unit in the last place: bf16 has 8 bits of significand, fp32 has 24.
constexpr double bf16_rounding = 1.0 / 256;
constexpr double fp32_rounding = 1.0 / (1 << 24);

void check_add(Checks& checks, i64 count) {
  const std::vector<Bf16> a = checks.random().normals<Bf16>(count);
  const std::vector<Bf16> b = checks.random().normals<Bf16>(count);
  std::vector<double> sum = to_doubles(a);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += to_double(b[i]);
  const auto y = checks.array<Bf16>(count);
  kernels::add(checks.stream(), y.data(), checks.array(a).data(), checks.array(b).data(),
               count);
  checks.row("add", std::to_string(count), relative_error(y.read_doubles(), sum),
             bf16_rounding);
}

void check_accumulate(Checks& checks, i64 count) {
  const std::vector<float> x = checks.random().normals<float>(count);
  const std::vector<float> before = checks.random().normals<float>(count);
  std::vector<double> sum = to_doubles(before);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += to_double(x[i]);
  const auto y = checks.array(before);
  kernels::accumulate(checks.stream(), y.data(), checks.array(x).data(), count);
  checks.row("accumulate", std::to_string(count), relative_error(y.read_doubles(), sum),
             fp32_rounding);
}

}  // namespace

void check_elementwise(Checks& checks) {
  for (const i64 count : {1, 8, 1000, 12345}) {
    check_add(checks, count);
    check_accumulate(checks, count);
  }
}

}  // namespace shardbench
