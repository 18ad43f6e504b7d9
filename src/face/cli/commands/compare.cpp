// SPDX-License-Identifier: Apache-2.0
// compare: two sweeps, versions or values of a var beside each other. A side that is no
// sweep is an expression over a column, joined with --where, so that both sides are selected
// by the same code. The verdicts are made by show/side_by_side.hpp; --fail-on turns one into
// an exit code for CI.
#include "cli/command.hpp"
#include "cli/commands/baseline.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/cell_text.hpp"
#include "show/side_by_side.hpp"

#include <shardsweep/filter.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardsweep {
namespace {

struct CompareOptions {
  std::string by = "sweep";  ///< column whose values the sides are
  std::string resolve = "1%";
  std::string fail_on;  ///< slower=2%
  std::string against;  ///< baseline in place of the first side
  bool winners = false;
};

constexpr std::string_view by_sweep = "sweep";

Result<double> limit_of(std::string_view text) {
  constexpr std::string_view prefix = "slower=";
  if (text.substr(0, prefix.size()) != prefix)
    return fault(FaultKind::invalid_input, "--fail-on: '{}' is unknown. Write slower=2%.", text);
  return share_in_option(text.substr(prefix.size()), "--fail-on");
}

/// Words for columns that people call otherwise; a var of that name goes before.
Result<std::string> column_of(Reader& reader, const std::string& by) {
  if (by != "image" && by != "site") return by;
  SHARDSWEEP_ASSIGN(const auto sweeps, reader.texts(Listing::sweeps_with_var, {by}));
  if (!sweeps.empty()) return by;
  return std::string(by == "image" ? "image_digest" : "cluster");
}

/// The options of a command over this side alone.
Options options_of(const Options& options, const std::string& by, const std::string& side) {
  Options alone = options;
  alone.names.clear();
  if (by == by_sweep) {
    alone.names = {side};
    return alone;
  }
  const auto is_it = fmt::format("{} = {}", by,
      std::holds_alternative<std::string>(var_value(side)) ? literal_of(side) : side);
  alone.where = options.where.empty() ? is_it : fmt::format("({}) and {}", options.where, is_it);
  return alone;
}

Result<Side> side_of(
    Reader& reader, const Options& options, const std::string& by, const std::string& name) {
  const Options alone = options_of(options, by, name);
  SHARDSWEEP_ASSIGN(auto layouts, reader.layouts(selection_of(alone)));
  if (layouts.rows.empty()) {
    SHARDSWEEP_ASSIGN(const auto why, why_empty(reader, alone));
    return fault(FaultKind::invalid_input, "{} '{}': {}", by, name, why);
  }
  if (!layouts.note.empty()) say("{}: {}", name, layouts.note);
  return Side{name, std::move(layouts)};
}

/// The baseline and the one side that is named, or two sides that are.
Result<std::pair<Side, Side>> sides_of(
    Reader& reader, const Options& options, const CompareOptions& own, const Session& session) {
  const auto& names = options.names;
  const std::size_t needed = own.against.empty() ? 2 : 1;
  if (names.size() != needed)
    return fault(FaultKind::invalid_input,
        needed == 2 ? "compare has two sides: name both, or one and --against BASELINE"
                    : "compare --against has one other side: name it");
  SHARDSWEEP_ASSIGN(Side last, side_of(reader, options, own.by, names.back()));
  if (needed == 2) {
    SHARDSWEEP_ASSIGN(Side first, side_of(reader, options, own.by, names.front()));
    return std::pair(std::move(first), std::move(last));
  }
  SHARDSWEEP_ASSIGN(Table kept, read_baseline(session, own.against));
  return std::pair(Side{own.against, std::move(kept)}, std::move(last));
}

/// Vars, which tell cells apart as the model does.
std::vector<std::string_view> vars_of(const Table& table) {
  const auto& all = table.columns;
  const auto end = std::find_if(all.begin(), all.end(),
      [](const std::string& name) { return name == "layout" || name == "first_winner"; });
  const auto gpus = std::find(all.begin(), end, "gpus");
  return {gpus == end ? end : gpus + 1, end};
}

std::vector<std::string_view> important_columns(const Table& table, bool winners) {
  if (winners) return {"first_winner", "second_winner", "verdict", "second_winner_lead_share"};
  std::vector<std::string_view> columns{"layout"};
  const auto vars = vars_of(table);
  columns.insert(columns.end(), vars.begin(), vars.end());
  columns.insert(columns.end(),
      {"change_share", "verdict", "first_tokens_per_s_per_gpu", "second_tokens_per_s_per_gpu"});
  return columns;
}

/// Headings that name the two sides; none if a name is too long for one.
std::map<std::string, std::string, std::less<>> titles_of(const Side& first, const Side& second) {
  constexpr std::size_t longest = 20;
  std::map<std::string, std::string, std::less<>> titles;
  if (first.name == second.name || std::max(width_of(first.name), width_of(second.name)) > longest)
    return titles;
  for (const auto& [place, side] : {std::pair("first_", &first), std::pair("second_", &second)}) {
    for (const std::string what : {"tokens_per_s_per_gpu", "repeats", "winner"})
      titles[place + what] = fmt::format("{} {}", side->name, title_of(what));
  }
  titles["second_winner_lead_share"] = fmt::format("lead of the {} winner", second.name);
  return titles;
}

Result<ExitCode> run_compare(const Session& session) {
  const Options& options = session.options;
  CompareOptions own = options.of<CompareOptions>();
  SHARDSWEEP_ASSIGN(const double resolve, share_in_option(own.resolve, "--resolve"));
  double limit = 0;  // 0: no --fail-on
  if (!own.fail_on.empty()) SHARDSWEEP_SET(limit, limit_of(own.fail_on));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(own.by, column_of(*reader, own.by));
  SHARDSWEEP_ASSIGN(const auto sides, sides_of(*reader, options, own, session));
  const auto& [first, second] = sides;
  SideBySide both = side_by_side(first, second, own.by, resolve);
  Table& table = own.winners ? both.winners : both.rows;
  if (options.format == Format::table) drop_nodes_where_none(table);
  if (options.out.empty()) {
    auto style = table_style(session, important_columns(table, own.winners));
    style.names = vars_of(table);
    style.titles = titles_of(first, second);
    SHARDSWEEP_TRY(print_table(table, style));
  } else {
    SHARDSWEEP_TRY(deliver(table_text(table, options.format), options.out));
  }
  say(summary_text(both, first, second));
  if (limit <= 0) return ExitCode::done;
  const SweepVerdict verdict = judge_limit(both, limit);
  if (!verdict.sentence.empty()) say(verdict.sentence);
  return verdict.code;
}

}  // namespace

extern const Command command_compare{.name = "compare",
    .heading = Heading::results,
    .help = "Compare two sweeps or versions, layout by layout.",
    .examples =
        "shardsweep compare before after --fail-on slower=2%\n"
        "shardsweep compare 24.05 24.09 --by image\n"
        "shardsweep compare after --against main",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          auto& own = grammar.own<CompareOptions>();
          grammar
              .option("names", options.names, "A B",
                  "The two sides, the older one first: sweeps, or values of the column that --by "
                  "names. With --against the second alone.")
              .required()
              .times(1, 2);
          grammar.option("--against", own.against, "BASELINE",
              "First side: what `baseline set` has kept under this name, or a file of it "
              "(.jsonl).");
          grammar.option("--by", own.by, "COLUMN",
              "Column whose values the sides are: sweep, runner_version, code_hash, image, "
              "site (the cluster), or one of your vars.");
          grammar.option("--resolve", own.resolve, "SHARE",
              "A change that is certainly smaller than this is SAME.");
          grammar.option("--fail-on", own.fail_on, "slower=SHARE",
              "Exit with 1 if a layout is SLOWER by this much or more, such as slower=2%. What is "
              "UNDECIDED fails nothing; it is counted and named.");
          grammar.flag("--winners", own.winners,
              "Print the fastest layout of each cell on both sides, not every layout.");
          grammar.where();
          grammar.versions();
          grammar.format();
          grammar.output();
        },
    .run = run_compare};

}  // namespace shardsweep
