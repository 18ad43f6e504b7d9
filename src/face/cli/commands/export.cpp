// SPDX-License-Identifier: Apache-2.0
// export: a copy of the database, or the results as a file or a folder for others.
#include "cli/command.hpp"
#include "cli/commands/sweep_folder.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/trace_view.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {
namespace {

/// A trial in a table under a pull request.
struct PullRequestRow {
  std::string model;
  std::int64_t seq_len = 0;
  std::int64_t gpus = 0;
  std::string trial;
  std::string job_id;  ///< empty: it has none
  std::string layout;
  std::string state;
  std::string outcome;  ///< empty: not ended
  std::string mark;
  // Measured values; none if not known.
  std::optional<double> mean_step_ms{};
  std::optional<double> train_step_ms{};
  std::optional<double> tokens_per_s_per_gpu{};
  std::optional<double> tflops_per_gpu{};
  std::optional<double> loss{};
  std::optional<double> peak_memory_bytes{};
  std::string dir;
};

}  // namespace

SHARDSWEEP_DESCRIBE(PullRequestRow, model, seq_len, gpus, trial, job_id, layout, state, outcome,
    mark, mean_step_ms, train_step_ms, tokens_per_s_per_gpu, tflops_per_gpu, loss,
    peak_memory_bytes, dir);

namespace {

/// Trials that are meant, as a JSON array.
Result<std::string> trials_meant(Reader& reader, const Options& options) {
  SHARDSWEEP_ASSIGN(const Table trials,
      reader.results({.selection = {.where = options.where}, .columns = {"trial_id"}}));
  return fmt::format("[{}]", fmt::join(first_texts(trials), ","));
}

std::string bytes_with_unit(double bytes) {
  constexpr double mebi = 1 << 20;
  constexpr double gibi = 1 << 30;
  return bytes < gibi ? fmt::format("{:.1f} MiB", bytes / mebi)
                      : fmt::format("{:.2f} GiB", bytes / gibi);
}

std::vector<Value> pull_request_cells(const PullRequestRow& row) {
  const auto number = [](const std::optional<double>& value, const auto& text) {
    return value ? Value(text(*value)) : Value();
  };
  const auto ms = [](double value) { return fmt::format("{:.1f} ms", value); };
  const auto speed = [](double value) {
    return value < 100 ? fmt::format("{:.1f}", value) : grouped(std::llround(value));
  };
  const auto status = row.outcome.empty() ? row.state
      : row.mark.empty()                  ? row.outcome
                                          : fmt::format("{} ({})", row.outcome, row.mark);
  return {fmt::format("{}, {} tokens, {}", row.model, row.seq_len, counted(row.gpus, "GPU")),
      row.job_id.empty() ? row.trial : row.job_id, row.layout, status, number(row.mean_step_ms, ms),
      number(row.train_step_ms, ms), number(row.tokens_per_s_per_gpu, speed),
      number(row.tflops_per_gpu, [](double value) { return fmt::format("{:.1f}", value); }),
      number(row.loss, [](double value) { return fmt::format("{:.4f}", value); }),
      number(row.peak_memory_bytes, bytes_with_unit), row.dir};
}

/// The columns that NVIDIA's own tables have come first.
Result<Table> pull_request_table(Reader& reader, const Options& options) {
  SHARDSWEEP_ASSIGN(const auto trials, trials_meant(reader, options));
  SHARDSWEEP_ASSIGN(const auto rows, reader.rows<PullRequestRow>(Listing::pull_request, {trials}));
  Table table{{"Case", "Job", "Layout", "Status", "Mean step", "Median step", "tokens/s/GPU",
                  "TFLOP/s/GPU", "Final loss", "Peak", "Log"},
      {}};
  for (const PullRequestRow& row : rows)
    table.rows.push_back(pull_request_cells(row));
  return table;
}

/// "trace.json" and "first.trace.json" are timelines, any other .json has the results.
bool is_trace(const std::filesystem::path& file) {
  const auto name = file.filename().string();
  return name == "trace.json" || name.ends_with(".trace.json");
}

Result<std::string> export_trace(const Session& session, Reader& reader) {
  SHARDSWEEP_ASSIGN(const auto trials, trials_meant(reader, session.options));
  SHARDSWEEP_ASSIGN(const auto jobs, reader.rows<TracedJob>(Listing::trace_jobs));
  SHARDSWEEP_ASSIGN(
      const auto attempts, reader.rows<TracedAttempt>(Listing::trace_attempts, {trials}));
  return trace_text(jobs, attempts, session.clock.now());
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
  SHARDSWEEP_TRY(check_output(session.home, file));
  const auto ending = file.extension().string();
  const bool rows = ending == ".csv" || ending == ".json" || ending == ".md";
  if (is_sweep_folder(file)) {
    if (options.format_given || !options.where.empty())
      return fault(FaultKind::invalid_input,
          "export: a folder always holds whole sweeps. Leave --format and --where out.");
    return export_folder(session);
  }
  if (!options.names.empty())
    return fault(FaultKind::invalid_input,
        "export: sweeps can be named only if a folder is written. For a file use --where \"sweep = "
        "'NAME'\".");
  if (file.empty() && !options.format_given)
    return fault(
        FaultKind::invalid_input, "export: name a file, or give --format csv, json or markdown.");
  if (!file.empty() && options.format_given)
    return fault(FaultKind::invalid_input,
        "export: the ending of '{}' says its form. Leave --format out.", file.string());
  if (!file.empty() && !rows && ending != ".db" && ending != ".sqlite") {
    return fault(FaultKind::invalid_input,
        "'{}': unknown file ending. Use .csv, .json or .md for the results, .db or .sqlite for a "
        "copy of the database, a name without an ending for a folder.",
        file.string());
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
    return deliver(text);
  }
  if (rows) {
    SHARDSWEEP_ASSIGN(const std::string text,
        is_trace(file) ? export_trace(session, *reader) : export_text(*reader, options, format));
    SHARDSWEEP_TRY(write_file_durably(file, text));
  } else {
    SHARDSWEEP_TRY(reader->export_to(file));
  }
  say("Wrote {}.", file.string());
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
              "trace.json or NAME.trace.json (a timeline for Perfetto), .db or .sqlite "
              "(everything). A name without an ending, or a folder that is there: a folder of JSON "
              "lines for git. Default: standard output.");
          grammar.option("names", options.names, "NAME",
              "Sweeps, for a folder. Default: all that have a result, and the baselines.");
          grammar.form(
              "Format if no file is given: csv, json or markdown.", {"csv", "json", "markdown"});
          grammar.where();
        },
    .run = run_export};

}  // namespace shardsweep
