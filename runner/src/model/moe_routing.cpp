// SPDX-License-Identifier: Apache-2.0
#include "model/moe_routing.hpp"

#include <cmath>
#include <cstddef>

namespace shardbench {

Dispatch dispatch_of(const std::vector<std::int32_t>& choices, const ModelShape& shape,
                     i64 capacity) {
  const auto experts = static_cast<std::size_t>(shape.experts);
  Dispatch d;
  d.sent.assign(experts, capacity);
  if (capacity == 0)
    for (const std::int32_t expert : choices)
      ++d.sent[static_cast<std::size_t>(expert)];
  std::vector<i64> next(experts, 0);
  std::vector<i64> end(experts, 0);
  i64 rows = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    next[e] = rows;
    rows += d.sent[e];
    end[e] = rows;
  }
  d.source.assign(static_cast<std::size_t>(rows), -1);
  d.places.assign(choices.size(), -1);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto e = static_cast<std::size_t>(choices[i]);
    if (next[e] == end[e]) continue;
    d.places[i] = static_cast<std::int32_t>(next[e]);
    d.source[static_cast<std::size_t>(next[e]++)] =
        static_cast<std::int32_t>(static_cast<i64>(i) / shape.experts_per_token);
  }
  return d;
}

i64 expert_capacity(const ModelShape& shape, const Layout& layout, i64 tokens) {
  const auto balanced = static_cast<double>(tokens * shape.experts_per_token) /
                        static_cast<double>(shape.experts);
  return static_cast<i64>(std::ceil(layout.moe_capacity * balanced));
}

std::vector<std::int32_t> pinned_choices(const ModelShape& shape, MoeRouting routing,
                                         const AttentionShape& tokens,
                                         const Positions& positions) {
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
