// SPDX-License-Identifier: Apache-2.0
// A drawing as SVG: text that every browser and every drawing program reads.
#pragma once

#include <shardsweep/drawing.hpp>

#include <string>
#include <string_view>

namespace shardsweep {

/// `text` as content or attribute of XML and HTML. Control characters and what turns the
/// direction of text are written out (\xNN), bytes that are no UTF-8 too.
[[nodiscard]] std::string xml_escaped(std::string_view text);

/// `text` as xml_escaped() has it, but its lines stay lines.
[[nodiscard]] std::string xml_escaped_lines(std::string_view text);

enum class SvgUse : std::uint8_t {
  file,  ///< stands alone: with its colours, on white
  page,  ///< inside a page, whose style gives the inks their colours
};

/// Groups with a title are read to those who do not see them (`role="img"`, `<title>`). On a
/// page a group with a key has it as `data-key`.
[[nodiscard]] std::string svg_text(const Drawing& drawing, SvgUse use);

/// The colour of an ink on paper.
[[nodiscard]] Colour paper_colour(Ink ink);

// How wide text is in a picture. A pure room has no fonts: DejaVu Sans is wider than most, and
// its mean advance is what is reckoned with.

/// Points that `text` takes at that size.
[[nodiscard]] double text_width(std::string_view text, double size);

/// The beginning of `text`, made printable, that fits; with an ellipsis where some is missing.
[[nodiscard]] std::string fitting_text(std::string_view text, double size, double width);

}  // namespace shardsweep
