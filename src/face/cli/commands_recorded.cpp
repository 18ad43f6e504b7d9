// SPDX-License-Identifier: Apache-2.0
// import: a recorded sweep into the database; replay: as the cluster; evaluate-memory: against
// what it reports.
#include "cli/printing.hpp"
#include "cli/recorded_input.hpp"
#include "predict/memory_fit.hpp"
#include "replay/imported_trials.hpp"
#include "replay/replay.hpp"
#include "show/memory_view.hpp"
#include "show/replay_story.hpp"
#include "show/replay_view.hpp"
#include "text/units.hpp"

#include <shardsweep/imported.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>

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

/// A factor; 0: off.
Result<double> cut_short_of(const Options& options, const SearchSettings& defaults) {
  if (options.recorded.cut_short.empty()) return defaults.cut_short;
  if (options.recorded.cut_short == "off") return 0;
  const auto factor = config::parse_real(options.recorded.cut_short);
  if (!factor || *factor <= 1)
    return fault(FaultKind::invalid_input,
                 fmt::format("--cut-short {}: expected a factor above 1, or off",
                             options.recorded.cut_short));
  return *factor;
}

Result<SearchSettings> search_of(const Options& options) {
  SearchSettings search;
  const auto policy = std::find(search_policy_words.begin(), search_policy_words.end(),
                                options.recorded.policy);
  if (policy == search_policy_words.end()) {
    return fault(FaultKind::invalid_input,
                 fmt::format("--policy {}: unknown policy; the policies are {}",
                             options.recorded.policy, fmt::join(search_policy_words, ", ")));
  }
  search.policy = static_cast<SearchPolicy>(policy - search_policy_words.begin());
  SHARDSWEEP_ASSIGN(search.until, until_from(options.recorded.until));
  search.learn_across = !options.recorded.cells_alone;
  SHARDSWEEP_ASSIGN(search.cut_short, cut_short_of(options, search));
  for (const auto& rule : options.recorded.without_rules) {
    if (rule == "micro_batch") {
      search.rules.micro_batch = false;
    } else if (rule == "grad_accum") {
      search.rules.grad_accum = false;
    } else if (rule == "memory") {
      search.rules.memory = false;
    } else {
      return fault(
          FaultKind::invalid_input,
          fmt::format(
              "--without-rule {}: unknown rule; write micro_batch, grad_accum or memory",
              rule));
    }
  }
  return search;
}

/// How long launches of a replay take, and what it searches.
Result<ReplayOptions> replay_options(const Session& session, const RecordedInput& input) {
  ReplayOptions replay{.cluster = input.cluster, .family = input.family};
  const auto& options = session.options;
  SHARDSWEEP_ASSIGN(replay.search, search_of(options));
  SHARDSWEEP_ASSIGN(replay.start_s, parse_duration(options.recorded.start_cost, "--start"));
  replay.oom_s = replay.start_s;
  if (!options.recorded.oom_cost.empty()) {
    SHARDSWEEP_ASSIGN(replay.oom_s, parse_duration(options.recorded.oom_cost, "--oom-cost"));
  }
  return replay;
}

/// The same search with the time model as the family has it, refitted to the other models'
/// rows, and to all: how much of what is learnt holds for a model that nobody has run.
Result<ExitCode> cross_validate(const Session& session, const RecordedInput& input,
                                ReplayOptions options) {
  std::vector<FittedReplay> replays;
  constexpr std::array<std::pair<const char*, ReplayFit>, 3> fits{
      {{"family", ReplayFit::none},
       {"other_models", ReplayFit::other_models},
       {"all_models", ReplayFit::all_models}}};
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
    return fmt::format(
        "{}: its memory model has no constants fitted to runs; nothing changes\n",
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

std::string import_text(const std::string& name, const Answer& answer, Format format) {
  const auto count = [&](const char* key) {
    const auto found = answer.counts.find(key);
    return found == answer.counts.end() ? std::int64_t{0} : found->second;
  };
  const std::vector<Value> row{name, count("trials"), count("fresh"), count("known"),
                               count("gone")};
  if (format != Format::table)
    return table_text({{"sweep", "trials", "fresh", "known", "gone"}, {row}}, format);
  return fmt::format("'{}': {} trials, {} new, {} known, {} no longer in the table\n", name,
                     count("trials"), count("fresh"), count("known"), count("gone"));
}

/// A name that can stand wherever a sweep is named, of the file's own.
Result<std::string> sweep_name_of(const Options& options) {
  const bool said = !options.recorded.name.empty();
  std::string name =
      said ? options.recorded.name : std::filesystem::path(options.file).stem().string();
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  constexpr std::size_t longest = 64;
  const bool good = !name.empty() && name.size() <= longest &&
                    std::isalnum(static_cast<unsigned char>(name.front())) != 0 &&
                    std::all_of(name.begin(), name.end(), plain);
  if (good) return name;
  return fault(
      FaultKind::invalid_input,
      fmt::format("{} '{}': a sweep's name has letters, digits and '._-', begins with "
                  "a letter or digit, and has at most 64 characters{}",
                  said ? "--name" : "the file's name", name, said ? "" : ": give --name"));
}

}  // namespace

Result<ExitCode> command_import(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto name, sweep_name_of(session.options));
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session, FamilyNeed::may_be_unknown));
  if (input.sweep.runs.empty()) {
    return fault(FaultKind::invalid_input,
                 fmt::format("{}: no row{}", session.options.file,
                             session.options.where.empty() ? "" : " matches --where"));
  }
  const auto imported = imported_trials(input.sweep, {.name = name,
                                                      .cluster = input.cluster,
                                                      .family = input.family,
                                                      .labels = label_names(input.sweep)});
  SHARDSWEEP_TRY(make_home(session.home));
  const auto inbox = session.home.inbox() / (random_hex(16) + ".db");
  SHARDSWEEP_TRY(write_imported(inbox, imported));
  SHARDSWEEP_ASSIGN(const Answer answer,
                    ask_writer(session, {.verb = Verb::submit, .inbox = inbox.string()}));
  SHARDSWEEP_TRY(print_result(import_text(name, answer, session.options.format)));
  return ExitCode::done;
}

Result<ExitCode> command_replay(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session));
  SHARDSWEEP_ASSIGN(const auto options, replay_options(session, input));
  if (session.options.recorded.cross_validate) return cross_validate(session, input, options);
  SHARDSWEEP_ASSIGN(const auto report, replay(input.sweep, options));
  const auto style = table_style(session);
  SHARDSWEEP_TRY(print_result(session.options.plan.explain ? replay_story_text(report, style)
                                                           : replay_text(report, style)));
  if (session.options.format == Format::table) say(replay_summary(report));
  return ExitCode::done;
}

Result<ExitCode> command_evaluate_memory(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session));
  const auto& options = session.options;
  const auto report = options.recorded.cross_validate
                          ? cross_validate_memory(input.sweep, input.cluster, *input.family)
                          : score_memory(input.sweep, input.cluster, *input.family);
  SHARDSWEEP_TRY(print_result(memory_report_text(report, table_style(session))));
  if (options.recorded.cross_validate) say(fitted_constants_text(input));
  return ExitCode::done;
}

}  // namespace shardsweep
