// SPDX-License-Identifier: Apache-2.0
// The three passes of the vocabulary-parallel cross entropy.
#include "cuda/kernels.hpp"
#include "operands.hpp"

#include <algorithm>

namespace shardbench {
namespace {

/// A part of the vocabulary, [first, first + rows) of `vocabulary`.
struct LossCase {
  i64 tokens;
  i64 rows;
  i64 first;
  i64 vocabulary;
  i64 stride;

  /// Half of what lies between the rows is padding of the vocabulary.
  Device::LossShape shape() const { return {tokens, rows, first, stride, (stride - rows) / 2}; }
};

std::string shape_of(const LossCase& c) {
  return words("tokens", c.tokens, "logits", c.rows) + " from " + std::to_string(c.first);
}

std::vector<std::int32_t> random_ids(Checks& checks, i64 count, i64 limit) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(checks.random().below(limit));
  return ids;
}

void check_loss_max(Checks& checks, const LossCase& c, const std::vector<Bf16>& logits) {
  std::vector<double> want(static_cast<std::size_t>(c.tokens));
  reference().loss_max(want.data(), to_doubles(logits).data(), c.shape());
  const Operand maximum(checks, std::vector<float>(want.size()));
  const Operand device_logits(checks, logits);
  kernels::loss_max(checks.stream(), maximum.data(), device_logits.data(), c.shape());
  std::vector<double> got = maximum.read();
  // An empty row of logits gives minus infinity, for which no difference exists.
  for (std::vector<double>* values : {&got, &want})
    for (double& value : *values)
      value = std::max(value, -1e30);
  checks.row("loss_max", shape_of(c), same_or_not(got, want), 0);
}

/// Maxima of the whole row: at least those of the part.
std::vector<float> global_maxima(Checks& checks, const LossCase& c) {
  std::vector<float> maxima(static_cast<std::size_t>(c.tokens));
  for (float& maximum : maxima)
    maximum = 14 + static_cast<float>(checks.random().below(3));
  return maxima;
}

void check_loss_sums(Checks& checks, const LossCase& c, const std::vector<Bf16>& logits) {
  const auto targets = random_ids(checks, c.tokens, c.vocabulary);
  const auto maxima = global_maxima(checks, c);
  const Device::LossShape shape = c.shape();
  std::vector<double> want(2 * maxima.size());
  reference().loss_sums(
      want.data(), to_doubles(logits).data(), to_doubles(maxima).data(), targets.data(), shape);
  const Operand statistics(checks, std::vector<float>(want.size()));
  const Operand device_logits(checks, logits);
  const Operand device_maxima(checks, maxima);
  const Operand device_targets(checks, targets);
  kernels::loss_sums(checks.stream(), statistics.data(), device_logits.data(), device_maxima.data(),
      device_targets.data(), shape);
  checks.row("loss_sums", shape_of(c), worst_share(statistics.read(), want, {3e-6}), 1);
}

void check_loss_at_once(Checks& checks, const LossCase& c, const std::vector<Bf16>& logits) {
  const auto targets = random_ids(checks, c.tokens, c.vocabulary);
  const Device::LossShape shape = c.shape();
  const auto tokens = static_cast<std::size_t>(c.tokens);
  std::vector<double> want_maximum(tokens);
  std::vector<double> want(2 * tokens);
  reference().loss_max_and_sums(
      want_maximum.data(), want.data(), to_doubles(logits).data(), targets.data(), shape);
  const Operand maximum(checks, std::vector<float>(tokens));
  const Operand statistics(checks, std::vector<float>(want.size()));
  const Operand device_logits(checks, logits);
  const Operand device_targets(checks, targets);
  kernels::loss_max_and_sums(checks.stream(), maximum.data(), statistics.data(),
      device_logits.data(), device_targets.data(), shape);
  checks.row(
      "loss_max_and_sums, maxima", shape_of(c), same_or_not(maximum.read(), want_maximum), 0);
  checks.row("loss_max_and_sums", shape_of(c), worst_share(statistics.read(), want, {3e-6}), 1);
}

void check_loss_backward(Checks& checks, const LossCase& c, const std::vector<Bf16>& logits) {
  const double scale = 1.0 / 64;  // exact in fp32 as in fp64
  const auto targets = random_ids(checks, c.tokens, c.vocabulary);
  const auto maxima = global_maxima(checks, c);
  // Sums over a whole vocabulary, and the logits of the targets less the maxima.
  std::vector<float> statistics;
  for (i64 i = 0; i < c.tokens; ++i)
    statistics.push_back(1 + static_cast<float>(checks.random().below(1000)) / 64);
  for (i64 i = 0; i < c.tokens; ++i)
    statistics.push_back(-static_cast<float>(checks.random().below(1000)) / 64);
  const Device::LossShape shape = c.shape();
  std::vector<double> want = to_doubles(logits);
  reference().loss_backward({want.data(), to_doubles(maxima).data(), to_doubles(statistics).data(),
                                targets.data(), scale},
      shape);
  const double before = 2.5;  // sum from other micro-batches
  const std::vector<double> want_loss{before + reference().take_loss()};

  const Operand device_logits(checks, logits);
  const Operand device_maxima(checks, maxima);
  const Operand device_statistics(checks, statistics);
  const Operand device_targets(checks, targets);
  const Operand loss(checks, std::vector<double>{before});
  kernels::loss_backward(checks.stream(),
      {device_logits.data(), device_maxima.data(), device_statistics.data(), device_targets.data(),
          static_cast<float>(scale), loss.data()},
      shape);
  checks.row("loss_backward", shape_of(c),
      worst_share(device_logits.read(), want, {bf16_rounding, 1e-7 * scale}), 1);
  checks.row("loss_backward loss", shape_of(c), worst_share(loss.read(), want_loss, {1e-6}), 1);
}

}  // namespace

void check_losses(Checks& checks) {
  std::vector<LossCase> cases;
  if (checks.full()) cases = {{512, 50257, 0, 50257, 50304}, {300, 64128, 64128, 128256, 64128}};
  for (const i64 tokens : {1, 37})
    for (const LossCase& c : {LossCase{tokens, 5, 0, 5, 5}, {tokens, 64, 0, 128, 64},
             {tokens, 64, 64, 128, 64}, {tokens, 1001, 2002, 2500, 1001},
             {tokens, 4099, 0, 4099, 4160}, {tokens, 64, 128, 128, 80}, {tokens, 0, 128, 128, 80}})
      cases.push_back(c);
  for (const LossCase& c : cases) {
    const auto logits = checks.random().normals<Bf16>(c.tokens * c.stride, 4);
    check_loss_max(checks, c, logits);
    check_loss_sums(checks, c, logits);
    if (c.rows > 0) check_loss_at_once(checks, c, logits);
    check_loss_backward(checks, c, logits);
  }
}

}  // namespace shardbench
