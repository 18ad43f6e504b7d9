// SPDX-License-Identifier: Apache-2.0
// A heatmap as a table of HTML: a cell says its value, how sure it is, its layout, and is
// coloured as its picture is.
#pragma once

#include "show/pivot.hpp"

#include <shardsweep/answer.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace shardsweep {

/// Lines of a cell beside value, badge and layout: `35 % MFU`, `12 GiB free`; may be empty.
using MoreOfCell = std::function<std::vector<std::string>(std::size_t row, std::size_t column)>;
/// Text below a row's or a column's name; may be empty.
using NameOf = std::function<std::string(const std::string& label)>;

/// The answer of a cell; nullptr if it is not known here.
using AnswerOf = std::function<const CellAnswer*(std::size_t row, std::size_t column)>;

struct GridWords {
  AnswerOf answer{};
  MoreOfCell more{};
  NameOf below_row{};
  NameOf below_column{};
  std::string chosen{};  ///< key of the cell that is pressed at first
};

/// The table and its legend.
[[nodiscard]] std::string grid(const Heatmap& heatmap, const GridWords& words);

}  // namespace shardsweep
