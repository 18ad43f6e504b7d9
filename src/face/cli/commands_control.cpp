// SPDX-License-Identifier: Apache-2.0
// pause, resume, cancel, rerun, delete.
#include "cli/session.hpp"
#include "fleet/verbs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

using namespace std::chrono_literals;

constexpr auto look_again = 100ms;
constexpr auto longest_end =
    15s;  // a lead hands its allocation back and its job leaves the queue

/// All trials have ended, and a job of theirs has not yet.
bool is_ending(const Meant& meant) {
  const auto& trials = meant.selected.trials;
  return std::all_of(trials.begin(), trials.end(),
                     [](const TrialRow& trial) { return trial.state == State::ended; }) &&
         std::any_of(meant.contents.begin(), meant.contents.end(),
                     [](const auto& one) { return one.second.live > 0; });
}

/// What the verb would be decided over. A deletion waits for jobs that are about to end.
Result<Meant> read_meant(const Session& session, Reader& reader, const Request& request) {
  const auto begin = session.clock.steady();
  for (bool said = false;; said = true) {
    SHARDSWEEP_ASSIGN(Meant meant, reader.meant(request.names, trials_meant(request)));
    const bool waits = request.verb == Verb::remove && !request.dry_run && is_ending(meant);
    if (!waits || session.clock.steady() - begin > longest_end) return meant;
    if (!said) say("Its trials have ended. Waiting for its last job to end.");
    std::this_thread::sleep_for(look_again);
  }
}

}  // namespace

Result<ExitCode> command_control(const Session& session) {
  const Options& options = session.options;
  Request request;
  request.verb = from_word<Verb>(options.command).value_or(request.verb);
  request.names = options.names;
  request.where = options.where;
  request.all = options.every_sweep;
  request.cancelled = options.cancelled;
  request.dry_run = options.dry_run;
  SHARDSWEEP_TRY(check_scope(request));
  // What would change can be read. A dry run, and a verb that changes nothing, need no daemon,
  // which would run what waits.
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const Meant meant, read_meant(session, *reader, request));
  SHARDSWEEP_ASSIGN(const Steps steps, steps_of(request, meant));
  if (request.dry_run || steps.empty()) {
    say(steps.text);
    return ExitCode::done;
  }
  SHARDSWEEP_ASSIGN(const Answer answer, ask_daemon(session, std::move(request)));
  say(answer.text);
  return ExitCode::done;
}

}  // namespace shardsweep
