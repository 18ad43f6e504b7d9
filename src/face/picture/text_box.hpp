// SPDX-License-Identifier: Apache-2.0
// How wide text is in a picture. A pure room has no fonts: DejaVu Sans is wider than most, and
// its mean advance is what is reckoned with.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep {

/// Points that `text` takes at that size.
[[nodiscard]] double text_width(std::string_view text, double size);

/// The beginning of `text`, made printable, that fits; with an ellipsis where some is missing.
[[nodiscard]] std::string fitting_text(std::string_view text, double size, double width);

}  // namespace shardsweep
