// SPDX-License-Identifier: Apache-2.0
#include "picture/text_box.hpp"

#include "show/cell_text.hpp"
#include "show/styled_text.hpp"

#include <cstddef>

namespace shardsweep {
namespace {

constexpr double mean_advance = 0.62;  ///< share of the size, per column

}  // namespace

double text_width(std::string_view text, double size) {
  return static_cast<double>(width_of(printable(text))) * size * mean_advance;
}

std::string fitting_text(std::string_view text, double size, double width) {
  const auto columns = static_cast<std::size_t>(width / (size * mean_advance));
  return cut_to(text, columns > 1 ? columns : 1, true);
}

}  // namespace shardsweep
