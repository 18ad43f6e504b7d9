// SPDX-License-Identifier: Apache-2.0
// A table that somebody else has measured, as a CSV by column names: cells that know where they
// stand, values read from them, and the sweep that its rows make. Whoever wrote the table had
// other names and gaps than we have: each format has a reader of its own, and both fill the
// same sweep by the same checks.
#pragma once

#include "yaml/source.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/recorded.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::recorded {

inline constexpr std::size_t most_table_bytes = 256U << 20;
inline constexpr std::size_t most_table_cells = 4'000'000;

class CsvTable {
 public:
  /// Faults: no header, a column without a name or named twice.
  [[nodiscard]] static Result<CsvTable> read(
      const std::filesystem::path& file, config::Sources& sources);

  [[nodiscard]] std::size_t rows() const { return cells_.size() - 1; }
  [[nodiscard]] const std::vector<std::string>& columns() const { return names_; }
  [[nodiscard]] bool has(std::string_view column) const { return by_name_.contains(column); }
  /// nullptr if there is no such column or the cell is empty.
  [[nodiscard]] const config::YamlNode* cell(std::size_t row, std::string_view column) const;
  [[nodiscard]] const config::YamlNode& cell(std::size_t row, std::size_t column) const {
    return cells_[row + 1][column];
  }
  [[nodiscard]] int line(std::size_t row) const { return cells_[row + 1].front().line; }
  /// A fault about a row as a whole, or about the header where `row` is none.
  [[nodiscard]] tl::unexpected<Fault> refuse_row(std::size_t row, std::string_view what) const;
  [[nodiscard]] tl::unexpected<Fault> refuse_header(std::string_view what) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::vector<std::vector<config::YamlNode>> cells_;  // the header first
};

/// A whole number, also as tables with gaps write it: 16.0.
[[nodiscard]] Result<std::int64_t> read_whole(
    const config::YamlNode& cell, std::string_view column, std::int64_t least, std::int64_t most);
/// A number above 0, or none if it is 0.
[[nodiscard]] Result<std::optional<double>> read_amount(
    const config::YamlNode& cell, std::string_view column);
/// true, false, True, False, 0, 1.
[[nodiscard]] Result<bool> read_flag(const config::YamlNode& cell, std::string_view column);
/// The index of one of `words`.
[[nodiscard]] Result<std::size_t> read_word(const config::YamlNode& cell, std::string_view column,
    const std::vector<std::string_view>& words);
/// A cell as a database value: integer, real or text.
[[nodiscard]] Value value_of(const config::YamlNode& cell);

inline constexpr double gibibyte = 1 << 30;

/// Fills a RecordedSweep row by row: models by shape, labels by value, and the checks of a row.
class SweepBuilder {
 public:
  SweepBuilder(const CsvTable& table, const RecordedOptions& options);

  /// Makes a label of every column that is not in `known`.
  void add_labels(const std::set<std::string, std::less<>>& known);
  /// `run.point.model` becomes the index of `model`; the world and the shape are checked, nodes
  /// filled in. `nodes` 0: unknown. Faults name the row.
  [[nodiscard]] Result<void> add(
      std::size_t row, RecordedRun run, const ModelSpec& model, std::int64_t nodes);
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

[[nodiscard]] Result<RecordedSweep> read_plain(
    const CsvTable& table, const RecordedOptions& options);
[[nodiscard]] Result<RecordedSweep> read_nanotron(
    const CsvTable& table, const RecordedOptions& options);

}  // namespace shardsweep::recorded
