// SPDX-License-Identifier: Apache-2.0
// submit, run: a sweep file to the daemon, without and with following it.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "show/next_steps.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace shardsweep {
namespace {

Result<ExitCode> run_submit(const Session& session) {
  std::string sweep;
  SHARDSWEEP_ASSIGN(const Answer answer, submit_file(session, sweep));
  if (session.options.format == Format::json) {
    std::string json = fmt::format("{{\"sweep\":\"{}\"", sweep);
    for (const auto& [key, count] : answer.counts) {
      if (key != "sweep") json += fmt::format(",\"{}\":{}", key, count);
    }
    SHARDSWEEP_TRY(print_result(json + "}\n"));
  } else {
    say(answer.text);
  }
  return ExitCode::done;
}

/// True if the database has no sweep yet.
bool is_first_sweep(const Session& session) {
  const auto reader = Reader::open(session.home.database);
  std::error_code ignored;
  if (!reader) return !std::filesystem::exists(session.home.database, ignored);
  const auto sweeps = (*reader)->sweeps();
  return sweeps && sweeps->empty();
}

Result<ExitCode> run_run(const Session& session) {
  const bool first = is_first_sweep(session);
  std::string sweep;
  SHARDSWEEP_ASSIGN(const Answer answer, submit_file(session, sweep));
  say(answer.text);
  SHARDSWEEP_ASSIGN(const ExitCode code, follow_sweeps(session, {sweep}, FollowFrom::submission));
  if (!first || code == ExitCode::interrupted) return code;
  // Shown after the first sweep of a database.
  if (const auto reader = Reader::open(session.home.database)) {
    const auto status = (*reader)->status({sweep});
    if (status && !status->empty())
      say(next_steps(*status,
          {.width = terminal_of(STDERR_FILENO).width,
              .daemon_runs = daemon_runs(session),
              .answer_was_told = true}));
  }
  return code;
}

}  // namespace

extern const Command command_submit{.name = "submit",
    .heading = Heading::daily,
    .help = "Submit a sweep; an edited file runs only its new points.",
    .examples =
        "shardsweep submit sweep.yaml\n"
        "shardsweep submit sweep.yaml --set axes.tp=2,4\n"
        "shardsweep submit sweep.yaml --backend outside",
    .declare =
        [](Grammar& grammar) {
          grammar.sweep_file();
          grammar.backend({word_of(Backend::outside).data()});
          grammar.format();
        },
    .run = run_submit};

extern const Command command_run{.name = "run",
    .heading = Heading::daily,
    .help = "Submit a sweep and follow it to its end.",
    .examples = "shardsweep run sweep.yaml",
    .declare =
        [](Grammar& grammar) {
          grammar.sweep_file();
          grammar.backend();
        },
    .run = run_run};

}  // namespace shardsweep
