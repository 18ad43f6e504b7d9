// SPDX-License-Identifier: Apache-2.0
// pause, resume, cancel, rerun, delete: the verbs that change what is to run. One function
// does all of them, since fleet/verbs.hpp decides what a verb means for each trial, here for
// a dry run as in the daemon for the change itself. So a dry run cannot promise anything
// else.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/passing.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "fleet/verbs.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

struct ControlOptions {
  bool every_sweep = false;  ///< --all: in place of names
  bool cancelled = false;    ///< resume: also what was cancelled by name
  bool dry_run = false;
};

using namespace std::chrono_literals;

constexpr auto look_again = 100ms;
constexpr auto longest_end = 15s;  // a lead hands its allocation back and its job leaves the queue

/// All trials have ended, and a job of theirs has not yet.
bool is_ending(const VerbScope& meant) {
  const auto& trials = meant.selected.trials;
  return std::all_of(trials.begin(), trials.end(),
             [](const TrialRow& trial) { return trial.state == State::ended; }) &&
      std::any_of(meant.contents.begin(), meant.contents.end(),
          [](const auto& one) { return one.second.live > 0; });
}

/// Reads what the verb would be decided over. A deletion waits for jobs that are about to end.
Result<VerbScope> read_meant(const Session& session, Reader& reader, const Request& request) {
  const auto begin = session.clock.steady();
  for (bool said = false;; said = true) {
    SHARDSWEEP_ASSIGN(VerbScope meant, reader.meant(request.names, trials_meant(request)));
    const bool waits = request.verb == Verb::remove && !request.dry_run && is_ending(meant);
    if (!waits || session.clock.steady() - begin > longest_end) return meant;
    if (!said) say("Its trials have ended. Waiting for its last job to end.");
    std::this_thread::sleep_for(look_again);
  }
}

/// A deletion goes in pieces; what else a verb does is done at once.
RequestExtent expected_of(const Request& request, const VerbScope& meant) {
  if (request.verb != Verb::remove || meant.contents.size() != 1) return {};
  const auto& [id, all] = *meant.contents.begin();
  const auto row = meant.sweeps.find(id);
  if (row == meant.sweeps.end()) return {};
  return {.sweep = row->second.name, .trials = all.trials, .go = true};
}

/// Sentences for people; for programs also the numbers of changes, as one row.
Result<ExitCode> tell(const Session& session, const std::string& text,
    const std::map<std::string, std::int64_t>& counts) {
  say(text);
  if (session.options.format == Format::table) return ExitCode::done;
  Table table;
  auto& row = table.rows.emplace_back();
  for (const auto& [what, count] : counts) {
    table.columns.push_back(what);
    row.emplace_back(count);
  }
  return print_table(table, table_style(session, {}));
}

Result<ExitCode> run_verb(const Session& session, Verb verb) {
  const Options& options = session.options;
  const auto& own = options.of<ControlOptions>();
  Request request;
  request.verb = verb;
  request.names = options.names;
  request.where = options.where;
  request.all = own.every_sweep;
  request.cancelled = own.cancelled;
  request.dry_run = own.dry_run;
  SHARDSWEEP_TRY(check_scope(request));
  // The database tells what would change. A dry run, and a verb that changes nothing, need no
  // daemon, which would run what waits.
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const VerbScope meant, read_meant(session, *reader, request));
  SHARDSWEEP_ASSIGN(const Steps steps, steps_of(request, meant));
  if (request.dry_run || steps.empty()) {
    return tell(session, steps.text, steps.counts);
  }
  if (request.verb == Verb::resume || request.verb == Verb::rerun)
    SHARDSWEEP_TRY(renew_secrets(session, *reader, meant, steps));
  const RequestExtent expected = expected_of(request, meant);
  SHARDSWEEP_ASSIGN(const Answer answer, ask_daemon(session, std::move(request), expected));
  return tell(session, answer.text, answer.counts);
}

template <Verb verb>
Result<ExitCode> run_control(const Session& session) {
  return run_verb(session, verb);
}

void with_dry_run(Grammar& grammar, ControlOptions& own) {
  grammar.flag("--dry-run", own.dry_run, "Say what would happen, and change nothing.");
}

void with_scope(Grammar& grammar, ControlOptions& own) {
  // A shell variable that is empty must not mean everything.
  grammar.where().check([](const std::string& text) {
    const bool blank = text.find_first_not_of(" \t\n\r") == std::string::npos;
    return blank ? std::string("is blank. Write an expression, or leave --where out") : "";
  });
  grammar.flag("--all", own.every_sweep, "Every sweep of the database, in place of names.");
  with_dry_run(grammar, own);
}

/// Declares the options of cancel and rerun.
void declare_trials(Grammar& grammar) {
  grammar.names("Sweeps or trials.");
  grammar.format();
  with_scope(grammar, grammar.own<ControlOptions>());
}

}  // namespace

extern const Command command_pause{.name = "pause",
    .heading = Heading::daily,
    .help = "Start nothing more; running trials end by themselves.",
    .examples = "shardsweep pause my-sweep",
    .declare =
        [](Grammar& grammar) {
          grammar.names("Sweeps. Default: all.");
          grammar.format();
          with_dry_run(grammar, grammar.own<ControlOptions>());
        },
    .run = run_control<Verb::pause>};

extern const Command command_resume{.name = "resume",
    .heading = Heading::daily,
    .help = "Continue, and try interrupted trials again.",
    .examples =
        "shardsweep resume my-sweep\n"
        "shardsweep resume my-sweep --cancelled",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<ControlOptions>();
          grammar.names("Sweeps or trials. Default: all sweeps that are not cancelled.");
          grammar.format();
          with_scope(grammar, own);
          grammar.flag("--cancelled", own.cancelled,
              "Also resume trials that were cancelled by name or by --where.");
        },
    .run = run_control<Verb::resume>};

extern const Command command_cancel{.name = "cancel",
    .heading = Heading::daily,
    .help = "Cancel sweeps or trials; ended trials stay as they are.",
    .examples =
        "shardsweep cancel my-sweep --dry-run\n"
        "shardsweep cancel my-sweep --where 'tp = 8'",
    .declare = declare_trials,
    .run = run_control<Verb::cancel>};

extern const Command command_rerun{.name = "rerun",
    .heading = Heading::daily,
    .help = "Measure ended trials again; old results stay until then.",
    .examples = "shardsweep rerun my-sweep --where \"outcome = 'crashed'\"",
    .declare = declare_trials,
    .run = run_control<Verb::rerun>};

extern const Command command_delete{.name = "delete",
    .heading = Heading::daily,
    .help = "Delete sweeps that have ended: trials, measurements and files.",
    .examples = "shardsweep delete my-sweep --dry-run",
    .declare =
        [](Grammar& grammar) {
          grammar.names("Sweeps.");
          grammar.format();
          with_dry_run(grammar, grammar.own<ControlOptions>());
        },
    .run = run_control<Verb::remove>};

}  // namespace shardsweep
