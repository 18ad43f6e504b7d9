// SPDX-License-Identifier: Apache-2.0
// pause, resume, cancel, rerun.
#include "cli/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {

Result<ExitCode> command_control(const Session& session) {
  const Options& options = session.options;
  Request request;
  const auto* word = std::find(verb_words.begin(), verb_words.end(), options.command);
  request.verb = static_cast<Verb>(word - verb_words.begin());
  const bool choosing = request.verb == Verb::cancel || request.verb == Verb::rerun;
  if (choosing && options.names.empty() && options.where.empty()) {
    return fault(
        FaultKind::invalid_input,
        fmt::format("{} what? Name sweeps or trials, or give --where", options.command));
  }
  // No database yet: nothing can be meant, and none is to be made.
  SHARDSWEEP_TRY(Reader::open(session.home.database));
  request.names = options.names;
  request.where = options.where;
  SHARDSWEEP_ASSIGN(const Answer answer, ask_daemon(session, std::move(request)));
  say(answer.text);
  return ExitCode::done;
}

}  // namespace shardsweep
