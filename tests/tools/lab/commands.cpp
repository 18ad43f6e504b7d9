// SPDX-License-Identifier: Apache-2.0
// The commands of shardsweep-lab. replay: a table of runs as the cluster; evaluate-memory: the
// memory model against what a table reports; figures: this program's own speed over its commits.
#include "cli/command.hpp"
#include "cli/commands/known_runs.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "text/units.hpp"
#include "tools/lab/bench_figures.hpp"
#include "tools/lab/memory_score.hpp"
#include "tools/lab/memory_view.hpp"
#include "tools/lab/replay.hpp"
#include "tools/lab/replay_story.hpp"
#include "tools/lab/replay_view.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/search.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// Of replay and evaluate-memory.
struct JudgeOptions {
  std::string from = "csv";  ///< whose columns: csv, nanotron
  std::string policy = "best_first";
  std::string until;
  std::vector<std::string> without_rules;
  bool cells_alone = false;
  bool explain = false;
  bool cross_validate = false;
  std::string start_cost = "60s";
  std::string oom_cost;
  std::int64_t first = 0;
  std::string cut_short;  ///< a factor or off; empty: the default
};

Result<RecordedInput> judged_input(const Session& session) {
  return read_recorded_input(session, session.options.of<JudgeOptions>().from);
}

JudgeOptions& declare_judged(Grammar& grammar) {
  auto& own = grammar.own<JudgeOptions>();
  declare_recorded(grammar, own.from);
  return own;
}

tl::unexpected<Fault> refuse_until(std::string_view what) {
  return fault(FaultKind::invalid_input,
      fmt::format("--until: {}; write regret=1%,confidence=95%, runs=20 or gpu_hours=5", what));
}

Result<void> set_until(std::string_view key, std::string_view value, SearchUntil& until) {
  const auto taken = [&](const auto& number, auto& into) -> Result<void> {
    if (!number || *number <= 0)
      return refuse_until(fmt::format("'{}={}' is no limit", key, value));
    into = *number;
    return {};
  };
  constexpr std::int64_t most_runs = 1'000'000'000;
  if (key == "regret") return taken(config::parse_share(value), until.regret);
  if (key == "confidence") return taken(config::parse_share(value), until.confidence);
  if (key == "runs") return taken(config::parse_count(value, {1, most_runs, key}), until.runs);
  if (key == "gpu_hours") return taken(config::parse_real(value), until.gpu_hours);
  return refuse_until(fmt::format("'{}={}'", key, value));
}

/// "regret=1%,confidence=95%", "runs=20", "gpu_hours=5".
Result<SearchUntil> until_from(const std::string& text) {
  SearchUntil until;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) return refuse_until(fmt::format("'{}'", item));
    SHARDSWEEP_TRY(set_until(item.substr(0, equals), item.substr(equals + 1), until));
  }
  return until;
}

/// A factor; 0: off.
Result<double> cut_short_of(const Options& options, const SearchSettings& defaults) {
  const auto& own = options.of<JudgeOptions>();
  if (own.cut_short.empty()) return defaults.cut_short;
  if (own.cut_short == "off") return 0;
  const auto factor = config::parse_real(own.cut_short);
  if (!factor || *factor <= 1)
    return fault(FaultKind::invalid_input,
        fmt::format("--cut-short {}: expected a factor above 1, or off", own.cut_short));
  return *factor;
}

Result<SearchSettings> search_of(const Options& options) {
  const auto& own = options.of<JudgeOptions>();
  SearchSettings search;
  const auto policy = std::find(search_policy_words.begin(), search_policy_words.end(), own.policy);
  if (policy == search_policy_words.end()) {
    return fault(FaultKind::invalid_input,
        fmt::format("--policy {}: unknown policy; the policies are {}", own.policy,
            fmt::join(search_policy_words, ", ")));
  }
  search.policy = static_cast<SearchPolicy>(policy - search_policy_words.begin());
  SHARDSWEEP_ASSIGN(search.until, until_from(own.until));
  search.learn_across = !own.cells_alone;
  SHARDSWEEP_ASSIGN(search.cut_short, cut_short_of(options, search));
  for (const auto& rule : own.without_rules) {
    if (rule == "micro_batch") {
      search.rules.micro_batch = false;
    } else if (rule == "memory") {
      search.rules.memory = false;
    } else {
      return fault(FaultKind::invalid_input,
          fmt::format("--without-rule {}: unknown rule; write micro_batch or memory", rule));
    }
  }
  return search;
}

/// How long launches of a replay take, and what it searches.
Result<ReplayOptions> replay_options(const Session& session, const RecordedInput& input) {
  ReplayOptions replay{.cluster = input.cluster, .family = input.family};
  const auto& options = session.options;
  SHARDSWEEP_ASSIGN(replay.search, search_of(options));
  SHARDSWEEP_ASSIGN(
      replay.start_s, parse_duration(options.of<JudgeOptions>().start_cost, "--start"));
  replay.first = static_cast<std::int32_t>(options.of<JudgeOptions>().first);
  if (replay.first < 0 || replay.warmup + replay.first >= replay.steps)
    return fault(FaultKind::invalid_input,
        fmt::format("--first {}: launches have {} timed train steps; write fewer", replay.first,
            replay.steps - replay.warmup));
  replay.oom_s = replay.start_s;
  if (!options.of<JudgeOptions>().oom_cost.empty()) {
    SHARDSWEEP_ASSIGN(
        replay.oom_s, parse_duration(options.of<JudgeOptions>().oom_cost, "--oom-cost"));
  }
  return replay;
}

/// The same search with the time model as the family has it, refitted to the other models'
/// rows, and to all: how much of what is learnt holds for a model that nobody has run.
Result<ExitCode> cross_validate(
    const Session& session, const RecordedInput& input, ReplayOptions options) {
  std::vector<FittedReplay> replays;
  constexpr std::array<std::pair<const char*, ReplayFit>, 3> fits{{{"family", ReplayFit::none},
      {"other_models", ReplayFit::other_models}, {"all_models", ReplayFit::all_models}}};
  for (const auto& [name, fit] : fits) {
    options.fit = fit;
    SHARDSWEEP_ASSIGN(auto report, replay(input.sweep, options));
    replays.push_back({name, std::move(report)});
  }
  SHARDSWEEP_TRY(print_result(cross_validation_text(replays, table_style(session))));
  return ExitCode::done;
}

/// Which constants a cross-validation has fitted anew, and to what.
std::string fitted_constants_text(const RecordedInput& input) {
  const auto constants = fitted_memory_constants(input.family->name);
  if (constants.empty()) {
    return fmt::format("{}: its memory model has no constants fitted to runs; nothing changes\n",
        input.family->name);
  }
  std::string text;
  std::set<std::string> names;
  for (const auto& run : input.sweep.runs)
    names.insert(input.sweep.model_of(run).name);
  const auto line = [&](const std::string& whose, const Family& family) {
    text += fmt::format("{}:", whose);
    for (const auto& constant : constants)
      text += fmt::format(" {} {:.0f}", constant.name, family.memory.*constant.value);
    text += '\n';
  };
  line("constants of the family", *input.family);
  for (const auto& name : names) {
    line("without " + name, refit_memory(input.sweep, input.cluster, *input.family, name));
  }
  return text;
}

Result<ExitCode> run_replay(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto input, judged_input(session));
  SHARDSWEEP_ASSIGN(const auto options, replay_options(session, input));
  if (session.options.of<JudgeOptions>().cross_validate)
    return cross_validate(session, input, options);
  SHARDSWEEP_ASSIGN(const auto report, replay(input.sweep, options));
  const auto style = table_style(session);
  SHARDSWEEP_TRY(
      print_result(session.options.of<JudgeOptions>().explain ? replay_story_text(report, style)
                                                              : replay_text(report, style)));
  if (session.options.format == Format::table) say(replay_summary(report));
  return ExitCode::done;
}

Result<ExitCode> run_evaluate_memory(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto input, judged_input(session));
  const auto& options = session.options;
  const auto report = options.of<JudgeOptions>().cross_validate
      ? cross_validate_memory(input.sweep, input.cluster, *input.family)
      : score_memory(input.sweep, input.cluster, *input.family);
  SHARDSWEEP_TRY(print_result(memory_report_text(report, table_style(session))));
  if (options.of<JudgeOptions>().cross_validate) say(fitted_constants_text(input));
  return ExitCode::done;
}

struct FigureOptions {
  std::string resolve = "1%";
  bool points = false;
};

Result<ExitCode> run_figures(const Session& session) {
  SHARDSWEEP_ASSIGN(const Options options, with_form(session.options, {"svg", "html"}));
  const auto& own = options.of<FigureOptions>();
  SHARDSWEEP_ASSIGN(const double resolve, share_in_option(own.resolve, "--resolve"));
  constexpr std::size_t longest = 64 << 20;
  SHARDSWEEP_ASSIGN(const auto text, read_file(options.file, longest));
  SHARDSWEEP_ASSIGN(
      const auto history, history_of_bench(text, options.file, options.names, resolve));
  return show_history(session, options, history, own.points, without_layouts);
}

}  // namespace

extern const Command command_replay{.name = "replay",
    .heading = Heading::other,
    .help = "Run a search against a recorded sweep, and score the search.",
    .examples =
        "shardsweep-lab replay runs.csv --from nanotron\n"
        "shardsweep-lab replay runs.csv --from nanotron --until runs=20",
    .declare =
        [](Grammar& grammar) {
          auto& own = declare_judged(grammar);
          grammar.option("--policy", own.policy, "POLICY", "best_first or exhaustive.")
              .offers({"best_first", "exhaustive"});
          grammar.option("--until", own.until, "LIMITS",
              "End of a cell's search: regret=1%,confidence=95% or runs=N or gpu_hours=H. "
              "Default: its last point.");
          grammar.option("--start", own.start_cost, "DURATION",
              "Start-up of a launch, before its first train step. Default: 60s.");
          grammar.option("--oom-cost", own.oom_cost, "DURATION",
              "What a launch takes that runs out of memory. Default: as --start.");
          grammar.option("--first", own.first, "STEPS",
              "Timed train steps of a launch, as 'measure.first' has it: all 10 run "
              "in finals of a cell, of which a round counts. Default: 10.");
          grammar
              .option("--without-rule", own.without_rules, "RULE",
                  "Switch a rule off: micro_batch, grad_accum, memory. Repeatable.")
              .offers({"micro_batch", "grad_accum", "memory"});
          grammar.option("--cut-short", own.cut_short, "FACTOR",
              "End a run early whose train steps take so many times as long as the best's, "
              "or off. Default: 1.05 with best_first.");
          grammar.flag(
              "--cells-alone", own.cells_alone, "Let each cell learn from its own runs alone.");
          grammar.flag("--explain", own.explain,
              "Print each launch with its reason, and each row left out with its rule.");
          grammar.flag("--cross-validate", own.cross_validate,
              "Also score the time model refitted to the other models' rows.");
        },
    .run = run_replay};

extern const Command command_evaluate_memory{.name = "evaluate-memory",
    .heading = Heading::other,
    .help = "Compare predicted memory with a recorded sweep.",
    .examples = "shardsweep-lab evaluate-memory runs.csv --from nanotron",
    .declare =
        [](Grammar& grammar) {
          grammar.flag("--cross-validate", declare_judged(grammar).cross_validate,
              "Score each model with constants fitted to the other models' rows.");
        },
    .run = run_evaluate_memory};

extern const Command command_figures{.name = "figures",
    .heading = Heading::other,
    .help = "Show the speed of this program over its commits.",
    .examples = "shardsweep-lab figures bench.jsonl plan.plan_s",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          auto& own = grammar.own<FigureOptions>();
          grammar
              .option("file", options.file, "FILE",
                  "Lines that `scripts/bench --append FILE` has written.")
              .required();
          grammar.option("names", options.names, "NAME", "Figures. Default: all.");
          grammar.option("--resolve", own.resolve, "SHARE", "A change smaller than this is SAME.");
          grammar.flag("--points", own.points,
              "Print a row for each measurement with its verdict, as csv and json do.");
          grammar.format({"svg", "html"});
          grammar.output();
        },
    .run = run_figures,
    .database = false};

}  // namespace shardsweep
