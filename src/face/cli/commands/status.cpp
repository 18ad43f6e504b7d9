// SPDX-License-Identifier: Apache-2.0
// status: what a look at the database finds, once or again and again; follow: until it ends.
// Both only read, so they work beside a daemon, without one, and on a full disk. The exit
// code is the verdict over the sweeps (show/exit_code.hpp), for scripts that wait.
#include "cli/command.hpp"
#include "cli/commands/disk_use.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "show/cell_text.hpp"
#include "show/column.hpp"
#include "show/live_view.hpp"
#include "show/next_steps.hpp"
#include "show/status_view.hpp"

#include <shardsweep/backends.hpp>
#include <shardsweep/requests.hpp>
#include <shardsweep/trouble.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

struct StatusOptions {
  bool watch = false;
  bool next = false;
};

using namespace std::chrono_literals;

constexpr auto watch_every = 1s;
constexpr auto watch_step = 100ms;  // how soon Ctrl-C and a new width are noticed
constexpr std::size_t no_limit = 1'000'000;

/// Facts from one look at the database and its daemon.
struct StatusLook {
  std::vector<SweepStatus> sweeps;
  std::vector<CellBest> best;            ///< best layouts of the one sweep that was named
  std::vector<AllocationProgress> jobs;  ///< jobs of that sweep, if its status is watched
  std::vector<Trouble> trouble;
  /// Sweeps that were named, or else the current ones: notes and exit code speak of them.
  std::vector<SweepStatus> current;
  std::string daemon;  ///< sentence that says who works, or that nobody does
  bool daemon_runs = false;
  bool one = false;  ///< one sweep was named
};

/// Sentences about the trouble of one sweep, and of all of them.
std::string trouble_of(const std::vector<Trouble>& all, const std::string& sweep) {
  std::string sentences;
  for (const Trouble& one : all) {
    if (!concerns(one, sweep)) continue;
    sentences += (sentences.empty() ? "" : " ") + text(one);
  }
  return sentences;
}

/// Columns for programs: a row per sweep, the same columns whatever happened.
View<SweepStatus> status_view(const StatusLook& look) {
  using Sweep = const SweepStatus&;
  View<SweepStatus> view{{"sweep", [](Sweep one) { return one.name; }},
      {"state",
          [](Sweep one) {
            const bool done = one.state == "active" && state_text(one) == "done";
            return done ? "done" : one.state;
          }},
      {"trials", [](Sweep one) { return one.trials; }}};
  for (const State state : {State::planned, State::queued, State::running, State::ended})
    view.push_back({std::string(name(state)),
        [state](Sweep one) { return count_of(one.by_state, name(state)); }});
  for (const OutcomeInfo& row : outcome_table)
    view.push_back(
        {std::string(row.name), [&row](Sweep one) { return count_of(one.by_outcome, row.name); }});
  const View<SweepStatus> rest{{"undecided", [](Sweep one) { return one.undecided; }},
      {"left_out", [](Sweep one) { return one.left_out; }},
      {"remaining_s", [](Sweep one) { return one.remaining_s; }},
      {"measured_over_predicted", [](Sweep one) { return one.measured_over_predicted; }},
      {"running_trial", [](Sweep one) { return one.running; }},
      {"removed_running", [](Sweep one) { return one.removed_running; }},
      {"waiting", [](Sweep one) { return one.waiting; }},
      {"skipped_by", [](Sweep one) { return one.spared.empty() ? "" : one.spared.front().first; }},
      {"trouble", [&look](Sweep one) { return trouble_of(look.trouble, one.name); }},
      {"submitted_at", [](Sweep one) { return one.submitted_at; }},
      {"last_event_at", [](Sweep one) { return one.last_event_at; }},
      {"remeasure_at", [](Sweep one) { return one.remeasure_at; }}};
  view.insert(view.end(), rest.begin(), rest.end());
  return view;
}

/// The sweeps that somebody has to go on with.
std::vector<std::string> unattended(const std::vector<SweepStatus>& sweeps) {
  std::vector<std::string> names;
  for (const SweepStatus& sweep : sweeps) {
    if (standing_of(sweep, false) == Standing::unattended) names.push_back(sweep.name);
  }
  return names;
}

/// `copied`: the database is a copy, in which `resume` is refused.
std::string daemon_text(
    const Session& session, Reader& reader, const std::vector<SweepStatus>& sweeps, bool copied) {
  if (!daemon_runs(session)) {
    // The commands that asked have ended, too: else they would have started a daemon.
    const auto requests = pending_requests(session.home);
    if (requests && !requests->empty())
      return fmt::format(
          "No daemon is running, and {} for one; `shardsweep daemon --until-idle` serves what "
          "waits.",
          requests->size() == 1 ? "a request waits"
                                : fmt::format("{} requests wait", requests->size()));
    const auto open = unattended(sweeps);
    if (open.empty()) return "No daemon is running, and no sweep needs one.";
    if (copied) return "No daemon is running.";
    return fmt::format(
        "No daemon is running; `shardsweep resume {}` continues.", fmt::join(open, " "));
  }
  const auto holder = reader.lease_holder();
  if (!holder || !*holder) return "A daemon is running.";
  return fmt::format(
      "daemon: pid {} on {}, log {}", (*holder)->pid, (*holder)->host, session.home.log().string());
}

Result<StatusLook> look_at(const Session& session) {
  StatusLook look;
  // A full disk is told of even if the database can't be read.
  look.trouble = troubles(session.home);
  const auto copy = copy_of_another(session);
  if (copy) look.trouble.push_back({.kind = TroubleKind::copied, .detail = *copy});
  if (session.options.format == Format::table && !session.options.of<StatusOptions>().watch) {
    for (const Trouble& one : look.trouble)
      say(text(one));
  }
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(look.sweeps, reader->status(session.options.names));
  look.current = session.options.names.empty() ? current_of(look.sweeps) : look.sweeps;
  look.one = session.options.names.size() == 1 && look.sweeps.size() == 1;
  if (look.one) {
    SHARDSWEEP_ASSIGN(look.best, reader->best_of_cells({look.sweeps.front().id}));
    if (session.options.of<StatusOptions>().watch)
      SHARDSWEEP_SET(look.jobs, reader->allocations({look.sweeps.front().id}));
  }
  look.daemon = daemon_text(session, *reader, look.sweeps, copy.has_value());
  look.daemon_runs = daemon_runs(session);
  return look;
}

std::vector<StyledLine> lines_of(
    const Session& session, const StatusLook& look, const ViewSize& size) {
  if (look.one) return status_lines(look.sweeps.front(), look.best, session.clock.now(), size);
  return status_table_lines(look.sweeps, size);
}

/// A date to come, and whether anybody will keep it: a daemon that was started for work ends
/// with the work.
std::string remeasure_text(const SweepStatus& sweep, bool daemon_runs) {
  return fmt::format("{}: its best layouts are measured again at {}; {}", sweep.name,
      local_time_text(sweep.remeasure_at),
      daemon_runs ? "the daemon does that if it still runs then."
                  : "no daemon runs to do that: keep one (`shardsweep daemon`), or run `shardsweep "
                    "tick` from cron.");
}

/// Sentences, which would be wider than the table. Of one sweep they stand among its lines.
std::vector<std::string> sentences_of(const StatusLook& look) {
  std::vector<std::string> sentences{look.daemon};
  for (const SweepStatus& sweep : look.sweeps) {
    if (sweep.remeasure_at != 0 && is_over(sweep))
      sentences.push_back(remeasure_text(sweep, look.daemon_runs));
  }
  for (const SweepStatus& sweep : look.sweeps) {
    if (!sweep.regressions.empty()) sentences.push_back(regressions_text(sweep.regressions));
  }
  if (look.one) return sentences;
  for (const SweepStatus& sweep : look.current) {
    if (const auto why = why_it_waits(sweep); !why.empty())
      sentences.push_back(fmt::format("{}: {}", sweep.name, why));
    for (const auto& [bound, trials] : sweep.spared)
      sentences.push_back(fmt::format("{}: {} skipped: {}", sweep.name, trials, bound));
  }
  return sentences;
}

/// Adds the disk space that each sweep's attempts use.
std::string disk_text(const Session& session, const std::vector<SweepStatus>& sweeps) {
  const auto uses = disk_use(session.home);
  if (!uses)
    return fmt::format("The disk space that attempts use is unknown: {} can't be read.\n",
        session.home.attempts().string());
  const auto use_of = [&](const SweepStatus& one) {
    const auto found = uses->find(one.id);
    return found == uses->end() ? DiskUse() : found->second;
  };
  using Sweep = const SweepStatus&;
  const View<SweepStatus> view{{"sweep", [](Sweep one) { return one.name; }},
      {"files and folders", [&](Sweep one) { return use_of(one).entries; }},
      {"size_bytes", [&](Sweep one) { return static_cast<std::int64_t>(use_of(one).bytes); }}};
  return view_text(view, sweeps, table_style(session, {"sweep"}));
}

Result<ExitCode> print_status(const Session& session, const StatusLook& look) {
  const SweepVerdict verdict = verdict_of(look.current);
  if (session.options.format != Format::table) {
    SHARDSWEEP_TRY(print_result(
        view_text(status_view(look), look.sweeps, {.format = session.options.format})));
    return verdict.code;
  }
  for (const std::string& sentence : sentences_of(look))
    say(sentence);
  const Terminal terminal = terminal_of(STDOUT_FILENO);
  std::string text;
  for (const StyledLine& line :
      lines_of(session, look, {terminal.width.value_or(no_limit), no_limit, terminal.utf8})) {
    text += painted(line, terminal.colour);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  if (session.options.wide) text += "\n" + disk_text(session, look.sweeps);
  SHARDSWEEP_TRY(print_result(text));
  if (!verdict.sentence.empty()) say(verdict.sentence);
  return verdict.code;
}

}  // namespace

Result<StatusParts> status_parts(const Session& asked) {
  // A page has no terminal's size: lines have a fixed width, on a phone they scroll, and none is
  // left out.
  constexpr std::size_t width = 150;
  const ViewSize size{width, no_limit, true};
  Session session = asked;
  session.options.own = StatusOptions{.watch = true};
  SHARDSWEEP_ASSIGN(const StatusLook look, look_at(session));
  StatusParts parts;
  for (const Trouble& one : look.trouble)
    parts.sentences.push_back(text(one));
  for (std::string& sentence : sentences_of(look))
    parts.sentences.push_back(std::move(sentence));
  parts.sweeps = view_table(status_view(look), look.sweeps);
  if (!look.one) return parts;
  parts.lines = lines_of(session, look, size);
  for (StyledLine& line : job_lines(look.jobs, session.clock.now(), size))
    parts.lines.push_back(std::move(line));
  return parts;
}

namespace {

/// Lines of a look that fit the terminal.
std::vector<StyledLine> watch_lines(
    const Session& session, const StatusLook& look, const ViewSize& size) {
  std::vector<StyledLine> lines;
  const auto add = [&](const std::string& sentence, Style style) {
    for (std::string& part : folded(printable(sentence), size.width))
      lines.push_back({{std::move(part), style}});
  };
  add(local_time_text(session.clock.now()) + "  (Ctrl-C ends)", Style::faint);
  for (const Trouble& one : look.trouble)
    add(text(one), Style::bad);
  for (StyledLine& line : lines_of(session, look, size))
    lines.push_back(std::move(line));
  for (StyledLine& line : job_lines(look.jobs, session.clock.now(), size))
    lines.push_back(std::move(line));
  for (const std::string& sentence : sentences_of(look))
    add(sentence, Style::plain);
  if (lines.size() > size.height) {
    lines.resize(size.height);
    lines.back() = {{"\u2026 more than this terminal has lines", Style::faint}};
    if (!size.utf8) lines.back().front().text = "more than this terminal has lines";
  }
  return lines;
}

Result<ExitCode> watch_status(const Session& session) {
  if (session.options.format != Format::table || !can_redraw(stdout)) {
    return fault(FaultKind::invalid_input,
        "--watch redraws a terminal. In a script use `shardsweep follow`, or `status --format "
        "json` in a loop.");
  }
  const InterruptGuard interrupts;
  LiveBlock block(stdout);
  while (!InterruptGuard::seen()) {
    SHARDSWEEP_ASSIGN(const StatusLook look, look_at(session));
    block.draw(watch_lines(session, look, view_size(stdout)));
    const auto until = session.clock.steady() + watch_every;
    while (!InterruptGuard::seen() && session.clock.steady() < until)
      std::this_thread::sleep_for(watch_step);
  }
  return ExitCode::interrupted;
}

/// Refuses what --next would not heed.
Result<void> check_next(const Options& options) {
  if (options.names.empty() && !options.of<StatusOptions>().watch && !options.format_given &&
      !options.wide)
    return {};
  return fault(FaultKind::invalid_input,
      "--next speaks of this machine, in sentences: it takes no names, --watch, --format or "
      "--wide.");
}

/// Slurm is asked only if a newcomer would be told of it.
SlurmHere slurm_here(const Session& session) {
  std::error_code ignored;
  if (stated_backend(session.options, {}) != Backend::slurm ||
      std::filesystem::exists(site_file_of(session), ignored))
    return SlurmHere::none;
  return probe_slurm() ? SlurmHere::answers : SlurmHere::silent;
}

Result<ExitCode> say_what_is_next(const Session& session) {
  SHARDSWEEP_TRY(check_next(session.options));
  std::vector<SweepStatus> sweeps;
  const auto copy = copy_of_another(session);
  std::error_code ignored;
  if (std::filesystem::exists(session.home.database, ignored)) {
    SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
    SHARDSWEEP_ASSIGN(sweeps, reader->status({}));
    if (!sweeps.empty()) say(copy ? *copy : daemon_text(session, *reader, sweeps, false));
  }
  const NextStepsForm form{.width = terminal_of(STDOUT_FILENO).width,
      .only_reading = copy.has_value(),
      .daemon_runs = daemon_runs(session)};
  const std::string text =
      sweeps.empty() ? first_steps(slurm_here(session), form) : next_steps(sweeps, form);
  return deliver(text + "\n'shardsweep help' lists the usual commands.\n");
}

Result<ExitCode> run_status(const Session& session) {
  if (session.options.of<StatusOptions>().next) return say_what_is_next(session);
  if (session.options.of<StatusOptions>().watch) return watch_status(session);
  SHARDSWEEP_ASSIGN(const StatusLook look, look_at(session));
  return print_status(session, look);
}

Result<ExitCode> run_follow(const Session& session) {
  return follow_sweeps(session, session.options.names);
}

}  // namespace

extern const Command command_status{.name = "status",
    .heading = Heading::daily,
    .help = "Show the progress of sweeps, and who runs them.",
    .examples =
        "shardsweep status\n"
        "shardsweep status my-sweep --watch",
    .declare =
        [](Grammar& grammar) {
          grammar.names(
              "Sweeps. Default: all; then the exit code and notes are about those that run, and "
              "the last.");
          grammar.format();
          grammar.flag("--watch", grammar.own<StatusOptions>().watch,
              "Refresh in place every second, until Ctrl-C.");
          grammar.flag("--next", grammar.own<StatusOptions>().next,
              "Say what to do next on this machine, as `shardsweep` without a command does.");
        },
    .run = run_status};

extern const Command command_follow{.name = "follow",
    .heading = Heading::daily,
    .help = "Follow sweeps to their end.",
    .examples = "shardsweep follow my-sweep",
    .declare =
        [](Grammar& grammar) { grammar.names("Sweeps. Default: those that have not ended."); },
    .run = run_follow};

}  // namespace shardsweep
