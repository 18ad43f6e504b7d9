// SPDX-License-Identifier: Apache-2.0
// What of a trial, its attempts and its measurements stands in JSON lines, by column. The rows'
// own lists say it, and the schema says of which kind a value is and what it is if it is left
// out.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/table.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::sqlite {

/// A column of trials, attempts, measurements or left_out that no line has.
struct NotInLines {
  std::string_view column;
  std::string_view why;
};
inline constexpr std::array<NotInLines, 19> not_in_lines{{
    {"id", "of one database"},
    {"sweep", "the file is the sweep"},
    {"position", "the order of the lines"},
    {"state", "all of them have ended"},
    {"attempts", "those of the line are counted"},
    {"last_outcome", "that of the last attempt"},
    {"prior", "a trial that runs again has it as its outcome"},
    {"prior_cause", "as its outcome"},
    {"side", "runs with a profiler measure nothing: none has a line"},
    {"counted_attempt", "follows from the attempts"},
    {"counted_mark", "follows from the measurements"},
    {"counted_speed", "follows from the measurements"},
    {"counted_code", "follows from the attempts"},
    {"trial", "the line's"},
    {"attempt", "the line's"},
    {"nonce", "of one database"},
    {"dir", "of one machine"},
    {"leader", "of one database"},
    {"environment", "may hold secrets"},
}};

/// Columns of how a trial ended, beside those that a submission has.
[[nodiscard]] const std::vector<std::string>& trial_fact_columns();
/// Columns of an attempt that is over.
[[nodiscard]] const std::vector<std::string>& attempt_fact_columns();
/// Columns of a measurement: metrics and what they were measured with.
[[nodiscard]] const std::vector<std::string>& measured_columns();

enum class LineKind : std::uint8_t { integer, real, text, json };

struct LineColumn {
  std::string name;  ///< column of the table
  std::string key;   ///< key in the line
  LineKind kind = LineKind::text;
  bool nullable = false;
  /// Value if the line has not got the key; none: NULL, or the key must be there.
  Value otherwise{};
};

struct LineColumns {
  std::vector<LineColumn> trial{};
  std::vector<LineColumn> attempt{};
  std::vector<LineColumn> measured{};
  std::vector<LineColumn> left_out{};
};

/// `database` has the schema.
[[nodiscard]] LineColumns line_columns(Database& database);

/// Format of the lines, under its key in the first of them.
inline constexpr std::int64_t lines_format = 1;
inline constexpr const char* lines_format_key = "shardsweep_sweep";

}  // namespace shardsweep::sqlite
