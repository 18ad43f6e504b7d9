// SPDX-License-Identifier: Apache-2.0
// Port: a drawing as a raster image.
#pragma once

#include <shardsweep/drawing.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

/// The bytes of a PNG file: black on white, `width` pixels wide; 0: 300 dots per inch, where a
/// point is 1/72 inch.
[[nodiscard]] Result<std::string> png_bytes(const Drawing& drawing, std::int64_t width);

}  // namespace shardsweep
