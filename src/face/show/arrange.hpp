// SPDX-License-Identifier: Apache-2.0
// Which columns of a table stand on a terminal of a given width. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardsweep {

inline constexpr std::size_t column_gap = 2;

/// A column as it wants to stand.
struct ColumnShape {
  std::size_t width = 0;  ///< width of its widest text, title included
  std::size_t least = 0;  ///< least width that it needs: less than `width` if its text may fold
  std::size_t rank = 0;   ///< importance; 0: the name of a row, which folds only if it must
  bool same = false;      ///< every row has the same text, and may stand above the rows
  bool constant = false;  ///< every row has the same text, of few rows perhaps by chance
  bool empty = false;     ///< every row has nothing
};

struct Arrangement {
  bool vertical = false;            ///< a block per row instead of a line
  std::vector<std::size_t> shown;   ///< columns that stand in the table, in its order
  std::vector<std::size_t> widths;  ///< widths of the shown columns
  std::vector<std::size_t> same;    ///< go into a line above the table
  std::vector<std::size_t> hidden;  ///< columns left out for want of width
};

enum class Choice : std::uint8_t {
  fit,   ///< columns of one same value go above, the least important ones are left out
  every  ///< each column is wanted: what does not fit stands as blocks
};

/// No width: every column as wide as it wants to be. Empty columns stand only if each is
/// wanted.
[[nodiscard]] Arrangement arrange(
    const std::vector<ColumnShape>& columns, std::optional<std::size_t> width, Choice choice);

}  // namespace shardsweep
