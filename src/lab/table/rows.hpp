// SPDX-License-Identifier: Apache-2.0
// What both kinds of table share: models by shape, labels by value, and the checks of a row.
#pragma once

#include "table/table.hpp"

#include <shardsweep/recorded.hpp>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::recorded {

inline constexpr double gibibyte = 1 << 30;

/// Fills a RecordedSweep row by row.
class SweepBuilder {
 public:
  SweepBuilder(const CsvTable& table, const RecordedOptions& options);

  /// Makes a label of every column that is not in `known`.
  void add_labels(const std::set<std::string, std::less<>>& known);
  /// `run.point.model` becomes the index of `model`; the world and the shape are checked, nodes
  /// filled in. `nodes` 0: unknown. Faults name the row.
  [[nodiscard]] Result<void> add(std::size_t row, RecordedRun run, const ModelSpec& model,
                                 std::int64_t nodes);
  [[nodiscard]] RecordedSweep take() { return std::move(sweep_); }

 private:
  [[nodiscard]] Result<void> check_shape(std::size_t row, const ModelSpec& model) const;
  [[nodiscard]] Result<void> place(std::size_t row, RecordedRun& run, std::int64_t nodes) const;
  [[nodiscard]] std::int32_t model_index(const ModelSpec& model);

  const CsvTable& table_;
  const RecordedOptions& options_;
  RecordedSweep sweep_;
  std::vector<std::size_t> label_columns_;
  std::vector<std::map<std::string, std::int32_t, std::less<>>> label_index_;
};

[[nodiscard]] Result<RecordedSweep> read_plain(const CsvTable& table,
                                               const RecordedOptions& options);
[[nodiscard]] Result<RecordedSweep> read_nanotron(const CsvTable& table,
                                                  const RecordedOptions& options);

}  // namespace shardsweep::recorded
