// SPDX-License-Identifier: Apache-2.0
// pause, resume, cancel, rerun, delete.
#include "cli/session.hpp"
#include "fleet/verbs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {

Result<ExitCode> command_control(const Session& session) {
  const Options& options = session.options;
  Request request;
  const auto* word = std::find(verb_words.begin(), verb_words.end(), options.command);
  request.verb = static_cast<Verb>(word - verb_words.begin());
  request.names = options.names;
  request.where = options.where;
  request.all = options.every_sweep;
  request.cancelled = options.cancelled;
  request.dry_run = options.dry_run;
  SHARDSWEEP_TRY(check_scope(request));
  // No database yet: nothing can be meant, and none is to be made.
  SHARDSWEEP_TRY(Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const Answer answer, ask_daemon(session, std::move(request)));
  say(answer.text);
  return ExitCode::done;
}

}  // namespace shardsweep
