// SPDX-License-Identifier: Apache-2.0
// show, results, query, best, nodes, heatmap, export.
#include "cli/heatmap_view.hpp"
#include "cli/session.hpp"
#include "cli/table_view.hpp"
#include "domain/pivot.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <stdlib.h>
#include <unistd.h>

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

Result<ExitCode> print_table(const Session& session, const Result<Table>& table) {
  SHARDSWEEP_TRY(table);
  if (!table->note.empty()) say(table->note);
  SHARDSWEEP_TRY(print_result(table_text(*table, session.options.format)));
  return ExitCode::done;
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
  return print_table(session, reader->results({.selection = selection_of(options),
                                               .columns = options.columns,
                                               .sort = options.sort,
                                               .limit = options.limit,
                                               .measured_only = options.measured}));
}

Result<ExitCode> command_query(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  return print_table(session, reader->query(session.options.sql));
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
  return print_table(session, reader->query("SELECT * FROM node_ledger ORDER BY state = "
                                            "'trusted', node"));
}

Result<ExitCode> command_best(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  return print_table(session, reader->best(selection_of(session.options)));
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
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  if (file.extension() == ".csv") {
    SHARDSWEEP_ASSIGN(const Table table,
                      reader->results({.selection = {.where = session.options.where}}));
    SHARDSWEEP_TRY(write_file_durably(file, table_text(table, Format::csv)));
  } else if (!session.options.where.empty()) {
    return fault(FaultKind::invalid_input, "--where goes with a .csv file; a copy is whole");
  } else {
    SHARDSWEEP_TRY(reader->export_to(file));
  }
  say(fmt::format("wrote {}", file.string()));
  return ExitCode::done;
}

}  // namespace shardsweep
