// SPDX-License-Identifier: Apache-2.0
// Keys of cells and layouts as the database has them: every statement that groups, joins or
// names by them takes its expression from here.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/cell_key.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace shardsweep::sqlite {

inline constexpr int cell_column_count = 5;
/// `of`: "t." or nothing.
[[nodiscard]] inline std::string cell_columns(std::string_view of) {
  return fmt::format("{0}model, {0}seq_len, {0}nodes, {0}gpus, {0}vars", of);
}
[[nodiscard]] inline CellKey read_cell(const Statement::Use& row, int first) {
  return {row.text(first), row.integer(first + 1), row.integer(first + 2), row.integer(first + 3),
      row.text(first + 4)};
}

/// Sweeps that were a table of others: vars of theirs are labels, which set nothing. What came out
/// of a folder of lines has its sweep file, and is as it was.
inline constexpr std::string_view imported_tables_sql =
    "SELECT id FROM sweeps WHERE backend = 'imported' AND source = resolved";

/// Key that all repeats of a layout have, in all sweeps. A lane's trials differ in micro_batch,
/// grad_accum and repeat alone.
[[nodiscard]] inline std::string layout_key_sql(std::string_view of) {
  return fmt::format("{0}lane || '/' || {0}micro_batch || '/' || {0}grad_accum", of);
}
/// Key of a layout with the settings of NCCL and of the allocator, as ranks found them: runs under
/// others are no repeats. `attempt`: expression of the attempt that is counted.
[[nodiscard]] inline std::string layout_and_settings_sql(
    std::string_view of, std::string_view attempt) {
  return fmt::format(
      "{} || '/' || ifnull((SELECT m.settings FROM measurements AS m WHERE m.attempt = {}), '')",
      layout_key_sql(of), attempt);
}

}  // namespace shardsweep::sqlite
