// SPDX-License-Identifier: Apache-2.0
// show, results, query, best, nodes, export.
#include "cli/emitting.hpp"
#include "cli/printing.hpp"
#include "cli/why_empty.hpp"
#include "show/comparison.hpp"
#include "show/exit_code.hpp"
#include "show/show_view.hpp"
#include "text/numbers.hpp"

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
  return {.names = options.names, .where = options.where, .hidden = options.results.hidden};
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
  const bool usual = options.results.columns.empty();
  const bool for_machines = options.format != Format::table;
  SHARDSWEEP_ASSIGN(
      Table table,
      reader->results(
          {.selection = selection_of(options),
           .columns = usual && for_machines ? all_columns() : options.results.columns,
           .sort = options.results.sort,
           .limit = options.results.limit > 0 ? options.results.limit + 1 : 0,
           .measured_only = options.results.measured}));
  const auto most = static_cast<std::size_t>(options.results.limit);
  const bool is_cut = most > 0 && table.rows.size() > most;
  if (is_cut) table.rows.resize(most);
  auto style = table_style(
      session, {"trial", "outcome", "tokens_per_s_per_gpu", "state", "peak_memory_bytes", "mfu",
                "train_step_ms", "mark", "model", "gpus", "nodes", "sweep"});
  style.every = !usual;
  if (usual && !for_machines) drop_nodes_where_none(table);
  if (table.rows.empty()) SHARDSWEEP_TRY(say_why_empty(*reader, options));
  SHARDSWEEP_ASSIGN(const ExitCode printed, print_table(table, style));
  if (is_cut)
    say(fmt::format("More than {} match. Without --limit all of them are printed.",
                    counted(options.results.limit, "row")));
  return printed;
}

Result<ExitCode> command_query(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const Table table, reader->query(session.options.results.sql));
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
  if (!session.options.trainer.emit.empty()) return emit_best(session);
  if (!session.options.trainer.from_args.empty()) return rank_among_results(session);
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

namespace {

/// The columns of a table under a pull request, after those that NVIDIA's own have.
constexpr std::string_view pull_request_sql = R"sql(
SELECT r.model || ', ' || r.seq_len || ' tokens, ' || r.gpus || CASE WHEN r.gpus = 1 THEN ' GPU' ELSE ' GPUs' END AS "Case",
  CASE WHEN l.job_id IS NULL OR l.job_id = '' THEN r.trial ELSE l.job_id END AS "Job",
  r.layout AS "Layout",
  CASE WHEN r.outcome IS NULL THEN r.state WHEN r.mark IS NOT NULL THEN r.outcome || ' (' || r.mark || ')'
    ELSE r.outcome END AS "Status",
  printf('%.1f ms', (SELECT avg(s.step_ms) FROM train_steps AS s WHERE s.attempt = r.attempt_id
    AND s.step > r.warmup)) AS "Mean step",
  printf('%.1f ms', r.train_step_ms) AS "Median step",
  printf('%.1f', r.tflops_per_gpu) AS "TFLOP/s/GPU",
  printf('%.4f', r.loss) AS "Final loss",
  CASE WHEN r.peak_memory_bytes < 1073741824 THEN printf('%.1f MiB', r.peak_memory_bytes / 1048576.0)
    ELSE printf('%.2f GiB', r.peak_memory_bytes / 1073741824.0) END AS "Peak",
  coalesce(a.dir, '') AS "Log",
  r.train_step_ms IS NULL AS no_time, r.tflops_per_gpu IS NULL AS no_flops, r.loss IS NULL AS no_loss,
  r.peak_memory_bytes IS NULL AS no_peak, (SELECT count(*) FROM train_steps AS s
    WHERE s.attempt = r.attempt_id AND s.step > r.warmup) = 0 AS no_steps
FROM results AS r
LEFT JOIN attempts AS a ON a.id = coalesce(r.attempt_id, (SELECT max(id) FROM attempts AS b
  WHERE b.trial = r.trial_id))
LEFT JOIN allocations AS l ON l.id = a.allocation
WHERE r.trial_id IN ({}) AND a.id IS NOT NULL ORDER BY r.model, r.seq_len, r.gpus, r.tokens_per_s_per_gpu IS NULL,
  r.tokens_per_s_per_gpu DESC, r.trial_id)sql";

/// What is not known is empty and no zero.
Table without_unknown(Table table) {
  constexpr std::array<std::pair<std::size_t, std::size_t>, 5> flags{
      {{5, 10}, {6, 11}, {7, 12}, {8, 13}, {4, 14}}};
  for (auto& row : table.rows) {
    for (const auto& [column, flag] : flags) {
      if (std::get<std::int64_t>(row.at(flag)) != 0) row.at(column) = Value();
    }
    row.resize(10);
  }
  table.columns.resize(10);
  return table;
}

Result<Table> pull_request_table(Reader& reader, const Options& options) {
  SHARDSWEEP_ASSIGN(const Table trials, reader.results({.selection = {.where = options.where},
                                                        .columns = {"trial_id"}}));
  std::vector<std::int64_t> ids;
  for (const auto& row : trials.rows)
    ids.push_back(std::get<std::int64_t>(row.front()));
  SHARDSWEEP_ASSIGN(Table table,
                    reader.query(fmt::format(fmt::runtime(std::string(pull_request_sql)),
                                             fmt::join(ids, ", "))));
  return without_unknown(std::move(table));
}

Result<std::string> export_text(Reader& reader, const Options& options, Format format) {
  if (format == Format::markdown) {
    SHARDSWEEP_ASSIGN(const Table table, pull_request_table(reader, options));
    return table_text(table, Format::markdown);
  }
  SHARDSWEEP_ASSIGN(const Table table, reader.results({.selection = {.where = options.where},
                                                       .columns = all_columns()}));
  return table_text(table, format);
}

}  // namespace

Result<ExitCode> command_export(const Session& session) {
  const Options& options = session.options;
  const std::filesystem::path file = options.file;
  const auto ending = file.extension().string();
  const bool rows = ending == ".csv" || ending == ".json" || ending == ".md";
  if (file.empty() && !options.format_given)
    return fault(FaultKind::invalid_input,
                 "export: name a file, or give --format csv, json or markdown.");
  if (!file.empty() && options.format_given)
    return fault(FaultKind::invalid_input,
                 fmt::format("export: the ending of '{}' says its form. Leave --format out.",
                             file.string()));
  if (!file.empty() && !rows && ending != ".db" && ending != ".sqlite") {
    return fault(
        FaultKind::invalid_input,
        fmt::format("'{}': unknown file ending. Use .csv, .json or .md for the results, "
                    ".db or .sqlite for a copy of the database.",
                    file.string()));
  }
  if (!file.empty() && !rows && !options.where.empty()) {
    return fault(FaultKind::invalid_input,
                 "--where is for .csv, .json and .md. A copy of the database has every row.");
  }
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const Format format = file.empty()        ? options.format
                        : ending == ".csv"  ? Format::csv
                        : ending == ".json" ? Format::json
                                            : Format::markdown;
  if (file.empty()) {
    SHARDSWEEP_ASSIGN(const std::string text, export_text(*reader, options, format));
    SHARDSWEEP_TRY(print_result(text));
    return ExitCode::done;
  }
  if (rows) {
    SHARDSWEEP_ASSIGN(const std::string text, export_text(*reader, options, format));
    SHARDSWEEP_TRY(write_file_durably(file, text));
  } else {
    SHARDSWEEP_TRY(reader->export_to(file));
  }
  say(fmt::format("Wrote {}.", file.string()));
  return ExitCode::done;
}

}  // namespace shardsweep
