// SPDX-License-Identifier: Apache-2.0
#include "model/moe_routing.hpp"

#include <cmath>
#include <cstddef>

namespace shardbench {

std::vector<i64> rows_by_expert(
    const std::vector<std::int32_t>& choices, const ModelShape& shape, i64 capacity) {
  std::vector<i64> rows(static_cast<std::size_t>(shape.experts), capacity);
  if (capacity == 0)
    for (const std::int32_t expert : choices)
      ++rows[static_cast<std::size_t>(expert)];
  return rows;
}

RunOrder run_order(const std::vector<i64>& counts, i64 own) {
  RunOrder order;
  const auto experts = static_cast<std::size_t>(own);
  std::vector<i64> first(counts.size());
  i64 rows = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    first[i] = rows;
    rows += counts[i];
  }
  order.by_rank.resize(static_cast<std::size_t>(rows));
  for (std::size_t expert = 0; expert < experts; ++expert)
    for (std::size_t i = expert; i < counts.size(); i += experts)
      for (i64 row = first[i]; row < first[i] + counts[i]; ++row) {
        order.by_rank[static_cast<std::size_t>(row)] =
            static_cast<std::int32_t>(order.by_expert.size());
        order.by_expert.push_back(static_cast<std::int32_t>(row));
      }
  return order;
}

i64 expert_capacity(const ModelShape& shape, const Layout& layout, i64 tokens) {
  const auto balanced =
      static_cast<double>(tokens * shape.experts_per_token) / static_cast<double>(shape.experts);
  return static_cast<i64>(std::ceil(layout.moe_capacity * balanced));
}

std::vector<std::int32_t> pinned_choices(const ModelShape& shape, MoeRouting routing,
    const AttentionShape& tokens, const Positions& positions) {
  const i64 first_run = tokens.seq_len / 2;
  std::vector<std::int32_t> choices;
  for (i64 i = 0; i < tokens.batch * tokens.seq_len; ++i) {
    const i64 at = i % tokens.seq_len;
    const i64 place = at < first_run ? positions.first + at : positions.second + at - first_run;
    const bool hot = routing == MoeRouting::skewed && place % 2 == 0;
    const i64 turn = routing == MoeRouting::skewed ? place / 2 : place;
    const i64 first = hot ? 0 : turn * shape.experts_per_token;
    for (i64 j = 0; j < shape.experts_per_token; ++j)
      choices.push_back(static_cast<std::int32_t>((first + j) % shape.experts));
  }
  return choices;
}

}  // namespace shardbench
