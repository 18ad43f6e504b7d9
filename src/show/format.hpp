// SPDX-License-Identifier: Apache-2.0
// The three forms of every answer, and how text stands in two of them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace shardsweep {

enum class Format : std::uint8_t { table, csv, json };

/// A CSV field (RFC 4180): quoted where it holds a comma, a quote or a line's end.
void append_csv(fmt::memory_buffer& out, std::string_view text);

/// A JSON string (RFC 8259), quotes included. Bytes that are no UTF-8 become U+FFFD.
void append_json(fmt::memory_buffer& out, std::string_view text);

}  // namespace shardsweep
