// SPDX-License-Identifier: Apache-2.0
// show, results, query, best, nodes, export.
#include "cli/printing.hpp"
#include "cli/why_empty.hpp"
#include "show/comparison.hpp"
#include "show/exit_code.hpp"
#include "show/show_view.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

Selection selection_of(const Options& options) {
  return {.names = options.names, .where = options.where, .hidden = options.hidden};
}

/// An attempt's folder is packed when it has ended, and both may be gone.
void name_files(Table& table) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), "dir");
  if (found == table.columns.end()) return;
  const auto at = static_cast<std::size_t>(found - table.columns.begin());
  *found = "files";
  for (auto& row : table.rows) {
    const auto* dir = std::get_if<std::string>(&row[at]);
    if (dir == nullptr || dir->empty()) continue;
    std::error_code ignored;
    const auto pack = *dir + ".tar";
    if (std::filesystem::exists(pack, ignored)) {
      row[at] = pack;
    } else if (!std::filesystem::exists(*dir, ignored)) {
      row[at] = Value();
    }
  }
}

/// Behind it `best` has the vars.
constexpr std::string_view last_of_best = "train_step_ms_spread";

/// The word of `--columns` for every one.
std::vector<std::string> all_columns() {
  return {"all"};
}

}  // namespace

Result<ExitCode> command_show(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  std::vector<Reader::Section> sections;
  std::string unknown;
  for (const auto& name : session.options.names) {
    auto found = reader->show(name);
    if (!found && found.error().kind != FaultKind::invalid_input)
      return tl::unexpected(found.error());
    if (!found) {
      unknown += (unknown.empty() ? "" : "\n") + found.error().what;
      continue;
    }
    std::move(found->begin(), found->end(), std::back_inserter(sections));
  }
  for (auto& section : sections)
    name_files(section.table);
  if (!sections.empty())
    SHARDSWEEP_TRY(print_result(sections_text(sections, table_style(session))));
  if (!unknown.empty()) return fault(FaultKind::invalid_input, unknown);
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
  if (table.rows.empty()) SHARDSWEEP_TRY(say_why_empty(*reader, options));
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
  return print_table(
      table, table_style(session, {"node", "state", "reason", "attempts", "evidence",
                                   "completed", "last_evidence", "node_failure", "comm_error",
                                   "hung", "crashed", "since", "probe_at", "slow", "slow_in"}));
}

Result<ExitCode> command_best(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(Table table, reader->best(selection_of(session.options)));
  if (table.rows.empty()) SHARDSWEEP_TRY(say_why_empty(*reader, session.options));
  add_certainty(table);
  if (session.options.format == Format::table) drop_nodes_where_none(table);
  std::vector<std::string_view> important{"layout", "tokens_per_s_per_gpu", "model", "gpus",
                                          "nodes"};
  // A var tells cells apart as the model does.
  const auto last = std::find(table.columns.begin(), table.columns.end(), last_of_best);
  important.insert(important.end(), last == table.columns.end() ? last : last + 1,
                   table.columns.end());
  for (const char* name :
       {"certainty", "gap_share", "seq_len", "mfu", "peak_memory_bytes", "train_step_ms",
        "repeat_spread", "train_step_ms_spread", "repeats", "measured", "runner_up"})
    important.emplace_back(name);
  return print_table(table, table_style(session, std::move(important)));
}

Result<ExitCode> command_export(const Session& session) {
  const std::filesystem::path file = session.options.file;
  const auto ending = file.extension().string();
  const bool rows = ending == ".csv" || ending == ".json" || ending == ".md";
  if (!rows && ending != ".db" && ending != ".sqlite") {
    return fault(
        FaultKind::invalid_input,
        fmt::format("'{}': unknown file ending. Use .csv, .json or .md for the results, "
                    ".db or .sqlite for a copy of the database.",
                    file.string()));
  }
  if (!rows && !session.options.where.empty()) {
    return fault(FaultKind::invalid_input,
                 "--where is for .csv, .json and .md. A copy of the database has every row.");
  }
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  if (rows) {
    SHARDSWEEP_ASSIGN(const Table table,
                      reader->results({.selection = {.where = session.options.where},
                                       .columns = all_columns()}));
    SHARDSWEEP_TRY(
        write_file_durably(file, table_text(table, ending == ".csv"    ? Format::csv
                                                   : ending == ".json" ? Format::json
                                                                       : Format::markdown)));
  } else {
    SHARDSWEEP_TRY(reader->export_to(file));
  }
  say(fmt::format("Wrote {}.", file.string()));
  return ExitCode::done;
}

}  // namespace shardsweep
