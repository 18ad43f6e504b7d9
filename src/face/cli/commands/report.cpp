// SPDX-License-Identifier: Apache-2.0
// report: all that was found as one page, once or again and again while sweeps run.
#include "cli/command.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/terminal.hpp"
#include "report/report_page.hpp"
#include "show/exit_code.hpp"
#include "show/pivot.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/attempt_files.hpp>
#include <shardsweep/copied.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

/// Options that report alone has.
struct ReportOptions {
  std::string note;       ///< text at the top of the page
  bool live = false;      ///< written again while its sweeps run
  bool readable = false;  ///< lets other users read the page
  std::string every = "60s";
  std::string price;  ///< price of a GPU-hour
};

/// Sweep files that earlier versions have stored with the values of secrets.
void hide_secrets(const Session& session, std::vector<ReportedSweep>& sweeps) {
  for (ReportedSweep& one : sweeps) {
    // The text of an imported table is no sweep file, and has no environment.
    const auto sweep =
        load_sweep_text(one.resolved, "resolved", {session.installation.presets, {}});
    if (sweep && !sweep->secrets.empty()) one.resolved = explain_sweep(*sweep);
  }
}

/// The last lines of the first rank's log; empty if there is none any more.
std::string log_tail(const std::filesystem::path& dir) {
  constexpr std::uint64_t lines = 12;
  constexpr std::size_t most_bytes = 1500;
  const auto files = list_attempt_files({dir});
  if (!files) return {};
  std::string tail;
  for (const auto& file : *files) {
    if (!rank_of_log(file.name) || file.size == 0) continue;
    const auto reader = AttemptFileReader::open(file);
    if (!reader) continue;
    const auto from = begin_of_last_lines(*reader, lines);
    const auto size = reader->size();
    if (!from || !size) continue;
    const auto last = std::max(*from, *size > most_bytes ? *size - most_bytes : 0);
    const auto text = reader->read(last, most_bytes);
    if (text && !text->empty()) return fmt::format("{}:\n{}", file.name, *text);
  }
  return tail;
}

/// Ends of the logs of trials that failed, as many as keep the page small.
std::map<std::string, std::string> log_tails_of(const Home& home, const ReportFacts& facts) {
  constexpr std::size_t most_tails = 200;
  std::map<std::string, std::string> tails;
  for (const auto& trial : facts.trials) {
    if (tails.size() == most_tails) break;
    const bool failed =
        !trial.outcome.empty() && trial.outcome != "completed" && trial.outcome != "skipped";
    if (!failed || trial.files.empty()) continue;
    auto tail = log_tail(folder_here(home, trial.files));
    if (!tail.empty()) tails.emplace(trial.sweep + "/" + trial.trial, std::move(tail));
  }
  return tails;
}

/// Replaces the folders of side runs by the files that their tools have left there.
void list_kept_files(Table& side_runs) {
  each_text(side_runs, "dir", [](Value& value, const std::string& dir) {
    std::vector<std::string> files;
    for (const AttemptFile& file : kept_files_of({dir}))
      files.push_back(fmt::format(
          "{}/{} ({})", file.packed ? file.path.string() : dir, file.name, size_text(file.size)));
    value = fmt::format("{}", fmt::join(files, ", "));
  });
  std::replace(
      side_runs.columns.begin(), side_runs.columns.end(), std::string("dir"), std::string("files"));
}

Result<std::string> make_report(const Session& session, int refresh_s) {
  const Options& options = session.options;
  // The report has the heatmap that `heatmap` shows without options.
  const HeatmapRequest request{.selection = selection_of(options),
      .rows = "model",
      .columns = {},
      .value = "tokens_per_s_per_gpu",
      .aggregate = Aggregate::best,
      .layouts = 0};
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(auto input, page_input(session, *reader, request.selection));
  SHARDSWEEP_ASSIGN(const auto cells, reader->cells(request));
  input.heatmap = pivot(cells, request);
  if (input.facts.trials.empty()) {
    SHARDSWEEP_ASSIGN(const auto why, why_empty(*reader, options));
    return fault(FaultKind::invalid_input, why + " No page was written.");
  }
  hide_secrets(session, input.facts.sweeps);
  find_folders(session.home, input.facts.side_runs);
  list_kept_files(input.facts.side_runs);
  input.log_tails = log_tails_of(session.home, input.facts);
  const auto& own = options.of<ReportOptions>();
  input.warning = own.note;
  if (!own.price.empty()) {
    input.price = price_from(own.price);
    if (!input.price)
      return fault(FaultKind::invalid_input,
          "--price is the price of a GPU-hour, such as 2.50 or '2.50 EUR', and not '{}'.",
          own.price);
  }
  input.refresh_s = refresh_s;
  return report_page(input);
}

/// Tells if trials are still to end and a daemon works on them, as a follower sees it.
Result<bool> goes_on(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto sweeps, reader->status(session.options.names));
  const bool open = std::any_of(sweeps.begin(), sweeps.end(), [](const SweepStatus& sweep) {
    return !is_over(sweep) &&
        (sweep.state == "active" || count_of(sweep.by_state, name(State::running)) > 0 ||
            count_of(sweep.by_state, name(State::queued)) > 0);
  });
  return open && daemon_runs(session);
}

/// Waits until the next page is due, which is at once if the sweeps have ended.
Result<void> wait_for_next(const Session& session, double every_s) {
  constexpr auto look_every = std::chrono::seconds(1);
  constexpr auto step = std::chrono::milliseconds(100);  // how soon Ctrl-C is noticed
  const auto until = session.clock.steady() + std::chrono::duration<double>(every_s);
  auto look_at = session.clock.steady() + look_every;
  while (!InterruptGuard::seen() && session.clock.steady() < until) {
    std::this_thread::sleep_for(step);
    if (session.clock.steady() < look_at) continue;
    look_at += look_every;
    SHARDSWEEP_ASSIGN(const bool on, goes_on(session));
    if (!on) break;
  }
  return {};
}

/// Host names, paths and the ends of logs stand in a page.
Readers readers_of(const Session& session) {
  return session.options.of<ReportOptions>().readable ? Readers::all : Readers::owner;
}

/// Each page takes the place of the one before as a whole; the last one asks for no other.
Result<ExitCode> live_report(const Session& session) {
  const auto& file = session.options.out;
  if (file.empty())
    return fault(FaultKind::invalid_input, "--live writes a file again. Name it with -o FILE.");
  SHARDSWEEP_ASSIGN(
      const double every_s, parse_duration(session.options.of<ReportOptions>().every, "--every"));
  if (every_s < 1) return fault(FaultKind::invalid_input, "--every is a time of 1 s or more.");
  const InterruptGuard interrupts;
  for (bool first = true;; first = false) {
    SHARDSWEEP_ASSIGN(const bool on, goes_on(session));
    const bool last = !on || InterruptGuard::seen();
    SHARDSWEEP_ASSIGN(
        const auto page, make_report(session, last ? 0 : std::max(1, static_cast<int>(every_s))));
    SHARDSWEEP_TRY(write_file_durably(file, page, readers_of(session)));
    if (last) {
      say(on ? fmt::format("Wrote {}. The sweeps go on.", file)
             : fmt::format("Wrote {}. Nothing runs any more.", file));
      return on ? ExitCode::interrupted : ExitCode::done;
    }
    if (first)
      say("Writing {} every {}. Ctrl-C ends the writing, not the sweeps.", file,
          duration_text(every_s));
    SHARDSWEEP_TRY(wait_for_next(session, every_s));
  }
}

Result<ExitCode> run_report(const Session& session) {
  const auto ending = std::filesystem::path(session.options.out).extension().string();
  if (!ending.empty() && ending != ".html" && ending != ".htm") {
    return fault(FaultKind::invalid_input,
        "'{}': unknown file ending. A report is one page: use .html.", session.options.out);
  }
  if (session.options.of<ReportOptions>().live) return live_report(session);
  SHARDSWEEP_ASSIGN(const auto page, make_report(session, 0));
  return deliver(page, session.options.out, readers_of(session));
}

}  // namespace

Result<std::string> report_html(const Session& session) {
  Session plain = session;
  plain.options.own = ReportOptions();
  return make_report(plain, 0);
}

extern const Command command_report{.name = "report",
    .heading = Heading::results,
    .help = "Write all that was found as one page (HTML).",
    .examples =
        "shardsweep report my-sweep -o my-sweep.html\n"
        "shardsweep report --live --every 10s -o now.html",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<ReportOptions>();
          grammar.selection();
          grammar.versions();
          grammar.output();
          grammar.option("--note", own.note, "TEXT",
              "Sentence at the top of the page, such as where its data comes from.");
          grammar.option("--price", own.price, "AMOUNT",
              "Price of a GPU-hour, such as 2.50 or '2.50 EUR': the page says what the sweep has "
              "cost.");
          grammar.flag(
              "--readable", own.readable, "Others may read the file too (mode 0644, not 0600).");
          grammar.flag("--live", own.live,
              "Write the file again and again until the sweeps have ended, or Ctrl-C.");
          grammar.option(
              "--every", own.every, "DURATION", "Time between two writes of --live: 10s, 5min.");
        },
    .run = run_report,
    .last_sweep = true};

}  // namespace shardsweep
