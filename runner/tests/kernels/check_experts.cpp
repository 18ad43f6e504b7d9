// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: routing, and rows that go to experts and come back.
#include "cuda/kernels.hpp"
#include "operands.hpp"

#include <numeric>
#include <set>

namespace shardbench {
namespace {

using RouteShape = Device::RouteShape;

std::string shape_words(const RouteShape& s) {
  return words("experts", s.experts, "chosen", s.chosen);
}

/// Different experts for each token, as routing gives them.
std::vector<std::int32_t> random_choices(Checks& checks, const RouteShape& s) {
  std::vector<std::int32_t> choices;
  for (i64 t = 0; t < s.tokens; ++t) {
    const i64 first = checks.random().below(s.experts);
    for (i64 j = 0; j < s.chosen; ++j)
      choices.push_back(static_cast<std::int32_t>((first + j) % s.experts));
  }
  return choices;
}

/// Logits of bf16, of which many are the same.
void check_route(Checks& checks, const RouteShape& s, bool pinned) {
  const auto logits = checks.random().normals<Bf16>(s.tokens * s.experts, 2);
  std::vector<double> probabilities = to_doubles(logits);
  std::vector<double> weights(static_cast<std::size_t>(s.tokens * s.chosen));
  std::vector<std::int32_t> choices(weights.size());
  if (pinned) choices = random_choices(checks, s);
  const Operand device_rows(checks, logits, 1);
  const Operand device_weights(checks, std::vector<Bf16>(weights.size()), 1);
  const Operand device_choices(checks, choices, 1);
  reference().route({probabilities.data(), weights.data(), choices.data(), pinned}, s);
  kernels::route(checks.stream(),
      {device_rows.data(), device_weights.data(), device_choices.data(), pinned}, s);
  const std::string shape = shape_words(s) + (pinned ? ", pinned" : "");
  checks.row("route: probabilities", shape,
      worst_share(device_rows.read(), probabilities, {bf16_rounding, 1e-7}), 1);
  checks.row("route: choices", shape, same_or_not(device_choices.read(), to_doubles(choices)), 0);
  checks.row("route: weights", shape,
      worst_share(device_weights.read(), weights, {bf16_rounding, 1e-7}), 1);
}

/// A loss that has become NaN must not send rows to experts that don't exist.
void check_route_of_nan(Checks& checks, const RouteShape& s) {
  std::vector<Bf16> logits = checks.random().normals<Bf16>(s.tokens * s.experts);
  for (std::size_t i = 0; i < logits.size(); i += i < logits.size() / 2 ? 1 : 3)
    logits[i] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  const auto count = static_cast<std::size_t>(s.tokens * s.chosen);
  const Operand rows(checks, logits);
  const Operand weights(checks, std::vector<Bf16>(count));
  const Operand choices(checks, std::vector<std::int32_t>(count, -1));
  kernels::route(checks.stream(), {rows.data(), weights.data(), choices.data(), false}, s);
  const std::vector<double> got = choices.read();
  double wrong = 0;
  for (i64 t = 0; t < s.tokens; ++t) {
    const auto first = got.begin() + t * s.chosen;
    const std::set<double> own(first, first + s.chosen);
    const bool exist = *own.begin() >= 0 && *own.rbegin() < static_cast<double>(s.experts);
    if (!exist || static_cast<i64>(own.size()) != s.chosen) ++wrong;
  }
  checks.row("route: choices among NaN", shape_words(s), wrong, 0);
}

void check_route_backward(Checks& checks, const RouteShape& s, i64 sequences) {
  const i64 rows = s.tokens * s.experts;
  const i64 seq_len = s.tokens / std::max<i64>(1, sequences);
  auto probabilities = checks.random().normals<Bf16>(rows, 0.5);
  for (Bf16& p : probabilities)
    p = to_bf16(std::abs(to_float(p)));
  const auto weights = checks.random().normals<Bf16>(s.tokens * s.chosen);
  const auto d_weights = checks.random().normals<Bf16>(s.tokens * s.chosen);
  const auto balance = checks.random().normals<float>(std::max<i64>(1, sequences) * s.experts);
  const std::vector<std::int32_t> choices = random_choices(checks, s);
  std::vector<double> want(static_cast<std::size_t>(rows));
  const std::vector<double> exact_balance = to_doubles(balance);
  reference().route_backward(
      {want.data(), to_doubles(d_weights).data(), to_doubles(probabilities).data(),
          to_doubles(weights).data(), choices.data(),
          sequences == 0 ? nullptr : exact_balance.data(), seq_len},
      s);
  const Operand d_logits(checks, checks.random().normals<Bf16>(rows), 1);
  const Operand device_probabilities(checks, probabilities);
  const Operand device_weights(checks, weights);
  const Operand device_d_weights(checks, d_weights);
  const Operand device_balance(checks, balance);
  const Operand device_choices(checks, choices);
  kernels::route_backward(checks.stream(),
      {d_logits.data(), device_d_weights.data(), device_probabilities.data(), device_weights.data(),
          device_choices.data(), sequences == 0 ? nullptr : device_balance.data(), seq_len},
      s);
  // Sums over the experts cancel.
  const double cancelled = 1e-5 * std::sqrt(static_cast<double>(s.experts));
  checks.row("route_backward", shape_words(s) + (sequences == 0 ? "" : ", balance"),
      worst_share(d_logits.read(), want, {bf16_rounding, cancelled}), 1);
}

void check_count_choices(Checks& checks, const RouteShape& s, i64 sequences) {
  const double scale = 0.125 / 3;
  const std::vector<std::int32_t> choices = random_choices(checks, s);
  std::vector<double> want(static_cast<std::size_t>(sequences * s.experts));
  reference().count_choices(want.data(), choices.data(), s.tokens / sequences, scale, s);
  const Operand counts(checks, checks.random().normals<float>(sequences * s.experts));
  const Operand device_choices(checks, choices);
  kernels::count_choices(checks.stream(), counts.data(), device_choices.data(),
      s.tokens / sequences, static_cast<float>(scale), s);
  // A rounding for each token that is counted.
  const double roundings = fp32_rounding * static_cast<double>(s.tokens);
  checks.row("count_choices", shape_words(s), worst_share(counts.read(), want, {roundings}), 1);
}

void check_gather_rows(Checks& checks, i64 rows, i64 width, i64 offset) {
  constexpr i64 sources = 9;
  const auto from = checks.random().normals<Bf16>(sources * width);
  std::vector<std::int32_t> index;
  for (i64 i = 0; i < rows; ++i)
    index.push_back(static_cast<std::int32_t>(checks.random().below(sources + 1)) - 1);
  std::vector<double> want(static_cast<std::size_t>(rows * width));
  const std::vector<double> exact = to_doubles(from);
  reference().gather_rows({want.data(), exact.data(), index.data(), rows, sources, width});
  const Operand to(checks, checks.random().normals<Bf16>(rows * width), offset);
  const Operand device_from(checks, from);
  const Operand device_index(checks, index);
  kernels::gather_rows(
      checks.stream(), {to.data(), device_from.data(), device_index.data(), rows, sources, width});
  checks.row("gather_rows", words("rows", rows, "width", width), same_or_not(to.read(), want), 0);
}

/// Tokens with rows of experts in any order; each seventh choice was dropped, and two rows
/// belong to nobody.
struct PlacedCase {
  i64 tokens;
  i64 chosen;
  i64 width;
  i64 offset = 0;

  i64 rows() const { return tokens * chosen + 2; }
  std::string name() const { return words("tokens", tokens, "width", width); }
  std::vector<std::int32_t> places(Checks& checks) const {
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows()));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i],
          order[static_cast<std::size_t>(checks.random().below(static_cast<i64>(i) + 1))]);
    order.resize(static_cast<std::size_t>(tokens * chosen));
    for (std::size_t i = 3; i < order.size(); i += 7)
      order[i] = -1;
    return order;
  }
};

void check_add_placed(Checks& checks, const PlacedCase& c, bool weighted) {
  const auto rows = checks.random().normals<Bf16>(c.rows() * c.width);
  const auto y = checks.random().normals<Bf16>(c.tokens * c.width);
  const auto weights = checks.random().normals<Bf16>(c.tokens * c.chosen);
  const std::vector<std::int32_t> places = c.places(checks);
  const std::vector<double> exact_rows = to_doubles(rows);
  const std::vector<double> exact_weights = to_doubles(weights);
  std::vector<double> want = to_doubles(y);
  reference().add_placed(want.data(),
      {exact_rows.data(), places.data(), weighted ? exact_weights.data() : nullptr, c.tokens,
          c.chosen, c.rows(), c.width});
  const Operand device_y(checks, y, c.offset);
  const Operand device_rows(checks, rows);
  const Operand device_places(checks, places);
  const Operand device_weights(checks, weights);
  kernels::add_placed(checks.stream(), device_y.data(),
      {device_rows.data(), device_places.data(), weighted ? device_weights.data() : nullptr,
          c.tokens, c.chosen, c.rows(), c.width});
  checks.row(weighted ? "add_placed" : "add_placed, no weights", c.name(),
      worst_share(device_y.read(), want, {bf16_rounding, 1e-5}), 1);
}

void check_placed_backward(Checks& checks, const PlacedCase& c) {
  const auto rows = checks.random().normals<Bf16>(c.rows() * c.width);
  const auto dy = checks.random().normals<Bf16>(c.tokens * c.width);
  const auto weights = checks.random().normals<Bf16>(c.tokens * c.chosen);
  const auto d_rows = checks.random().normals<Bf16>(c.rows() * c.width);
  const std::vector<std::int32_t> places = c.places(checks);
  const std::vector<double> exact_rows = to_doubles(rows);
  const std::vector<double> exact_weights = to_doubles(weights);
  std::vector<double> want = to_doubles(d_rows);  // rows without a token stay
  std::vector<double> want_weights(weights.size());
  reference().placed_backward(want.data(), want_weights.data(), to_doubles(dy).data(),
      {exact_rows.data(), places.data(), exact_weights.data(), c.tokens, c.chosen, c.rows(),
          c.width});
  const Operand device_d_rows(checks, d_rows, c.offset);
  const Operand d_weights(checks, checks.random().normals<Bf16>(c.tokens * c.chosen), 1);
  const Operand device_dy(checks, dy);
  const Operand device_rows(checks, rows);
  const Operand device_places(checks, places);
  const Operand device_weights(checks, weights);
  kernels::placed_backward(checks.stream(), device_d_rows.data(), d_weights.data(),
      device_dy.data(),
      {device_rows.data(), device_places.data(), device_weights.data(), c.tokens, c.chosen,
          c.rows(), c.width});
  checks.row("placed_backward: rows", c.name(),
      worst_share(device_d_rows.read(), want, {bf16_rounding, 1e-7}), 1);
  const double cancelled = 1e-6 * static_cast<double>(c.width);
  checks.row("placed_backward: weights", c.name(),
      worst_share(d_weights.read(), want_weights, {bf16_rounding, cancelled}), 1);
}

/// Many choices for each thread, experts that nobody chooses, and rows without a token.
void check_dispatch(Checks& checks, const RouteShape& s, i64 capacity) {
  auto choices = random_choices(checks, s);
  for (std::size_t i = 0; i < choices.size(); i += 3)
    choices[i] = 0;  // exceeds a capacity
  const i64 rows = capacity == 0 ? s.tokens * s.chosen : s.experts * capacity;
  const std::vector<std::int32_t> other(static_cast<std::size_t>(rows), -7);
  const std::vector<std::int32_t> unplaced(choices.size(), -7);
  std::vector<std::int32_t> source = other;
  std::vector<std::int32_t> places = unplaced;
  std::vector<double> counts(static_cast<std::size_t>(s.experts));
  const double dropped_before = reference().dropped().choices;
  reference().dispatch({choices.data(), source.data(), places.data(), counts.data(), capacity}, s);
  const double dropped = reference().dropped().choices - dropped_before;
  const Operand device_choices(checks, choices);
  const Operand device_source(checks, other, 1);
  const Operand device_places(checks, unplaced, 1);
  const Operand device_counts(checks, std::vector<float>(counts.size()), 1);
  const DeviceArray<double> device_dropped = checks.array(std::vector<double>{0});
  kernels::dispatch(checks.stream(),
      {device_choices.data(), device_source.data(), device_places.data(), device_counts.data(),
          capacity, device_dropped.data()},
      s);
  const std::string shape = shape_words(s) + ", capacity " + std::to_string(capacity);
  checks.row("dispatch: tokens", shape, same_or_not(device_source.read(), to_doubles(source)), 0);
  checks.row("dispatch: places", shape, same_or_not(device_places.read(), to_doubles(places)), 0);
  checks.row("dispatch: dropped", shape, same_or_not(device_dropped.read(), {dropped}), 0);
  checks.row("dispatch: counts", shape, same_or_not(device_counts.read(), counts), 0);
}

void check_routing(Checks& checks, const RouteShape& s, i64 sequences) {
  check_route(checks, s, false);
  check_route(checks, s, true);
  check_route_backward(checks, s, 0);
  check_route_backward(checks, s, sequences);
  check_count_choices(checks, s, sequences);
}

void check_placed(Checks& checks, const PlacedCase& c) {
  check_add_placed(checks, c, true);
  check_add_placed(checks, c, false);
  check_placed_backward(checks, c);
}

}  // namespace

void check_experts(Checks& checks) {
  for (const RouteShape& s : {RouteShape{6, 2, 1}, {6, 4, 4}, {12, 33, 3}, {20, 256, 8}})
    check_routing(checks, s, 2);
  check_route_of_nan(checks, {8, 40, 6});
  for (const i64 capacity : {0, 1, 24}) {
    check_dispatch(checks, {6, 4, 2}, capacity);
    check_dispatch(checks, {300, 33, 3}, capacity);
  }
  for (const i64 width : {7, 96, 1032}) {
    check_gather_rows(checks, 13, width, 0);
    check_gather_rows(checks, 13, width, 1);
    check_placed(checks, {5, 3, width});
    check_placed(checks, {5, 3, width, 1});
  }
  if (!checks.full()) return;
  check_routing(checks, {4096, 128, 8}, 4);
  check_gather_rows(checks, 4096, 4096, 0);
  check_placed(checks, {2048, 8, 4096});
}

}  // namespace shardbench
