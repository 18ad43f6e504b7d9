// SPDX-License-Identifier: Apache-2.0
// What of a trial, its attempts and its measurements stands in JSON lines, by column. The rows'
// own lists say it, and the schema says of which kind a value is and what it is if it is left
// out.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/table.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep::sqlite {

/// Of how a trial ended, beside the columns that a submission has.
[[nodiscard]] const std::vector<std::string>& trial_fact_columns();
/// Of an attempt that is over: no ids, folders, nonces, and nothing of its environment.
[[nodiscard]] const std::vector<std::string>& attempt_fact_columns();
/// Of a measurement: metrics and what they were measured with.
[[nodiscard]] const std::vector<std::string>& measured_columns();

enum class LineKind : std::uint8_t { integer, real, text, json };

struct LineColumn {
  std::string name;  ///< of the table
  std::string key;   ///< of the line
  LineKind kind = LineKind::text;
  bool nullable = false;
  /// What it is if the line has not got its key; none: NULL, or it must have it.
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

/// Of the first line.
inline constexpr std::int64_t lines_format = 1;
inline constexpr const char* lines_format_key = "shardsweep_sweep";

}  // namespace shardsweep::sqlite
