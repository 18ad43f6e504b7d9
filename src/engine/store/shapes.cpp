// SPDX-License-Identifier: Apache-2.0
#include "store/shapes.hpp"

#include "store/deadline.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace shardsweep::sqlite {
namespace {

/// The first shape behind `last` in the index, where `same` of its columns are alike.
std::optional<std::vector<Value>> next_shape(
    Database& database, const std::vector<Value>& last, std::size_t same) {
  std::string condition = "1";
  for (std::size_t i = 0; i < same; ++i)
    condition += fmt::format(" AND {} = ?", Shapes::names[i]);
  if (!last.empty()) condition += fmt::format(" AND {} > ?", Shapes::names[same]);
  Statement select(database,
      fmt::format("SELECT {0}, 0, 0 FROM trials WHERE {1} ORDER BY {0} LIMIT 1",
          fmt::join(Shapes::names, ", "), condition));
  auto use = select.use();
  for (std::size_t i = 0; !last.empty() && i <= same; ++i)
    use.bind_value(last[i]);
  auto rows = fetch(select, use).rows;
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

}  // namespace

Shapes shapes_of(Database& database, const Source& source) {
  Statement select(database,
      fmt::format(
          "SELECT {0}, count(*), sum(outcome IS 'completed') FROM {1} WHERE {2} GROUP BY {0}",
          fmt::join(Shapes::names, ", "), source.trial_rows, source.where));
  auto use = select.use(source.chosen.sweeps, source.chosen.trials);
  return {fetch(select, use).rows};
}

std::optional<Shapes> few_shapes(Database& database) {
  constexpr std::size_t many = 1000;
  Shapes shapes;
  auto next = next_shape(database, {}, 0);
  while (next) {
    if (shapes.rows.size() == many) return std::nullopt;
    shapes.rows.push_back(std::move(*next));
    next.reset();
    for (std::size_t same = Shapes::names.size(); !next && same > 0; --same)
      next = next_shape(database, shapes.rows.back(), same - 1);
  }
  return shapes;
}

}  // namespace shardsweep::sqlite
