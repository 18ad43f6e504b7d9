// SPDX-License-Identifier: Apache-2.0
// history: measurements of the same over time, where they change, and what else changed there.
#include "show/history.hpp"

#include "cli/command.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/terminal.hpp"
#include "picture/svg.hpp"
#include "report/report_page.hpp"
#include "sweep/layout_text.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using Json = nlohmann::json;

struct HistoryOptions {
  std::string of;  ///< cell, layout; empty: by the names
  std::string resolve = "1%";
  bool points = false;
};

/// Runs that the names of a command line mean, and what their history is of.
struct HistoryScope {
  Selection selection{};
  HistoryOf of = HistoryOf::cell;
};

void add_condition(std::string& any, const std::string& one) {
  any += (any.empty() ? "" : " or ") + one;
}

/// SQL condition for a trial's cell and layout.
std::string like_trial(const ReportedTrial& trial) {
  return fmt::format("(model = {} and seq_len = {} and nodes = {} and gpus = {} and layout = {})",
      literal_of(trial.model), trial.seq_len, trial.nodes, trial.gpus, literal_of(trial.layout));
}

Result<HistoryScope> history_asked(Reader& reader, const Options& options) {
  HistoryScope asked;
  asked.selection = selection_of(options);
  asked.selection.names.clear();
  // Runs of software that was replaced are what this is about.
  asked.selection.hidden = true;
  const auto holds = [&](const char* column) -> Result<std::set<Value>> {
    SHARDSWEEP_ASSIGN(const auto values, reader.values({.hidden = true}, column));
    return std::set<Value>(values.begin(), values.end());
  };
  SHARDSWEEP_ASSIGN(const auto sweeps, holds("sweep"));
  SHARDSWEEP_ASSIGN(const auto models, holds("model"));
  SHARDSWEEP_ASSIGN(const auto layouts, holds("layout"));
  std::string any;
  for (const auto& name : options.names) {
    if (sweeps.contains(name)) {
      asked.selection.names.push_back(name);
    } else if (models.contains(name)) {
      add_condition(any, "model = " + literal_of(name));
    } else if (layouts.contains(name)) {
      add_condition(any, "layout = " + literal_of(name));
      asked.of = HistoryOf::layout;
    } else {
      SHARDSWEEP_ASSIGN(const auto trials, reader.trials({.names = {name}, .hidden = true}));
      if (trials.empty())
        return fault(FaultKind::invalid_input, "'{}' names no sweep, model, layout or trial", name);
      add_condition(any, like_trial(trials.front()));
      asked.of = HistoryOf::layout;
    }
  }
  auto& where = asked.selection.where;
  if (!any.empty()) where = where.empty() ? any : fmt::format("({}) and ({})", where, any);
  const auto& of = options.of<HistoryOptions>().of;
  if (!of.empty()) asked.of = *from_word<HistoryOf>(of);
  return asked;
}

std::string json_word(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A row of `results`.
struct MeasuredRow {
  HistoryRun run{};
  std::string vars;  ///< JSON
  std::string runner_version;
  std::string software;  ///< JSON
  std::string hosts;
  std::string settings;
  std::string code_hash;
  std::string image_digest;
  std::string mark;
  double train_step_ms_spread = 0;
  std::int64_t steps = 0;
};

/// A row of Listing::replaced_runs.
struct ReplacedRun {
  std::int64_t trial_id = 0;
  double speed = 0;
};

}  // namespace

SHARDSWEEP_DESCRIBE(ReplacedRun, trial_id, speed);

template <>
inline constexpr auto described<MeasuredRow> = Entries{
    Part{&MeasuredRow::run},
    SHARDSWEEP_FIELDS(MeasuredRow, vars, runner_version, software, hosts, settings, code_hash,
        image_digest, mark, train_step_ms_spread, steps),
};

namespace {

HistoryFacts software_of(const MeasuredRow& row) {
  HistoryFacts facts;
  const auto json = Json::parse(row.software, nullptr, false);
  if (json.is_object()) {
    for (const auto& [name, value] : json.items())
      facts[name] = json_word(value);
  }
  for (const auto& [name, text] :
      {std::pair("version", &row.runner_version), std::pair("image", &row.image_digest),
          std::pair("code", &row.code_hash), std::pair("settings", &row.settings)}) {
    if (!text->empty()) facts[name] = *text;
  }
  return facts;
}

Result<std::vector<HistoryRun>> history_runs(Reader& reader, const Selection& selection) {
  SHARDSWEEP_ASSIGN(auto rows,
      reader.results_as<MeasuredRow>(
          {.selection = selection, .columns = {}, .measured_only = true}));
  // A sweep imported from a folder of lines is no table: it has its sweep file, and vars that set
  // something.
  SHARDSWEEP_ASSIGN(const auto tables, reader.texts(Listing::imported_tables));
  const std::set<std::string> imported(tables.begin(), tables.end());
  SHARDSWEEP_ASSIGN(const auto replaced, reader.rows<ReplacedRun>(Listing::replaced_runs));
  std::map<std::int64_t, double> speeds_before;
  for (const auto& run : replaced)
    speeds_before[run.trial_id] = run.speed;
  std::vector<HistoryRun> runs;
  for (auto& row : rows) {
    // Marked runs are ranked nowhere.
    if (!row.mark.empty() || !(row.run.measured.speed > 0)) continue;
    HistoryRun& run = runs.emplace_back(std::move(row.run));
    // The vars of an imported table are labels: they set nothing.
    if (!imported.contains(run.sweep)) run.cell.vars = vars_text(row.vars);
    run.software = software_of(row);
    run.measured.nodes = hosts_text(row.hosts);
    const auto before = speeds_before.find(run.id);
    if (before != speeds_before.end()) run.replaced = before->second;
    run.measured.step_noise = step_noise_of(row.train_step_ms_spread, row.steps);
  }
  return runs;
}

Result<History> history_asked_for(const Session& session, const Options& options, double resolve) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto asked, history_asked(*reader, options));
  SHARDSWEEP_ASSIGN(auto runs, history_runs(*reader, asked.selection));
  if (runs.empty()) {
    Options meant = options;
    meant.names = asked.selection.names;
    meant.where = asked.selection.where;
    meant.hidden = true;
    meant.all_sweeps = meant.names.empty();
    SHARDSWEEP_ASSIGN(const auto why, why_empty(*reader, meant));
    return fault(FaultKind::invalid_input, why);
  }
  return history_of(std::move(runs), asked.of, resolve);
}

Result<ExitCode> run_history(const Session& session) {
  SHARDSWEEP_ASSIGN(const Options options, with_form(session.options, {"svg", "html"}));
  SHARDSWEEP_ASSIGN(
      const double resolve, share_in_option(options.of<HistoryOptions>().resolve, "--resolve"));
  SHARDSWEEP_ASSIGN(const auto history, history_asked_for(session, options, resolve));
  return show_history(session, options, history, options.of<HistoryOptions>().points);
}

}  // namespace

Result<std::string> history_html(const Session& session) {
  Options options = session.options;
  const HistoryOptions usual;
  options.own = usual;
  SHARDSWEEP_ASSIGN(const double resolve, share_in_option(usual.resolve, "--resolve"));
  SHARDSWEEP_ASSIGN(const auto history, history_asked_for(session, options, resolve));
  return history_page(history, made_text(session));
}

Result<ExitCode> show_history(const Session& session, const Options& options,
    const History& history, bool points, Table (*shape)(const Table&)) {
  if (options.picture == PictureForm::svg)
    return deliver(svg_text(history_picture(history), SvgUse::file), options.out);
  if (options.picture == PictureForm::html)
    return deliver(history_page(history, made_text(session)), options.out);
  const bool for_machines = options.format == Format::csv || options.format == Format::json;
  const bool utf8 = !options.out.empty() || terminal_of(STDOUT_FILENO).utf8;
  Table table = for_machines || points ? history_points(history) : history_table(history, utf8);
  if (shape != nullptr) table = shape(table);
  if (!options.out.empty()) return deliver(table_text(table, options.format), options.out);
  if (options.format == Format::table) drop_nodes_where_none(table);
  SHARDSWEEP_ASSIGN(const auto code,
      print_table(table,
          table_style(session,
              {"model", "figure", "verdict", "change_share", "since", "changed", "history"})));
  say(history_summary(history));
  const auto doubts = history_doubts(history);
  if (!doubts.empty()) say(doubts);
  return code;
}

extern const Command command_history{.name = "history",
    .heading = Heading::results,
    .help = "Show what became faster or slower, since when, and why.",
    .examples =
        "shardsweep history\n"
        "shardsweep history llama-1b --of layout --points\n"
        "shardsweep history -o history.html",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          auto& own = grammar.own<HistoryOptions>();
          grammar.option("names", options.names, "NAME",
              "Models, layouts, sweeps or trials. A trial means its layout, whenever and by "
              "whatever software it ran. Default: everything that was measured.");
          grammar
              .option("--of", own.of, "WHAT",
                  "What a series is of: cell (its best layout under each software) or layout (each "
                  "run). Default: cell; layout if one is named.")
              .one_of({"cell", "layout"});
          grammar.option("--resolve", own.resolve, "SHARE", "A change smaller than this is SAME.");
          grammar.flag("--points", own.points,
              "Print a row for each measurement with its verdict, as csv and json do.");
          grammar.where();
          grammar.format({"svg", "html"});
          grammar.output();
        },
    .run = run_history};

}  // namespace shardsweep
