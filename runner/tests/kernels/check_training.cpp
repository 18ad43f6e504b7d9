// SPDX-License-Identifier: Apache-2.0
// The embedding, initial weights, the gradients' norm and AdamW.
#include "cuda/kernels.hpp"
#include "operands.hpp"

namespace shardbench {
namespace {

/// Ids of which some are in [first, first + rows), some more than once, and some are not.
std::vector<std::int32_t> ids_around(Checks& checks, const Device::EmbeddingShape& s) {
  std::vector<std::int32_t> ids;
  for (i64 i = 0; i < s.tokens; ++i)
    ids.push_back(static_cast<std::int32_t>(checks.random().below(s.first + s.rows + 4)));
  ids.back() = static_cast<std::int32_t>(s.first + s.rows - 1);
  return ids;
}

void check_embed(Checks& checks, const Device::EmbeddingShape& s) {
  const auto table = checks.random().normals<Bf16>(s.rows * s.hidden);
  const auto ids = ids_around(checks, s);
  std::vector<double> want(static_cast<std::size_t>(s.tokens * s.hidden));
  reference().embed(want.data(), to_doubles(table).data(), ids.data(), s);
  const Operand y(checks, checks.random().normals<Bf16>(s.tokens * s.hidden));
  const Operand device_table(checks, table);
  const Operand device_ids(checks, ids);
  kernels::embed(checks.stream(), y.data(), device_table.data(), device_ids.data(), s);
  checks.row(
      "embed", words("tokens", s.tokens, "hidden", s.hidden), same_or_not(y.read(), want), 0);
}

void check_embed_backward(Checks& checks, const Device::EmbeddingShape& s) {
  const auto dy = checks.random().normals<Bf16>(s.tokens * s.hidden);
  const auto d_table = checks.random().normals<float>(s.rows * s.hidden);
  const auto ids = ids_around(checks, s);
  std::vector<double> want = to_doubles(d_table);
  reference().embed_backward(want.data(), to_doubles(dy).data(), ids.data(), s);
  const Operand device_d_table(checks, d_table, 1);
  const Operand device_dy(checks, dy);
  const Operand device_ids(checks, ids);
  kernels::embed_backward(
      checks.stream(), device_d_table.data(), device_dy.data(), device_ids.data(), s);
  checks.row("embed_backward", words("tokens", s.tokens, "hidden", s.hidden),
      worst_share(device_d_table.read(), want, {fp32_rounding, 1e-5}), 1);
}

void check_initialize(Checks& checks, const TensorRegion& region, i64 offset) {
  const u64 seed = static_cast<u64>(checks.random().below(i64{1} << 40));
  const auto count = static_cast<std::size_t>(region.rows * region.columns);
  std::vector<double> want(count);
  reference().initialize(want.data(), region, seed);
  for (double& value : want)
    value = to_double(to_bf16(static_cast<float>(value)));
  const Operand weight(checks, std::vector<Bf16>(count), offset);
  kernels::initialize(checks.stream(), weight.data(), region, seed);
  checks.row(region.ones ? "initialize ones" : "initialize",
      words("rows", region.rows, "columns", region.columns), same_or_not(weight.read(), want), 0);
}

void check_square_sum(Checks& checks, i64 count, i64 offset) {
  const auto gradient = checks.random().normals<float>(count, 1e-3);
  const double before = 1e-3;
  std::vector<double> want{before};
  reference().add_square_sum(want.data(), to_doubles(gradient).data(), count);
  const Operand sum(checks, std::vector<double>{before});
  const Operand device_gradient(checks, gradient, offset);
  kernels::square_sum(checks.stream(), sum.data(), device_gradient.data(), count);
  checks.row(
      "square_sum", words("count", count, "at", offset), worst_share(sum.read(), want, {1e-6}), 1);
}

/// m, v (which is never negative) and the master weights.
std::vector<float> random_state(Checks& checks, i64 count) {
  auto state = checks.random().normals<float>(3 * count, 0.1);
  for (i64 i = count; i < 2 * count; ++i) {
    float& v = state[static_cast<std::size_t>(i)];
    v *= v;
  }
  return state;
}

std::vector<double> rounded_to_bf16(const std::vector<double>& values) {
  std::vector<double> rounded;
  rounded.reserve(values.size());
  for (const double value : values)
    rounded.push_back(to_double(to_bf16(static_cast<float>(value))));
  return rounded;
}

struct AdamWCase {
  i64 count;
  i64 weight_offset;
  i64 gradient_offset;
};

/// Gradients that are longer than 1 are clipped; others are as they are.
void check_adamw(Checks& checks, const AdamWCase& c, i64 step, double norm) {
  const double square_sum = norm * norm;
  AdamW settings{.square_sum = &square_sum, .step = step};
  const auto state = random_state(checks, c.count);
  const auto gradient = checks.random().normals<float>(c.count);
  const auto weight = checks.random().normals<Bf16>(c.count);  // the master's word counts
  std::vector<double> want = to_doubles(state);
  reference().adamw(
      want.data() + 2 * c.count, want.data(), to_doubles(gradient).data(), c.count, settings);
  const Operand device_weight(checks, weight, c.weight_offset);
  const Operand device_state(checks, state);
  const Operand device_gradient(checks, gradient, c.gradient_offset);
  const Operand device_sum(checks, std::vector<double>{square_sum});
  settings.square_sum = device_sum.data();
  kernels::adamw(checks.stream(), device_weight.data(), device_state.data(), device_gradient.data(),
      c.count, settings);
  const std::vector<double> got = device_state.read();
  const std::vector<double> master(got.begin() + 2 * c.count, got.end());
  const std::string shape = words("count", c.count, "step", step) + (norm > 1 ? " clipped" : "");
  checks.row("adamw state", shape, worst_share(got, want, {3e-7, 1e-7}), 1);
  checks.row("adamw weight", shape, same_or_not(device_weight.read(), rounded_to_bf16(master)), 0);
}

void check_initialize_optimizer(Checks& checks, i64 count) {
  const auto weight = checks.random().normals<Bf16>(count);
  std::vector<double> want(static_cast<std::size_t>(2 * count));
  const std::vector<double> master = to_doubles(weight);
  want.insert(want.end(), master.begin(), master.end());
  const Operand state(checks, std::vector<float>(want.size(), 7));
  const Operand device_weight(checks, weight, 1);
  kernels::initialize_optimizer(checks.stream(), state.data(), device_weight.data(), count);
  checks.row("initialize_optimizer", std::to_string(count), same_or_not(state.read(), want), 0);
}

}  // namespace

void check_training(Checks& checks) {
  for (const i64 tokens : {1, 37})
    for (const i64 hidden : {7, 96, 2048}) {
      check_embed(checks, {tokens, hidden, 0, 11});
      check_embed(checks, {tokens, hidden, 11, 11});
      check_embed_backward(checks, {tokens, hidden, 11, 11});
    }
  check_initialize(checks, {.tensor = 3, .rows = 17, .columns = 40, .global_columns = 40}, 0);
  check_initialize(
      checks, {.tensor = 3, .rows = 17, .columns = 40, .global_columns = 40, .deviation = 1}, 0);
  check_initialize(checks,
      {.tensor = 9,
          .rows = 13,
          .columns = 21,
          .first_row = 5,
          .first_column = 42,
          .global_columns = 63},
      3);
  check_initialize(
      checks, {.tensor = 1, .rows = 1, .columns = 96, .global_columns = 96, .ones = true}, 0);
  const i64 ragged = 20000 + checks.random().below(9000);
  check_square_sum(checks, 3, 0);
  check_square_sum(checks, 3, 1);
  check_square_sum(checks, ragged, 0);
  check_square_sum(checks, ragged, 3);
  for (const AdamWCase& c : {AdamWCase{1, 0, 0}, {ragged / 8 * 4, 0, 0}, {ragged / 8 * 4, 1, 0},
           {ragged / 8 * 4, 0, 3}, {ragged / 8 * 4 + 1, 0, 0}}) {
    check_adamw(checks, c, 1, 1.5);
    check_adamw(checks, c, 1000, 0.5);
  }
  check_initialize_optimizer(checks, 1);
  check_initialize_optimizer(checks, ragged);
  if (!checks.full()) return;
  check_embed(checks, {4096, 2048, 0, 3000});
  check_embed_backward(checks, {4096, 2048, 1000, 2000});
  check_initialize(checks, {.tensor = 5, .rows = 2048, .columns = 2048, .global_columns = 2048}, 0);
  check_square_sum(checks, (i64{1} << 24) + 1, 0);
  check_adamw(checks, {i64{1} << 22, 0, 0}, 10, 3);
}

}  // namespace shardbench
