// SPDX-License-Identifier: Apache-2.0
// import: a recorded sweep into the database; replay: as the cluster; evaluate-memory: against
// what it reports.
#include "cli/command.hpp"
#include "cli/commands/sweep_folder.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "predict/family.hpp"
#include "predict/memory_score.hpp"
#include "replay/imported_trials.hpp"
#include "replay/replay.hpp"
#include "show/memory_view.hpp"
#include "show/replay_story.hpp"
#include "show/replay_view.hpp"
#include "text/units.hpp"

#include <shardsweep/imported.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/recorded.hpp>
#include <shardsweep/search.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// Of all three commands; each has some of them.
struct RecordedOptions {
  std::string from = "csv";  ///< whose columns: csv, nanotron
  std::string policy = "best_first";
  std::string until;
  std::vector<std::string> without_rules;
  bool cells_alone = false;
  bool explain = false;
  bool cross_validate = false;
  std::string name;  ///< of the sweep that an import makes
  std::string start_cost = "60s";
  std::string oom_cost;
  std::int64_t first = 0;
  std::string cut_short;  ///< a factor or off; empty: the default
};

// ---- what is given: a table, the cluster that it is of, the family of its trainer

struct RecordedInput {
  RecordedSweep sweep;  ///< after --where
  ClusterSpec cluster;
  const Family* family = nullptr;
};
enum class FamilyNeed : std::uint8_t { must_be_said, may_be_unknown };

Result<RecordedFormat> format_of(const std::string& word) {
  for (std::size_t i = 0; i < recorded_format_words.size(); ++i) {
    if (recorded_format_words[i] == word) return static_cast<RecordedFormat>(i);
  }
  return fault(FaultKind::invalid_input,
      fmt::format("--from {}: unknown kind of table; the kinds are {}", word,
          fmt::join(recorded_format_words, ", ")));
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

tl::unexpected<Fault> refuse_without_family() {
  std::string names;
  for (const auto& each : families())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
  return fault(FaultKind::invalid_input,
      fmt::format("--family is missing: give the family of the table's trainer: {}", names));
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

/// By --from, --cluster, --family and --where. nanotron's table has a cluster and a family of
/// its own: h100-8x and nanotron. `family` stays null where it may be unknown and is not said.
Result<RecordedInput> read_recorded_input(
    const Session& session, FamilyNeed need = FamilyNeed::must_be_said) {
  const auto& options = session.options;
  SHARDSWEEP_ASSIGN(const auto format, format_of(options.of<RecordedOptions>().from));
  const bool nanotron = format == RecordedFormat::nanotron;
  RecordedInput input;
  const auto cluster =
      options.asked.cluster.empty() && nanotron ? "h100-8x" : options.asked.cluster;
  if (cluster.empty())
    return fault(FaultKind::invalid_input,
        "--cluster is missing: give the preset of the cluster of these runs");
  SHARDSWEEP_ASSIGN(input.cluster, load_cluster(cluster, session.installation.presets));
  const auto family = options.asked.family.empty() && nanotron ? "nanotron" : options.asked.family;
  if (family.empty() && need == FamilyNeed::must_be_said) return refuse_without_family();
  if (!family.empty()) {
    SHARDSWEEP_ASSIGN(input.family, find_family(family));
  }
  SHARDSWEEP_ASSIGN(input.sweep,
      read_recorded(options.file,
          {.format = format,
              .presets = session.installation.presets,
              .gpus_per_node = input.cluster.gpus_per_node}));
  SHARDSWEEP_TRY(keep_where(input.sweep, options.where));
  return input;
}

// ---- what is done with it

/// A factor; 0: off.
Result<double> cut_short_of(const Options& options, const SearchSettings& defaults) {
  const auto& own = options.of<RecordedOptions>();
  if (own.cut_short.empty()) return defaults.cut_short;
  if (own.cut_short == "off") return 0;
  const auto factor = config::parse_real(own.cut_short);
  if (!factor || *factor <= 1)
    return fault(FaultKind::invalid_input,
        fmt::format("--cut-short {}: expected a factor above 1, or off", own.cut_short));
  return *factor;
}

Result<SearchSettings> search_of(const Options& options) {
  const auto& own = options.of<RecordedOptions>();
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
    } else if (rule == "grad_accum") {
      search.rules.grad_accum = false;
    } else if (rule == "memory") {
      search.rules.memory = false;
    } else {
      return fault(FaultKind::invalid_input,
          fmt::format(
              "--without-rule {}: unknown rule; write micro_batch, grad_accum or memory", rule));
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
      replay.start_s, parse_duration(options.of<RecordedOptions>().start_cost, "--start"));
  replay.first = static_cast<std::int32_t>(options.of<RecordedOptions>().first);
  if (replay.first < 0 || replay.warmup + replay.first >= replay.steps)
    return fault(FaultKind::invalid_input,
        fmt::format("--first {}: launches have {} timed train steps; write fewer", replay.first,
            replay.steps - replay.warmup));
  replay.oom_s = replay.start_s;
  if (!options.of<RecordedOptions>().oom_cost.empty()) {
    SHARDSWEEP_ASSIGN(
        replay.oom_s, parse_duration(options.of<RecordedOptions>().oom_cost, "--oom-cost"));
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

/// A name that can stand wherever a sweep is named, of the file's own.
Result<std::string> sweep_name_of(const Options& options) {
  const auto& own = options.of<RecordedOptions>();
  const bool said = !own.name.empty();
  std::string name = said ? own.name : std::filesystem::path(options.file).stem().string();
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  constexpr std::size_t longest = 64;
  const bool good = !name.empty() && name.size() <= longest &&
      std::isalnum(static_cast<unsigned char>(name.front())) != 0 &&
      std::all_of(name.begin(), name.end(), plain);
  if (good) return name;
  return fault(FaultKind::invalid_input,
      fmt::format("{} '{}': a sweep's name has letters, digits and '._-', begins with "
                  "a letter or digit, and has at most 64 characters{}",
          said ? "--name" : "the file's name", name, said ? "" : ": give --name"));
}

Result<ExitCode> run_import(const Session& session) {
  std::error_code none;
  if (std::filesystem::is_directory(session.options.file, none))
    return import_folder(session, session.options.of<RecordedOptions>().name);
  SHARDSWEEP_ASSIGN(const auto name, sweep_name_of(session.options));
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session, FamilyNeed::may_be_unknown));
  if (input.sweep.runs.empty()) {
    return fault(FaultKind::invalid_input,
        fmt::format("{}: no row{}", session.options.file,
            session.options.where.empty() ? "" : " matches --where"));
  }
  const auto imported = imported_trials(input.sweep,
      {.name = name,
          .cluster = input.cluster,
          .family = input.family,
          .labels = label_names(input.sweep)});
  SHARDSWEEP_TRY(make_home(session.home));
  const auto inbox = session.home.inbox() / (random_hex(16) + ".db");
  SHARDSWEEP_TRY(write_imported(inbox, imported));
  SHARDSWEEP_ASSIGN(
      const Answer answer, ask_writer(session, {.verb = Verb::submit, .inbox = inbox.string()}));
  SHARDSWEEP_TRY(print_result(import_text(name, answer, session.options.format, "table")));
  return ExitCode::done;
}

Result<ExitCode> run_replay(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session));
  SHARDSWEEP_ASSIGN(const auto options, replay_options(session, input));
  if (session.options.of<RecordedOptions>().cross_validate)
    return cross_validate(session, input, options);
  SHARDSWEEP_ASSIGN(const auto report, replay(input.sweep, options));
  const auto style = table_style(session);
  SHARDSWEEP_TRY(
      print_result(session.options.of<RecordedOptions>().explain ? replay_story_text(report, style)
                                                                 : replay_text(report, style)));
  if (session.options.format == Format::table) say(replay_summary(report));
  return ExitCode::done;
}

Result<ExitCode> run_evaluate_memory(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session));
  const auto& options = session.options;
  const auto report = options.of<RecordedOptions>().cross_validate
      ? cross_validate_memory(input.sweep, input.cluster, *input.family)
      : score_memory(input.sweep, input.cluster, *input.family);
  SHARDSWEEP_TRY(print_result(memory_report_text(report, table_style(session))));
  if (options.of<RecordedOptions>().cross_validate) say(fitted_constants_text(input));
  return ExitCode::done;
}

RecordedOptions& declare_recorded(Grammar& grammar, const char* file = "Table of runs (CSV).") {
  Options& options = grammar.options();
  auto& own = grammar.own<RecordedOptions>();
  grammar.option("file", options.file, "FILE", file).required();
  grammar.option("--from", own.from, "KIND", "Kind of table: csv (our column names) or nanotron.")
      .with_default()
      .offers({"csv", "nanotron"});
  grammar.option("--cluster", options.asked.cluster, "PRESET",
      "Preset of the cluster of these runs. Default for nanotron: h100-8x.");
  grammar.family("Family of the trainer. Default for nanotron: nanotron.");
  grammar.where(
      "Only rows for which this expression holds. It may use axes, model shape, outcome, "
      "metrics, software_version and the table's columns.");
  grammar.format();
  return own;
}

}  // namespace

extern const Command command_replay{.name = "replay",
    .heading = Heading::other,
    .help = "Run a search against a recorded sweep, and score the search.",
    .examples =
        "shardsweep replay runs.csv --from nanotron\n"
        "shardsweep replay runs.csv --from nanotron --until runs=20",
    .declare =
        [](Grammar& grammar) {
          auto& own = declare_recorded(grammar);
          grammar.option("--policy", own.policy, "POLICY", "best_first or exhaustive.")
              .with_default()
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
              "or off. Default: 1.2 with best_first.");
          grammar.flag(
              "--cells-alone", own.cells_alone, "Let each cell learn from its own runs alone.");
          grammar.flag("--explain", own.explain,
              "Print each launch with its reason, and each row left out with its rule.");
          grammar.flag("--cross-validate", own.cross_validate,
              "Also score the time model refitted to the other models' rows.");
        },
    .run = run_replay};

extern const Command command_import{.name = "import",
    .heading = Heading::other,
    .help = "Take a table of runs, or exported sweeps, into the database.",
    .examples =
        "shardsweep import runs.csv --cluster h100-8x\n"
        "shardsweep import results",
    .declare =
        [](Grammar& grammar) {
          grammar.option("--name",
              declare_recorded(grammar,
                  "Table of runs (CSV), or a folder that "
                  "`export FOLDER` has written.")
                  .name,
              "NAME", "Name of the new sweep. Default: the file's name without its ending.");
        },
    .run = run_import};

extern const Command command_evaluate_memory{.name = "evaluate-memory",
    .heading = Heading::other,
    .help = "Compare predicted memory with a recorded sweep.",
    .examples = "shardsweep evaluate-memory runs.csv --from nanotron",
    .declare =
        [](Grammar& grammar) {
          grammar.flag("--cross-validate", declare_recorded(grammar).cross_validate,
              "Score each model with constants fitted to the other models' rows.");
        },
    .run = run_evaluate_memory};

}  // namespace shardsweep
