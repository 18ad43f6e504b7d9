// SPDX-License-Identifier: Apache-2.0
// Port: a drawing as a raster image.
#pragma once

#include <shardsweep/drawing.hpp>
#include <shardsweep/result.hpp>

#include <string>

namespace shardsweep {

/// The bytes of a PNG file: black on white, `dots_per_inch` where a point is 1/72 inch.
[[nodiscard]] Result<std::string> png_bytes(const Drawing& drawing, double dots_per_inch);

}  // namespace shardsweep
