// SPDX-License-Identifier: Apache-2.0
// export: a copy of the database, or the results as a file or a folder for others.
#include "cli/command.hpp"
#include "cli/commands/sweep_folder.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/trace_view.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
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
  CASE WHEN r.tokens_per_s_per_gpu < 100 THEN printf('%.1f', r.tokens_per_s_per_gpu)
    ELSE printf('%,d', CAST(round(r.tokens_per_s_per_gpu) AS INTEGER)) END AS "tokens/s/GPU",
  printf('%.1f', r.tflops_per_gpu) AS "TFLOP/s/GPU",
  printf('%.4f', r.loss) AS "Final loss",
  CASE WHEN r.peak_memory_bytes < 1073741824 THEN printf('%.1f MiB', r.peak_memory_bytes / 1048576.0)
    ELSE printf('%.2f GiB', r.peak_memory_bytes / 1073741824.0) END AS "Peak",
  coalesce(a.dir, '') AS "Log",
  r.train_step_ms IS NULL AS no_time, r.tflops_per_gpu IS NULL AS no_flops, r.loss IS NULL AS no_loss,
  r.peak_memory_bytes IS NULL AS no_peak, (SELECT count(*) FROM train_steps AS s
    WHERE s.attempt = r.attempt_id AND s.step > r.warmup) = 0 AS no_steps,
  r.tokens_per_s_per_gpu IS NULL AS no_speed
FROM results AS r
LEFT JOIN attempts AS a ON a.id = coalesce(r.attempt_id, (SELECT max(id) FROM attempts AS b
  WHERE b.trial = r.trial_id))
LEFT JOIN allocations AS l ON l.id = a.allocation
WHERE r.trial_id IN ({}) AND a.id IS NOT NULL ORDER BY r.model, r.seq_len, r.gpus, r.tokens_per_s_per_gpu IS NULL,
  r.tokens_per_s_per_gpu DESC, r.trial_id)sql";

/// What is not known is empty and no zero.
Table without_unknown(Table table) {
  constexpr std::size_t shown = 11;
  constexpr std::array<std::pair<std::size_t, std::size_t>, 6> flags{
      {{5, 11}, {7, 12}, {8, 13}, {9, 14}, {4, 15}, {6, 16}}};
  for (auto& row : table.rows) {
    for (const auto& [column, flag] : flags) {
      if (std::get<std::int64_t>(row.at(flag)) != 0) row.at(column) = Value();
    }
    row.resize(shown);
  }
  table.columns.resize(shown);
  return table;
}

/// A query over the trials that are meant: their ids stand in place of its {}.
Result<Table> query_trials(Reader& reader, const Options& options, std::string_view sql) {
  SHARDSWEEP_ASSIGN(const Table trials,
      reader.results({.selection = {.where = options.where}, .columns = {"trial_id"}}));
  std::vector<std::int64_t> ids;
  for (const auto& row : trials.rows)
    ids.push_back(std::get<std::int64_t>(row.front()));
  return reader.query(fmt::format(fmt::runtime(std::string(sql)), fmt::join(ids, ", ")));
}

Result<Table> pull_request_table(Reader& reader, const Options& options) {
  SHARDSWEEP_ASSIGN(Table table, query_trials(reader, options, pull_request_sql));
  return without_unknown(std::move(table));
}

/// "trace.json" and "first.trace.json" are timelines, any other .json has the results.
bool is_trace(const std::filesystem::path& file) {
  const auto name = file.filename().string();
  return name == "trace.json" || name.ends_with(".trace.json");
}

Result<std::string> export_trace(const Session& session, Reader& reader) {
  SHARDSWEEP_ASSIGN(const Table allocations, reader.query(std::string(trace_allocations_sql)));
  SHARDSWEEP_ASSIGN(
      const Table attempts, query_trials(reader, session.options, trace_attempts_sql));
  return trace_text(allocations, attempts, session.clock.now());
}

Result<std::string> export_text(Reader& reader, const Options& options, Format format) {
  if (format == Format::markdown) {
    SHARDSWEEP_ASSIGN(const Table table, pull_request_table(reader, options));
    return table_text(table, Format::markdown);
  }
  SHARDSWEEP_ASSIGN(const Table table,
      reader.results({.selection = {.where = options.where}, .columns = {"all"}}));
  return table_text(table, format);
}

Result<ExitCode> run_export(const Session& session) {
  const Options& options = session.options;
  const std::filesystem::path file = options.file;
  const auto ending = file.extension().string();
  const bool rows = ending == ".csv" || ending == ".json" || ending == ".md";
  if (is_sweep_folder(file)) {
    if (options.format_given || !options.where.empty())
      return fault(FaultKind::invalid_input,
          "export: a folder has whole sweeps. Leave --format and --where out.");
    return export_folder(session);
  }
  if (!options.names.empty())
    return fault(FaultKind::invalid_input,
        "export: sweeps are named for a folder. --where \"sweep = 'NAME'\" says which "
        "results are meant.");
  if (file.empty() && !options.format_given)
    return fault(
        FaultKind::invalid_input, "export: name a file, or give --format csv, json or markdown.");
  if (!file.empty() && options.format_given)
    return fault(FaultKind::invalid_input,
        fmt::format(
            "export: the ending of '{}' says its form. Leave --format out.", file.string()));
  if (!file.empty() && !rows && ending != ".db" && ending != ".sqlite") {
    return fault(FaultKind::invalid_input,
        fmt::format("'{}': unknown file ending. Use .csv, .json or .md for the results, "
                    ".db or .sqlite for a copy of the database, a name without an ending for a "
                    "folder.",
            file.string()));
  }
  if (!file.empty() && !rows && !options.where.empty()) {
    return fault(FaultKind::invalid_input,
        "--where is for .csv, .json and .md. A copy of the database has every row.");
  }
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const Format format = file.empty() ? options.format
      : ending == ".csv"             ? Format::csv
      : ending == ".json"            ? Format::json
                                     : Format::markdown;
  if (file.empty()) {
    SHARDSWEEP_ASSIGN(const std::string text, export_text(*reader, options, format));
    SHARDSWEEP_TRY(print_result(text));
    return ExitCode::done;
  }
  if (rows) {
    SHARDSWEEP_ASSIGN(const std::string text,
        is_trace(file) ? export_trace(session, *reader) : export_text(*reader, options, format));
    SHARDSWEEP_TRY(write_file_durably(file, text));
  } else {
    SHARDSWEEP_TRY(reader->export_to(file));
  }
  say(fmt::format("Wrote {}.", file.string()));
  return ExitCode::done;
}

}  // namespace

extern const Command command_export{.name = "export",
    .heading = Heading::results,
    .help = "Write a copy of the database, or the results.",
    .examples =
        "shardsweep export results.csv\n"
        "shardsweep export --format markdown\n"
        "shardsweep export trace.json\n"
        "shardsweep export copy.db\n"
        "shardsweep export results first second",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          grammar.option("file", options.file, "FILE",
              "File to write: .csv, .json (the results), .md (a table for pull requests), "
              "trace.json or NAME.trace.json (a timeline for Perfetto), "
              ".db or .sqlite (everything). A name without an ending, or a folder that is "
              "there: "
              "a folder of JSON lines for git. Default: standard output.");
          grammar.option("names", options.names, "NAME",
              "Sweeps, for a folder. Default: all that have a result, and the "
              "baselines.");
          grammar.form("Form without a file: csv, json or markdown.", {"csv", "json", "markdown"});
          grammar.where();
        },
    .run = run_export};

}  // namespace shardsweep
