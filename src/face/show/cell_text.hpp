// SPDX-License-Identifier: Apache-2.0
// Text for a terminal: how wide it is, what of it would be obeyed, where its lines break; and a
// value as a person reads it, its unit told by the column's name.
#pragma once

#include <shardsweep/table.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// `3.0 MiB`, `12.5 ms`, `45.3 %`, `2026-11-21 03:33:58` (local time), `12,345`; empty for
/// NULL. The unit comes from the metric table, else from the column's ending: _bytes, _ms, _s,
/// _at.
[[nodiscard]] std::string humanised(std::string_view column, const Value& value);

/// True if a column's integers are microseconds since 1970.
[[nodiscard]] bool is_time(std::string_view column);

/// Local time, `2026-11-22 14:03:07`; empty for 0.
[[nodiscard]] std::string local_time_text(std::int64_t microseconds);

/// Control characters and what turns the direction of text become \xNN and \u{NNNN}, bytes that
/// are no UTF-8 become \xNN.
[[nodiscard]] std::string printable(std::string_view text);

/// Lines of an answer for a terminal: as printable() has them, but for the colours and weights
/// that views put there.
[[nodiscard]] std::string for_terminal(std::string_view text);

/// Text as it is with `utf8`; else × becomes x, … becomes ..., and other characters become
/// \u{NNNN}.
[[nodiscard]] std::string in_charset(std::string_view text, bool utf8);

/// Columns that printable text takes on a terminal: wide East Asian characters and emoji two,
/// combining marks none.
[[nodiscard]] std::size_t width_of(std::string_view text);

/// `text` filled up with blanks on one side.
enum class Align : std::uint8_t { left, right };
[[nodiscard]] std::string padded(const std::string& text, std::size_t width, Align align);

/// Lines of at most `width` columns, broken at blanks, and within a word that is wider. Lines
/// after the first are `indent` columns shorter, for the caller to put blanks before them.
[[nodiscard]] std::vector<std::string> folded(
    std::string_view text, std::size_t width, std::size_t indent = 0);

/// Each line of `text` as folded() has it, with `indent` blanks before its further lines; without a
/// width each line as it is.
[[nodiscard]] std::string fold_lines(
    std::string_view text, std::optional<std::size_t> width, std::size_t indent = 0);

}  // namespace shardsweep
