// SPDX-License-Identifier: Apache-2.0
// The scale of heatmaps: viridis, whose lightness grows from step to step, also for those who
// do not see red and green; and the text colour that can be read on it.
#pragma once

#include <shardsweep/drawing.hpp>

namespace shardsweep {

/// `share` from 0 (dark violet) to 1 (yellow); what lies outside is the nearest end.
[[nodiscard]] Colour viridis(double share);

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
