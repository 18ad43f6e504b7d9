// SPDX-License-Identifier: Apache-2.0
// The port's functions: a table read by its format, and its rows chosen by an expression.
#include "config/sweep_reader.hpp"
#include "filter/filter.hpp"
#include "table/table.hpp"

#include <shardsweep/filter.hpp>
#include <shardsweep/sweep.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using filter::Column;

/// A measured column: each row has a value of its own.
Column by_row(std::string name, std::vector<Value> values) {
  return {std::move(name), [](const Point& point) { return std::int64_t{point.vars.front()}; },
      std::move(values), {}};
}

Value or_null(const auto& optional) {
  return optional ? Value(*optional) : Value();
}

Value text_or_null(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}

// Columns of `results` that an imported row fills beside its labels; no label may have these names.
constexpr std::array<std::string_view, 3> row_columns{"kernel", "software_version", "oom_error"};

/// "AllReduce (GB/s)" as allreduce_gb_s.
std::string plain_name(std::string_view header) {
  constexpr std::size_t longest = 48;
  std::string name;
  for (const char c : header) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool capital = c >= 'A' && c <= 'Z';
    if (letter || capital) {
      name += capital ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
    if (name.size() == longest) break;
  }
  while (!name.empty() && name.back() == '_')
    name.pop_back();
  const bool begins_well = !name.empty() && name.front() >= 'a';
  return begins_well ? name : "column_" + name;
}

/// Keys are in Point::vars: the row's number, then its labels.
std::vector<Column> columns_of(const RecordedSweep& sweep) {
  SweepSpec shapes;
  shapes.models = sweep.models;
  auto columns = filter::columns_of(shapes);
  std::vector<Value> outcome;
  std::vector<Value> speed;
  std::vector<Value> memory;
  std::vector<Value> kernel;
  std::vector<Value> version;
  std::vector<Value> oom_error;
  for (const auto& run : sweep.runs) {
    outcome.emplace_back(std::string(name(run.outcome)));
    speed.push_back(or_null(run.tokens_per_s_per_gpu));
    memory.push_back(or_null(run.peak_memory_bytes));
    kernel.push_back(text_or_null(run.kernel));
    version.push_back(text_or_null(run.software_version));
    oom_error.emplace_back(std::int64_t{run.oom_error ? 1 : 0});
  }
  columns.push_back(by_row("outcome", std::move(outcome)));
  columns.push_back(by_row("tokens_per_s_per_gpu", std::move(speed)));
  columns.push_back(by_row("peak_memory_bytes", std::move(memory)));
  columns.push_back(by_row("kernel", std::move(kernel)));
  columns.push_back(by_row("software_version", std::move(version)));
  columns.push_back(by_row("oom_error", std::move(oom_error)));
  // Add a label by the header's name, and by the name in `results`: a header may be a word of SQL.
  const auto names = label_names(sweep);
  for (std::size_t i = 0; i < sweep.labels.size(); ++i) {
    const auto& label = sweep.labels[i];
    for (const auto& name : {label.name, names[i]}) {
      const bool taken = std::any_of(columns.begin(), columns.end(),
          [&](const Column& column) { return filter::lower(column.name) == filter::lower(name); });
      if (taken) continue;
      columns.push_back(
          {name, [i](const Point& point) { return std::int64_t{point.vars.at(i + 1)}; },
              label.values, {}});
    }
  }
  return columns;
}

}  // namespace

Result<RecordedSweep> read_recorded(
    const std::filesystem::path& file, const RecordedOptions& options) {
  config::Sources sources;
  SHARDSWEEP_ASSIGN(const auto table, recorded::CsvTable::read(file, sources));
  auto sweep = options.format == RecordedFormat::nanotron ? recorded::read_nanotron(table, options)
                                                          : recorded::read_plain(table, options);
  if (sweep) sweep->file = file.string();
  return sweep;
}

std::vector<std::string> label_names(const RecordedSweep& sweep) {
  std::vector<std::string> names;
  const auto is_known = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end() ||
        std::find(row_columns.begin(), row_columns.end(), name) != row_columns.end();
  };
  for (const auto& label : sweep.labels) {
    auto name = plain_name(label.name);
    if (config::is_reserved_name(name)) name.insert(0, "published_");
    const auto stem = name;
    for (int number = 2; is_known(name); ++number)
      name = stem + '_' + std::to_string(number);
    names.push_back(std::move(name));
  }
  return names;
}

Result<void> keep_where(RecordedSweep& sweep, const std::string& expression) {
  if (expression.empty()) return {};
  SHARDSWEEP_ASSIGN(const auto filter, filter::compile(columns_of(sweep), {expression}));
  std::vector<RecordedRun> kept;
  for (std::size_t i = 0; i < sweep.runs.size(); ++i) {
    Point row = sweep.runs[i].point;
    row.nodes = sweep.runs[i].nodes;
    row.vars = sweep.runs[i].labels;
    row.vars.insert(row.vars.begin(), static_cast<std::int32_t>(i));
    if (filter->first_match(row) == 0) kept.push_back(std::move(sweep.runs[i]));
    if (const auto failure = filter->failure()) return tl::unexpected<Fault>(*failure);
  }
  sweep.runs = std::move(kept);
  return {};
}

}  // namespace shardsweep
