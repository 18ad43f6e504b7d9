// SPDX-License-Identifier: Apache-2.0
// results, query: rows of the database, chosen by options or by SQL.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/table_view.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {
namespace {

struct ResultOptions {
  std::vector<std::string> columns;
  std::string sort;
  std::int64_t limit = 0;  ///< 0: all
  bool measured = false;
};
struct QueryOptions {
  std::string sql;
};

/// Rows as they come, in memory that does not grow with them; how many there are.
Result<std::int64_t> print_records(
    Reader& reader, const ResultsRequest& request, std::int64_t most, Format format) {
  Spool spool;
  fmt::memory_buffer out;
  std::optional<RecordWriter> records;
  std::int64_t rows = 0;
  SHARDSWEEP_TRY(reader.each_result(request,
      {[&](const Words& columns) {
         records.emplace(out, format, columns, [&](auto& text) { spool.add(text); });
       },
          [&](const std::vector<Value>& row) {
            if (++rows <= most || most == 0) records->row(row);
          }}));
  records->end();
  if (format == Format::json) out.push_back('\n');
  SHARDSWEEP_TRY(spool.print({out.data(), out.size()}));
  return rows;
}

/// Names of columns in place of the headings that tables show for them: `tokens/s/GPU`.
Result<Words> columns_meant(Reader& reader, Words asked) {
  const auto is_name = [](const std::string& word) {
    return std::all_of(word.begin(), word.end(),
        [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; });
  };
  if (std::all_of(asked.begin(), asked.end(), is_name)) return asked;
  SHARDSWEEP_ASSIGN(const Table known, reader.query("SELECT * FROM results LIMIT 0"));
  for (std::string& word : asked) {
    const std::string down = word.starts_with('-') ? "-" : "";
    const auto found = std::find_if(known.columns.begin(), known.columns.end(),
        [&](const std::string& name) { return title_of(name) == word.substr(down.size()); });
    if (found != known.columns.end()) word = down + *found;
  }
  return asked;
}

Result<ExitCode> run_results(const Session& session) {
  const Options& options = session.options;
  const auto& own = options.of<ResultOptions>();
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const bool usual = own.columns.empty();
  const bool for_machines = options.format != Format::table;
  SHARDSWEEP_ASSIGN(const auto columns, columns_meant(*reader, own.columns));
  SHARDSWEEP_ASSIGN(const auto sort, columns_meant(*reader, {own.sort}));
  const ResultsRequest request{.selection = selection_of(options),
      .columns = usual && for_machines ? Words{"all"} : columns,
      .sort = sort.front(),
      .limit = own.limit > 0 ? own.limit + 1 : 0,
      .measured_only = own.measured};
  std::int64_t rows = 0;
  if (is_for_people(options.format)) {
    SHARDSWEEP_ASSIGN(Table table, reader->results(request));
    rows = std::ssize(table.rows);
    if (own.limit > 0 && rows > own.limit) table.rows.pop_back();
    auto style = table_style(session, {"trial", "outcome", "tokens_per_s_per_gpu"});
    style.every = !usual;
    if (usual && !for_machines) drop_nodes_where_none(table);
    SHARDSWEEP_TRY(print_table(table, style));
  } else {
    SHARDSWEEP_ASSIGN(rows, print_records(*reader, request, own.limit, options.format));
  }
  if (rows == 0) SHARDSWEEP_TRY(say_why_empty(*reader, options));
  if (own.limit > 0 && rows > own.limit)
    say("More than {} match. Without --limit all of them are printed.", counted(own.limit, "row"));
  return ExitCode::done;
}

Result<ExitCode> run_query(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  // The reader ends a query after 30 s, but it is not asked within one call of a function, such
  // as printf('%.*c', 2000000000, 'x').
  const Overtime overtime(std::chrono::seconds(35),
      "shardsweep: the answer took longer than 35 s: select less",
      static_cast<int>(ExitCode::failed));
  SHARDSWEEP_ASSIGN(const Table table, reader->query(session.options.of<QueryOptions>().sql));
  auto style = table_style(session);
  style.every = true;
  style.raw = true;
  return print_table(table, style);
}

std::string wrong_limit(const std::string& text) {
  if (number_from<std::int64_t>(text).value_or(0) >= 1) return "";
  return "'" + text +
      "' is not a number of rows; write 1 or more, or leave --limit out for all rows";
}

}  // namespace

extern const Command command_results{.name = "results",
    .heading = Heading::results,
    .help = "Print one row per trial.",
    .examples =
        "shardsweep results my-sweep\n"
        "shardsweep results --sort -mfu --limit 10\n"
        "shardsweep results --where \"outcome = 'oom'\" --format csv",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<ResultOptions>();
          grammar.selection();
          grammar.format();
          grammar
              .option("--columns", own.columns, "COLUMN",
                  "Columns to show, separated by commas, or all. csv and json have all.")
              .split_at_commas();
          grammar.option(
              "--sort", own.sort, "COLUMN", "Column to sort by; -COLUMN sorts downwards.");
          grammar.option("--limit", own.limit, "N", "Most rows to print.").check(wrong_limit);
          grammar.flag("--measured", own.measured, "Only completed trials.");
        },
    .run = run_results,
    .last_sweep = true};

extern const Command command_query{.name = "query",
    .heading = Heading::results,
    .help = "Run one SELECT over the database, read-only.",
    .examples = "shardsweep query 'SELECT trial, loss FROM results'",
    .declare =
        [](Grammar& grammar) {
          grammar
              .option("sql", grammar.own<QueryOptions>().sql, "SQL",
                  "The statement. `shardsweep help columns` lists the views and their columns.")
              .required();
          grammar.format();
        },
    .run = run_query};

}  // namespace shardsweep
