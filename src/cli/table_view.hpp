// SPDX-License-Identifier: Apache-2.0
// A Table as text. Only the `table` form is for eyes: it humanises units and neutralises what a
// terminal would obey; csv and json carry the values as they are. The note is the caller's: it
// is talk, and goes to stderr.
#pragma once

#include "cli/format.hpp"

#include <shardsweep/table.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// table, csv or json.
[[nodiscard]] std::optional<Format> format_from(std::string_view word);

/// table: a header line, columns two blanks apart, numbers to the right, no blanks at the ends
/// of lines. csv: RFC 4180 with LF, NULL an empty field. json: an array of objects, one a line,
/// NULL null, and a real that is no number null.
[[nodiscard]] std::string table_text(const Table& table, Format format);

/// A number so that reading it back gives the same one; a real has a point or an exponent.
[[nodiscard]] std::string exact(double value);

}  // namespace shardsweep
