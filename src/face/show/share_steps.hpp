// SPDX-License-Identifier: Apache-2.0
// The colours of a heatmap's cells: eight steps of one hue, whose lightness grows from step to
// step, so that they stay apart for the colour-blind and in a greyscale print. A row of models
// has its own scale, because models differ by thousands of times; the steps are finer near its
// best, where 39 % of the peak and 35 % have to look different.
#pragma once

#include "show/pivot.hpp"

#include <shardsweep/drawing.hpp>

#include <string>
#include <vector>

namespace shardsweep {

inline constexpr int most_steps = 8;

/// 1 (below a fifth) to 8 (97 % and more) of the best.
[[nodiscard]] int share_step(double share);

/// `97 % and more`, …, `below 20 %`.
[[nodiscard]] std::string step_name(int step);

/// Colour of a step on paper, on a light page and on a terminal of 24 bits; page.css has the same.
[[nodiscard]] Colour step_colour(int step);

/// True if colours are by share of the row's best: rows are models, and more is better.
[[nodiscard]] bool by_row(const Heatmap& heatmap);

/// Step of each cell; 0: no colour, as without a measured value.
[[nodiscard]] std::vector<std::vector<int>> steps_of(const Heatmap& heatmap);

// The text colour that can be read on another one, and the scale of values.

/// Contrast of WCAG 2.1: 1 to 21.
[[nodiscard]] double contrast(Colour a, Colour b);

/// Black or white, whichever has more contrast: 4.5 at least.
[[nodiscard]] Colour readable_on(Colour background);

/// The lowest and the highest value that were measured.
struct ColourScale {
  double low = 0;
  double high = 0;
  bool any = false;
  void take(double value);
  /// 1 where all values are the same.
  [[nodiscard]] double share(double value) const;
};

}  // namespace shardsweep
