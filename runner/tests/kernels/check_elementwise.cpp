// SPDX-License-Identifier: Apache-2.0
// Sums, SwiGLU and RoPE.
#include "cuda/kernels.hpp"
#include "operands.hpp"

namespace shardbench {
namespace {

/// Elements between an aligned address and where each operand starts.
struct Offsets {
  i64 y;
  i64 a;
  i64 b;
};

std::string shape_of(i64 count, Offsets at) {
  return std::to_string(count) + " at " + std::to_string(at.y) + ", " + std::to_string(at.a) +
      ", " + std::to_string(at.b);
}

void check_add(Checks& checks, i64 count, Offsets at) {
  const auto a = checks.random().normals<Bf16>(count);
  const auto b = checks.random().normals<Bf16>(count);
  std::vector<double> want(a.size());
  reference().add(want.data(), to_doubles(a).data(), to_doubles(b).data(), count);
  const Operand y(checks, std::vector<Bf16>(a.size()), at.y);
  const Operand device_a(checks, a, at.a);
  const Operand device_b(checks, b, at.b);
  kernels::add(checks.stream(), y.data(), device_a.data(), device_b.data(), count);
  checks.row("add", shape_of(count, at), worst_share(y.read(), want, {bf16_rounding}), 1);
}

/// y = y + b, as residual connections are added.
void check_add_in_place(Checks& checks, i64 count) {
  const auto a = checks.random().normals<Bf16>(count);
  const auto b = checks.random().normals<Bf16>(count);
  std::vector<double> want(a.size());
  reference().add(want.data(), to_doubles(a).data(), to_doubles(b).data(), count);
  const Operand y(checks, a);
  const Operand device_b(checks, b);
  kernels::add(checks.stream(), y.data(), y.data(), device_b.data(), count);
  checks.row(
      "add in place", std::to_string(count), worst_share(y.read(), want, {bf16_rounding}), 1);
}

void check_accumulate(Checks& checks, i64 count, Offsets at) {
  const auto x = checks.random().normals<float>(count);
  const auto before = checks.random().normals<float>(count);
  std::vector<double> want = to_doubles(before);
  reference().accumulate(want.data(), to_doubles(x).data(), count);
  const Operand y(checks, before, at.y);
  const Operand device_x(checks, x, at.a);
  kernels::accumulate(checks.stream(), y.data(), device_x.data(), count);
  checks.row("accumulate", shape_of(count, at), worst_share(y.read(), want, {fp32_rounding}), 1);
}

void check_swiglu(Checks& checks, i64 tokens, i64 ffn) {
  const auto gate_up = checks.random().normals<Bf16>(tokens * 2 * ffn, 3);
  const auto dy = checks.random().normals<Bf16>(tokens * ffn);
  std::vector<double> want(dy.size());
  std::vector<double> want_gradient = to_doubles(gate_up);
  reference().swiglu(want.data(), want_gradient.data(), tokens, ffn);
  reference().swiglu_backward(want_gradient.data(), to_doubles(dy).data(), tokens, ffn);

  const Operand y(checks, std::vector<Bf16>(dy.size()));
  const Operand device_gate_up(checks, gate_up);
  const Operand device_dy(checks, dy);
  kernels::swiglu(checks.stream(), y.data(), device_gate_up.data(), tokens, ffn);
  kernels::swiglu_backward(checks.stream(), device_gate_up.data(), device_dy.data(), tokens, ffn);
  const std::string shape = words("tokens", tokens, "ffn", ffn);
  checks.row("swiglu", shape, worst_share(y.read(), want, {bf16_rounding}), 1);
  // The gate's gradient is a difference of values up to about 100.
  checks.row("swiglu_backward", shape,
      worst_share(device_gate_up.read(), want_gradient, {bf16_rounding, 3e-5}), 1);
}

void check_rope(Checks& checks, const AttentionShape& s, Rotation rotation, const Positions& at) {
  const auto qkv = checks.random().normals<Bf16>(s.batch * s.seq_len * s.row());
  std::vector<double> want = to_doubles(qkv);
  reference().rope_at(want.data(), s, at, rotation);
  const Operand device_qkv(checks, qkv);
  AttentionShape whole = s;
  whole.seq_len = kernels::positions_within(s, at);
  const DeviceArray<float> table = checks.array<float>(kernels::rope_table_floats(whole));
  kernels::make_rope_table(checks.stream(), table.data(), whole);
  kernels::rope(checks.stream(), device_qkv.data(), table.data(), s, at, rotation);
  const std::string shape = words("positions", s.seq_len, "heads", s.heads + s.kv_heads) + " of " +
      std::to_string(s.head_dim);
  checks.row(rotation == Rotation::forward ? "rope" : "rope backward", shape,
      worst_share(device_qkv.read(), want, {bf16_rounding, 5e-6}), 1);
}

void check_rope(Checks& checks, const AttentionShape& s, Rotation rotation) {
  check_rope(checks, s, rotation, {0, s.seq_len / 2});
}

/// Columns of rows that are wider. Values before the first column, on both sides.
struct ColumnsAt {
  i64 from_row;
  i64 from;
  i64 to_row;
  i64 to;
};

void check_columns(Checks& checks, i64 rows, i64 width, const ColumnsAt& at) {
  const auto [from_row, first_from, to_row, first_to] = at;
  const auto from = checks.random().normals<Bf16>(rows * from_row);
  const auto to = checks.random().normals<Bf16>(rows * to_row);
  std::vector<double> copied = to_doubles(to);
  std::vector<double> added = copied;
  const std::vector<double> source = to_doubles(from);
  reference().copy_columns(
      {copied.data() + first_to, to_row, source.data() + first_from, from_row, width, rows});
  reference().add_columns(
      {added.data() + first_to, to_row, source.data() + first_from, from_row, width, rows});
  const auto device_from = checks.array(from);
  const auto device_copied = checks.array(to);
  const auto device_added = checks.array(to);
  kernels::copy_columns(checks.stream(),
      {device_copied.data() + first_to, to_row, device_from.data() + first_from, from_row, width,
          rows});
  kernels::add_columns(checks.stream(),
      {device_added.data() + first_to, to_row, device_from.data() + first_from, from_row, width,
          rows});
  const std::string shape = words("rows", rows, "width", width) + " of " + std::to_string(from_row);
  checks.row("copy_columns", shape, largest_error(device_copied.read_doubles(), copied), 0);
  checks.row(
      "add_columns", shape, worst_share(device_added.read_doubles(), added, {bf16_rounding, 0}), 1);
}

}  // namespace

void check_elementwise(Checks& checks) {
  const auto ragged = 1000 + checks.random().below(3000);
  for (const i64 count : {i64{1}, i64{7}, i64{8}, i64{2048}, ragged}) {
    check_add(checks, count, {0, 0, 0});
    check_accumulate(checks, count, {0, 0, 0});
  }
  for (const Offsets at : {Offsets{1, 1, 1}, {8, 0, 3}, {5, 8, 0}, {0, 1, 0}}) {
    check_add(checks, ragged, at);
    check_accumulate(checks, ragged, at);
  }
  check_add_in_place(checks, ragged);
  for (const i64 rows : {1, 37})
    for (const i64 width : {1, 8, 100}) {
      check_columns(checks, rows, width, {width + 3, 1, width + 8, 2});
      // Whole vectors on both sides, on one of them, and none for their first columns.
      const i64 vectors = 8 * width;
      check_columns(checks, rows, vectors, {vectors + 8, 8, vectors + 16, 0});
      check_columns(checks, rows, vectors, {vectors + 8, 8, vectors + 4, 0});
      check_columns(checks, rows, vectors, {vectors + 8, 3, vectors + 8, 8});
    }
  for (const i64 tokens : {1, 37})
    for (const i64 ffn : {5, 64, 344, 1416})
      check_swiglu(checks, tokens, ffn);
  for (const Rotation rotation : {Rotation::forward, Rotation::backward}) {
    check_rope(checks, {2, 37, 4, 2, 64}, rotation);
    check_rope(checks, {1, 5, 3, 1, 128}, rotation);
    check_rope(checks, {3, 7, 2, 2, 10}, rotation);
    // A rank's two pieces of a sequence.
    check_rope(checks, {2, 37, 4, 2, 64}, rotation, {18, 200});
    check_rope(checks, {1, 8, 2, 1, 16}, rotation, {4, 24});
  }
  if (checks.full()) {
    check_add(checks, i64{1} << 24, {0, 0, 0});
    check_swiglu(checks, 2048, 5632);
    check_rope(checks, {2, 2048, 16, 4, 128}, Rotation::forward);
  }
  // Angles so large that fp32 would not hold them.
  check_rope(checks, {1, 20000, 1, 1, 4}, Rotation::forward);
}

}  // namespace shardbench
