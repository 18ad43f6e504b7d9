// SPDX-License-Identifier: Apache-2.0
// Points and trials as columns. The names of the axes' columns come from axes() and nowhere
// else, so that a new axis is a row there and a column by a migration.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/rows.hpp>
#include <shardsweep/sweep.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::sqlite {

/// Columns of a point: axes, repeat, vars, the model's shape, global_batch.
[[nodiscard]] const std::vector<std::string>& point_columns();
/// Columns of a trial as it is submitted: names, position, its layout in words, the point,
/// predictions.
[[nodiscard]] const std::vector<std::string>& submitted_columns();
/// Columns of a point left out: constraint_name, why, the point.
[[nodiscard]] const std::vector<std::string>& left_out_columns();

/// The axes as columns: "t.model, t.nodes, …".
[[nodiscard]] std::string axis_list(std::string_view prefix);
/// "a, b, c", each with `prefix` in front.
[[nodiscard]] std::string list(
    const std::vector<std::string>& columns, std::string_view prefix = "");
/// "?, ?, ?".
[[nodiscard]] std::string places(std::size_t count);

/// Binds the values of point_columns().
void bind_point(Statement::Use& row, const SweepSpec& sweep, const Point& point);
/// Binds the same values, but for vars: in their place stand labels, a JSON object.
void bind_point(
    Statement::Use& row, const SweepSpec& sweep, const Point& point, std::string_view labels);
/// The point back from columns [0, point_columns()) of a row; a model or a var's value that the
/// sweep no longer names is a fault.
[[nodiscard]] Point read_point(const Statement::Use& row, const SweepSpec& sweep);

/// Columns of a TrialRow, of the table `trials AS t`.
[[nodiscard]] const std::string& trial_row_columns();

[[nodiscard]] State read_state(const Statement::Use& row, int column);
[[nodiscard]] std::optional<Outcome> read_outcome(const Statement::Use& row, int column);

/// An index into `words`; a word that is not among them is corrupt.
[[nodiscard]] std::size_t word_index(
    std::span<const std::string_view> words, std::string_view text);

}  // namespace shardsweep::sqlite
