// SPDX-License-Identifier: Apache-2.0
// --emit and --from-args of `best` and `plan`: a layout in a trainer's own words, to paste; a
// present configuration among the layouts that are known. Both read rows of results as points.
#pragma once

#include "cli/session.hpp"
#include "predict/family.hpp"
#include "trainer/point_words.hpp"

#include <shardsweep/point.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

class Grammar;

/// A configuration without line ends and the blanks that begin its lines.
[[nodiscard]] std::string on_one_line(std::string_view configuration);

/// Reads a trainer's file of the user, which is known by its name from then on; other names are
/// those of trainers that are built in.
[[nodiscard]] Result<void> know_trainer(const std::string& name);

/// Family that --family names: one that is built in, or that of a trainer's file of the user.
[[nodiscard]] Result<const Family*> asked_family(const std::string& name);

/// --emit, --from-args, --for and --gpus.
void declare_emit(Grammar& grammar);
/// Points of a plan, by an option or argument of this name.
void declare_point(Grammar& grammar, const char* name, const std::string& begin);

/// The best layout of each cell of the named sweeps, and the named trials.
[[nodiscard]] Result<ExitCode> emit_best(const Session& session);
/// The points that --point names.
[[nodiscard]] Result<ExitCode> emit_plan(const Session& session, const PlannedSweep& planned);

/// Ranks a present configuration: among what was measured, or by what is predicted.
[[nodiscard]] Result<ExitCode> rank_among_results(const Session& session);
[[nodiscard]] Result<ExitCode> rank_in_plan(const Session& session, const PlannedSweep& planned);

// ---- for both -------------------------------------------------------------------------------

/// One row's values by their columns.
class ResultRow {
 public:
  ResultRow(const Table& table, std::size_t row) : table_(table), row_(table.rows.at(row)) {}

  /// 0, empty: it has no such value.
  [[nodiscard]] std::int64_t number(std::string_view column) const;
  [[nodiscard]] std::string text(std::string_view column) const;
  [[nodiscard]] double real(std::string_view column) const;

 private:
  [[nodiscard]] const Value& at(std::string_view column) const;

  const Table& table_;
  const std::vector<Value>& row_;
};

/// Label of a layout (sweep/layout_text.hpp). Words of a trainer that are none of ours stand as
/// they are.
[[nodiscard]] std::string layout_text(const TrainerLayout& layout);

/// Sweep and trial, and all axes.
[[nodiscard]] std::vector<std::string> point_columns();

/// A value of a column as the axis counts it; none: no value of this axis.
[[nodiscard]] std::optional<std::int64_t> axis_value(
    const AxisInfo& axis, const SweepSpec& sweep, const ResultRow& row);

}  // namespace shardsweep
