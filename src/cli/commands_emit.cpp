// SPDX-License-Identifier: Apache-2.0
// emit: a layout in a trainer's own words, to paste; or back from them.
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "text/numbers.hpp"
#include "text/units.hpp"
#include "trainer/configuration.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::size_t longest_configuration = std::size_t{1} << 20;

/// One row's values by their columns.
class Row {
 public:
  Row(const Table& table, std::size_t row) : table_(table), row_(table.rows.at(row)) {}

  [[nodiscard]] std::int64_t number(std::string_view column) const {
    const auto* value = std::get_if<std::int64_t>(&at(column));
    return value == nullptr ? 0 : *value;
  }
  [[nodiscard]] std::string text(std::string_view column) const {
    const auto* value = std::get_if<std::string>(&at(column));
    return value == nullptr ? std::string() : *value;
  }

 private:
  [[nodiscard]] const Value& at(std::string_view column) const {
    static const Value none;
    const auto found = std::find(table_.columns.begin(), table_.columns.end(), column);
    return found == table_.columns.end()
               ? none
               : row_.at(static_cast<std::size_t>(found - table_.columns.begin()));
  }

  const Table& table_;
  const std::vector<Value>& row_;
};

const std::vector<std::string> layout_columns{"trial",
                                              "model",
                                              "gpus",
                                              "dp",
                                              "tp",
                                              "pp",
                                              "cp",
                                              "ep",
                                              "vpp",
                                              "seq_len",
                                              "micro_batch",
                                              "grad_accum",
                                              "zero",
                                              "recompute",
                                              "schedule",
                                              "sequence_parallel",
                                              "dp_replicate",
                                              "rank_order",
                                              "bucket_mb",
                                              "overlap",
                                              "tokens_per_s_per_gpu"};

TrainerLayout layout_of_row(const Row& row) {
  return {.dp = row.number("dp"),
          .tp = row.number("tp"),
          .pp = row.number("pp"),
          .cp = row.number("cp"),
          .ep = row.number("ep"),
          .micro_batch = row.number("micro_batch"),
          .grad_accum = row.number("grad_accum"),
          .seq_len = row.number("seq_len"),
          .zero = row.number("zero"),
          .recompute = row.text("recompute"),
          .schedule = row.text("schedule"),
          .sequence_parallel =
              row.text("sequence_parallel") == "on" || row.number("sequence_parallel") == 1};
}

/// An axis that no trainer's words are known for here, where its value is not the default; with
/// that value. Empty where there is none.
std::string axis_without_words(const Row& row) {
  for (const char* name : {"vpp", "dp_replicate", "rank_order", "bucket_mb", "overlap"}) {
    const AxisInfo& axis = *find_axis(name);
    const auto usual = axis_text(axis, axis.default_value);
    auto value = row.text(name);
    if (value.empty()) value = axis_text(axis, row.number(name));
    if (value != usual) return fmt::format("{} {}", name, value);
  }
  return {};
}

/// The trials that are meant: of a sweep those that are the best of their cells.
Result<std::vector<std::string>> trials_of(Reader& reader,
                                           const std::vector<std::string>& names) {
  std::vector<std::string> trials;
  for (const std::string& name : names) {
    SHARDSWEEP_ASSIGN(const Table rows,
                      reader.results({.selection = {.names = {name}}, .columns = {"trial"}}));
    if (rows.rows.size() == 1) {
      trials.push_back(name);
      continue;
    }
    SHARDSWEEP_ASSIGN(const Table best, reader.best({.names = {name}}));
    if (best.rows.empty())
      return fault(FaultKind::invalid_input,
                   fmt::format("'{}' has no measurement yet. Name one of its trials: "
                               "`shardsweep results {}` lists them.",
                               name, name));
    for (std::size_t i = 0; i < best.rows.size(); ++i)
      trials.push_back(Row(best, i).text("trial"));
  }
  return trials;
}

Result<ExitCode> emit_trials(const Session& session) {
  const Options& options = session.options;
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto trials, trials_of(*reader, options.names));
  std::string text;
  // JSON has no comments: what a block is stands on standard error.
  const bool comments = options.log != "deepspeed" && options.log != "picotron";
  for (const std::string& trial : trials) {
    SHARDSWEEP_ASSIGN(const Table table, reader->results({.selection = {.names = {trial}},
                                                          .columns = layout_columns}));
    const Row row(table, 0);
    const std::string head = fmt::format("{}: {} on {}", row.text("trial"), row.text("model"),
                                         counted(row.number("gpus"), "GPU"));
    if (const auto axis = axis_without_words(row); !axis.empty())
      return fault(FaultKind::invalid_input,
                   fmt::format("{}: {} has no words for {}", head, options.log, axis));
    const auto block = configuration_of(options.log, layout_of_row(row));
    if (!block)
      return fault(block.error().kind, fmt::format("{}: {}", head, block.error().what));
    if (comments) {
      text += fmt::format("# {}\n", head);
    } else {
      say(head);
    }
    text += *block;
  }
  SHARDSWEEP_TRY(print_result(text));
  return ExitCode::done;
}

Result<ExitCode> print_layout(const Session& session) {
  const Options& options = session.options;
  std::string text = options.from_args;
  if (text.starts_with('@')) {
    SHARDSWEEP_ASSIGN(text, read_file(text.substr(1), longest_configuration));
  }
  std::int64_t gpus = 0;
  if (!options.run_gpus.empty()) {
    constexpr std::int64_t most = 1'000'000'000;
    const auto read = config::parse_count(options.run_gpus, {1, most, "--gpus"});
    if (!read) return fault(FaultKind::invalid_input, read.error());
    gpus = *read;
  }
  SHARDSWEEP_ASSIGN(const TrainerLayout layout, layout_of(options.log, text, gpus));
  Table table;
  table.columns = {"gpus",
                   "dp",
                   "tp",
                   "pp",
                   "cp",
                   "ep",
                   "seq_len",
                   "micro_batch",
                   "grad_accum",
                   "zero",
                   "recompute",
                   "schedule",
                   "sequence_parallel"};
  table.rows.push_back({layout.gpus(), layout.dp, layout.tp, layout.pp, layout.cp, layout.ep,
                        layout.seq_len > 0 ? Value(layout.seq_len) : Value(),
                        layout.micro_batch, layout.grad_accum, layout.zero, layout.recompute,
                        layout.schedule, std::string(layout.sequence_parallel ? "on" : "off")});
  return print_table(table, table_style(session));
}

}  // namespace

Result<ExitCode> command_emit(const Session& session) {
  const Options& options = session.options;
  if (options.names.empty() == options.from_args.empty())
    return fault(FaultKind::invalid_input,
                 "emit: name trials or sweeps, or give --from-args, not both.");
  return options.from_args.empty() ? emit_trials(session) : print_layout(session);
}

}  // namespace shardsweep
