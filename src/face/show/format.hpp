// SPDX-License-Identifier: Apache-2.0
// The forms of every answer, and how text stands in three of them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace shardsweep {

enum class Format : std::uint8_t { table, csv, json, markdown };

/// Titles are words and values have units; csv and json are for programs.
[[nodiscard]] constexpr bool is_for_people(Format format) {
  return format == Format::table || format == Format::markdown;
}

/// A CSV field (RFC 4180): quoted where it holds a comma, a quote or a line's end. What a
/// spreadsheet would calculate (=cmd(), @sum) gets an apostrophe in front.
void append_csv(fmt::memory_buffer& out, std::string_view text);

/// A JSON string (RFC 8259), quotes included. Bytes that are no UTF-8 become U+FFFD.
void append_json(fmt::memory_buffer& out, std::string_view text);

/// A cell of a Markdown table (GitHub's): nothing in it is obeyed, by Markdown or by HTML.
void append_markdown(fmt::memory_buffer& out, std::string_view text);

}  // namespace shardsweep
