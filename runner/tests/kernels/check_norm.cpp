// SPDX-License-Identifier: Apache-2.0
// RMSNorm and its gradient.
#include "cuda/kernels.hpp"
#include "operands.hpp"

namespace shardbench {
namespace {

void check_norm(Checks& checks, i64 tokens, i64 hidden, i64 weight_offset) {
  const auto x = checks.random().normals<Bf16>(tokens * hidden, 2);
  const auto w = checks.random().normals<Bf16>(hidden);
  std::vector<double> want(x.size());
  reference().rms_norm(want.data(), to_doubles(x).data(), to_doubles(w).data(), tokens, hidden);
  const Operand y(checks, std::vector<Bf16>(x.size()));
  const Operand device_x(checks, x);
  const Operand device_w(checks, w, weight_offset);
  kernels::rms_norm(checks.stream(), {y.data(), device_x.data(), device_w.data()}, tokens, hidden);
  checks.row("rms_norm", words("tokens", tokens, "hidden", hidden),
      worst_share(y.read(), want, {bf16_rounding}), 1);
}

/// In the place of its first operand, too, as training has it: the same bits as add and norm.
void check_added_norm(Checks& checks, i64 tokens, i64 hidden, i64 weight_offset) {
  const auto a = checks.random().normals<Bf16>(tokens * hidden, 2);
  const auto b = checks.random().normals<Bf16>(tokens * hidden);
  const auto w = checks.random().normals<Bf16>(hidden);
  const Operand device_b(checks, b);
  const Operand device_w(checks, w, weight_offset);
  const Operand want_sum(checks, a);
  const Operand want(checks, std::vector<Bf16>(a.size()));
  kernels::add(checks.stream(), want_sum.data(), want_sum.data(), device_b.data(), tokens * hidden);
  kernels::rms_norm(
      checks.stream(), {want.data(), want_sum.data(), device_w.data()}, tokens, hidden);
  const Operand sum(checks, a);
  const Operand y(checks, std::vector<Bf16>(a.size()));
  kernels::add_rms_norm(checks.stream(),
      {sum.data(), y.data(), sum.data(), device_b.data(), device_w.data()}, tokens, hidden);
  const std::string shape = words("tokens", tokens, "hidden", hidden);
  checks.row("add_rms_norm sum", shape, same_or_not(sum.read(), want_sum.read()), 0);
  // Sums of squares may be in another order.
  checks.row("add_rms_norm", shape, worst_share(y.read(), want.read(), {2 * bf16_rounding}), 1);
}

void check_norm_backward(Checks& checks, i64 tokens, i64 hidden, i64 weight_offset) {
  const auto x = checks.random().normals<Bf16>(tokens * hidden, 2);
  const auto w = checks.random().normals<Bf16>(hidden);
  const auto dy = checks.random().normals<Bf16>(tokens * hidden);
  const auto dx = checks.random().normals<Bf16>(tokens * hidden);
  const auto dw = checks.random().normals<float>(hidden);
  const std::vector<double> x64 = to_doubles(x);
  const std::vector<double> w64 = to_doubles(w);
  const std::vector<double> dy64 = to_doubles(dy);
  std::vector<double> want_dx = to_doubles(dx);
  std::vector<double> want_dw = to_doubles(dw);
  reference().rms_norm_backward(
      {want_dx.data(), want_dw.data(), x64.data(), w64.data(), dy64.data()}, tokens, hidden);

  const Operand device_dx(checks, dx);
  const Operand device_dw(checks, dw, weight_offset);
  const Operand device_x(checks, x);
  const Operand device_w(checks, w, weight_offset);
  const Operand device_dy(checks, dy);
  kernels::rms_norm_backward(checks.stream(),
      {device_dx.data(), device_dw.data(), device_x.data(), device_w.data(), device_dy.data()},
      tokens, hidden);
  const std::string shape = words("tokens", tokens, "hidden", hidden);
  checks.row("rms_norm_backward dx", shape,
      worst_share(device_dx.read(), want_dx, {bf16_rounding, 1e-5}), 1);
  // Each row rounds a sum of all before it.
  const double dw_error = 1e-5 + 5e-7 * static_cast<double>(tokens);
  checks.row(
      "rms_norm_backward dw", shape, worst_share(device_dw.read(), want_dw, {2e-6, dw_error}), 1);
}

}  // namespace

void check_norms(Checks& checks) {
  for (const i64 tokens : {1, 37})
    for (const i64 hidden : {7, 64, 96, 2048}) {
      check_norm(checks, tokens, hidden, 0);
      check_added_norm(checks, tokens, hidden, 0);
      check_norm_backward(checks, tokens, hidden, 0);
    }
  check_norm(checks, 3, 96, 5);
  check_added_norm(checks, 3, 96, 5);
  check_added_norm(checks, 2, 8192 + 64, 0);
  check_norm_backward(checks, 3, 96, 5);
  check_norm(checks, 2, 8192 + 64, 0);
  check_norm_backward(checks, 2, 8192 + 64, 0);
  check_norm_backward(checks, 2, 16384 + 8, 0);
  // Shape with more rows than blocks.
  check_norm_backward(checks, 1031, 16, 0);
  if (!checks.full()) return;
  check_norm(checks, 4096, 2048, 0);
  check_norm_backward(checks, 4096, 2048, 0);
  check_norm_backward(checks, 700, 12288, 0);
}

}  // namespace shardbench
