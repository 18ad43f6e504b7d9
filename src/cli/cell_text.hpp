// SPDX-License-Identifier: Apache-2.0
// A value as a person reads it in a table: units by the column's name, nothing that a terminal
// would obey.
#pragma once

#include <shardsweep/table.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace shardsweep {

/// `3.00 MiB`, `12.5 ms`, `45.3 %`, `2026-11-21 03:33:58` (UTC), `12,345`; empty for NULL. The
/// unit comes from the metric table, else from the column's ending: _bytes, _ms, _s, _at.
[[nodiscard]] std::string humanised(std::string_view column, const Value& value);

/// Control characters and what turns the direction of text become \xNN and \u{NNNN}, bytes that
/// are no UTF-8 become \xNN.
[[nodiscard]] std::string printable(std::string_view text);

/// Columns that printable text takes on a terminal: wide East Asian characters and emoji two,
/// combining marks none. Good enough to line up tables.
[[nodiscard]] std::size_t width_of(std::string_view text);

/// `text` filled up with blanks on one side.
enum class Align : std::uint8_t { left, right };
[[nodiscard]] std::string padded(const std::string& text, std::size_t width, Align align);

}  // namespace shardsweep
