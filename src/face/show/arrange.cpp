// SPDX-License-Identifier: Apache-2.0
#include "show/arrange.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardsweep {
namespace {

std::size_t total(const std::vector<std::size_t>& widths) {
  const auto gaps = widths.empty() ? 0 : column_gap * (widths.size() - 1);
  return std::accumulate(widths.begin(), widths.end(), gaps);
}

/// Gives the rest of the width to the columns that fold, in their order.
void widen(Arrangement& arrangement, const std::vector<ColumnShape>& columns, std::size_t width) {
  for (std::size_t i = 0; i < arrangement.shown.size(); ++i) {
    auto& own = arrangement.widths[i];
    const auto room = width - std::min(width, total(arrangement.widths));
    own += std::min(room, columns[arrangement.shown[i]].width - own);
  }
}

std::vector<std::size_t> by_rank(const std::vector<ColumnShape>& columns) {
  std::vector<std::size_t> order(columns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return columns[a].rank < columns[b].rank; });
  return order;
}

Arrangement everything(const std::vector<ColumnShape>& columns) {
  Arrangement all;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty) continue;
    all.shown.push_back(i);
    all.widths.push_back(columns[i].width);
  }
  return all;
}

constexpr std::size_t most_needed = 3;  ///< columns of the highest ranks that a row has to have

/// The most important columns that fit. Where the row's name would leave no room for the next
/// two, it folds.
std::vector<bool> chosen_columns(const std::vector<ColumnShape>& columns, std::size_t width) {
  std::vector<bool> chosen(columns.size());
  std::size_t used = 0;
  std::size_t place = 0;
  for (const auto i : by_rank(columns)) {
    if (columns[i].same || columns[i].empty) continue;
    const auto more = columns[i].least + (used == 0 ? 0 : column_gap);
    const bool fits = used + more <= width;
    if (!fits && place > 0 && place < most_needed) return {};
    ++place;
    if (!fits) continue;
    chosen[i] = true;
    used += more;
  }
  return chosen;
}

/// The name of a row in full, or folded if it has to.
std::vector<bool> chosen_with_name(
    std::vector<ColumnShape>& columns, std::size_t width, Choice choice) {
  auto unfolded = columns;
  for (auto& column : unfolded) {
    if (column.rank == 0) column.least = column.width;
  }
  auto chosen = chosen_columns(unfolded, width);
  const bool all = std::find(chosen.begin(), chosen.end(), false) == chosen.end();
  if (!chosen.empty() && (all || choice == Choice::fit)) {
    columns = std::move(unfolded);
    return chosen;
  }
  chosen = chosen_columns(columns, width);
  return chosen.empty() ? std::vector<bool>(columns.size()) : chosen;
}

}  // namespace

Arrangement arrange(
    const std::vector<ColumnShape>& columns, std::optional<std::size_t> width, Choice choice) {
  auto wanted = columns;
  if (choice == Choice::every) {
    for (auto& column : wanted)
      column.same = column.empty = false;
  }
  if (!width) return everything(wanted);
  const auto chosen = chosen_with_name(wanted, *width, choice);
  Arrangement result;
  bool named = false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].empty) continue;
    if (wanted[i].same) {
      result.same.push_back(i);
    } else if (chosen[i]) {
      result.shown.push_back(i);
      result.widths.push_back(wanted[i].least);
      named = named || wanted[i].rank == 0;
    } else {
      result.hidden.push_back(i);
    }
  }
  // A row without its name, or with nothing beside it, says nothing.
  const bool nameable = std::any_of(wanted.begin(), wanted.end(),
      [](const auto& column) { return column.rank == 0 && !column.same; });
  const bool poor = !result.hidden.empty() &&
      ((nameable && !named) || result.shown.size() < 2 || choice == Choice::every);
  if (poor) {
    auto blocks = everything(wanted);
    blocks.vertical = true;
    return blocks;
  }
  widen(result, wanted, *width);
  return result;
}

}  // namespace shardsweep
