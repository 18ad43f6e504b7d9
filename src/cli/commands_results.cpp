// SPDX-License-Identifier: Apache-2.0
// show, results, query, best, nodes, heatmap, export.
#include "cli/heatmap_view.hpp"
#include "cli/printing.hpp"
#include "domain/pivot.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace shardsweep {
namespace {

Selection selection_of(const Options& options) {
  return {.names = options.names, .where = options.where, .hidden = options.hidden};
}

/// A titled table; in JSON a member of one object, whose last brace is the caller's.
std::string section_text(const Reader::Section& section, Format format, bool first) {
  std::string text = table_text(section.table, format);
  if (format != Format::json)
    return fmt::format("{}{}\n{}", first ? "" : "\n", section.title, text);
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return fmt::format("{}\"{}\":{}", first ? "{" : ",", section.title, text);
}

/// The word of `--columns` for every one.
std::vector<std::string> all_columns() {
  return {"all"};
}

/// Sweeps over `gpus` have 0 nodes everywhere: for people that is no column.
void drop_nodes_where_none(Table& table) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), "nodes");
  if (found == table.columns.end()) return;
  const auto at = found - table.columns.begin();
  const bool none = std::all_of(table.rows.begin(), table.rows.end(), [at](const auto& row) {
    return row[static_cast<std::size_t>(at)] == Value(std::int64_t{0});
  });
  if (!none) return;
  table.columns.erase(found);
  for (auto& row : table.rows)
    row.erase(row.begin() + at);
}

}  // namespace

Result<ExitCode> command_show(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto sections, reader->show(session.options.names.at(0)));
  const Format format = session.options.format;
  std::string text;
  for (const Reader::Section& section : sections)
    text += section_text(section, format, text.empty());
  if (format == Format::json) text += "}\n";
  SHARDSWEEP_TRY(print_result(text));
  return ExitCode::done;
}

Result<ExitCode> command_results(const Session& session) {
  const Options& options = session.options;
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const bool usual = options.columns.empty();
  const bool for_machines = options.format != Format::table;
  SHARDSWEEP_ASSIGN(
      Table table,
      reader->results({.selection = selection_of(options),
                       .columns = usual && for_machines ? all_columns() : options.columns,
                       .sort = options.sort,
                       .limit = options.limit,
                       .measured_only = options.measured}));
  auto style = table_style(
      session, {"trial", "outcome", "tokens_per_s_per_gpu", "state", "peak_memory_bytes", "mfu",
                "train_step_ms", "mark", "model", "gpus", "nodes", "sweep"});
  style.every = !usual;
  if (usual && !for_machines) drop_nodes_where_none(table);
  return print_table(table, style);
}

Result<ExitCode> command_query(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const Table table, reader->query(session.options.sql));
  auto style = table_style(session);
  style.every = true;
  style.raw = true;
  return print_table(table, style);
}

Result<ExitCode> command_nodes(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  if (!session.options.clear.empty()) {
    SHARDSWEEP_ASSIGN(
        const Answer answer,
        ask_daemon(session, {.verb = Verb::clear_node, .names = {session.options.clear}}));
    say(answer.text);
    return ExitCode::done;
  }
  SHARDSWEEP_ASSIGN(
      const Table table,
      reader->query("SELECT * FROM node_ledger ORDER BY state = 'trusted', node"));
  return print_table(table, table_style(session, {"node", "state", "attempts", "reason",
                                                  "evidence", "completed", "slow", "slow_in",
                                                  "last_evidence", "node_failure", "comm_error",
                                                  "hung", "crashed", "since", "probe_at"}));
}

Result<ExitCode> command_best(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(Table table, reader->best(selection_of(session.options)));
  if (session.options.format == Format::table) drop_nodes_where_none(table);
  return print_table(
      table, table_style(session,
                         {"layout", "tokens_per_s_per_gpu", "model", "gpus", "nodes", "seq_len",
                          "mfu", "peak_memory_bytes", "train_step_ms", "repeats", "measured"}));
}

Result<ExitCode> command_heatmap(const Session& session) {
  const Options& options = session.options;
  const HeatmapRequest request{.selection = selection_of(options),
                               .rows = options.rows,
                               .columns = options.cols,
                               .value = options.value};
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto cells, reader->cells(request));
  const Heatmap heatmap = pivot(cells, request);
  if (!heatmap.note.empty()) say(heatmap.note);
  const bool colour =
      wants_colour(::isatty(STDOUT_FILENO) == 1, ::getenv("NO_COLOR"), ::getenv("TERM"));
  SHARDSWEEP_TRY(print_result(heatmap_text(
      heatmap, {.format = options.format, .list = options.long_form, .colour = colour})));
  return ExitCode::done;
}

Result<ExitCode> command_export(const Session& session) {
  const std::filesystem::path file = session.options.file;
  const auto ending = file.extension().string();
  const bool rows = ending == ".csv" || ending == ".json";
  if (!rows && ending != ".db" && ending != ".sqlite") {
    return fault(FaultKind::invalid_input,
                 fmt::format("'{}': the ending says what is written. Use .csv or .json for the "
                             "results, .db or .sqlite for a copy of the database.",
                             file.string()));
  }
  if (!rows && !session.options.where.empty()) {
    return fault(FaultKind::invalid_input,
                 "--where is for .csv and .json. A copy of the database has every row.");
  }
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  if (rows) {
    SHARDSWEEP_ASSIGN(const Table table,
                      reader->results({.selection = {.where = session.options.where},
                                       .columns = all_columns()}));
    SHARDSWEEP_TRY(write_file_durably(
        file, table_text(table, ending == ".csv" ? Format::csv : Format::json)));
  } else {
    SHARDSWEEP_TRY(reader->export_to(file));
  }
  say(fmt::format("wrote {}", file.string()));
  return ExitCode::done;
}

}  // namespace shardsweep
