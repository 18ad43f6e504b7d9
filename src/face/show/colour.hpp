// SPDX-License-Identifier: Apache-2.0
// The text colour that can be read on another one, and the scale of values.
#pragma once

#include <shardsweep/drawing.hpp>

namespace shardsweep {

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
