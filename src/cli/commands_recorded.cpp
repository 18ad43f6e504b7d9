// SPDX-License-Identifier: Apache-2.0
// replay: a recorded sweep as the cluster; evaluate-memory: against what it reports.
#include "cli/memory_view.hpp"
#include "cli/recorded_input.hpp"
#include "cli/replay_view.hpp"
#include "domain/search/replay.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

Result<SearchSettings> search_of(const Options& options) {
  SearchSettings search;
  const auto policy =
      std::find(search_policy_words.begin(), search_policy_words.end(), options.policy);
  if (policy == search_policy_words.end()) {
    return fault(FaultKind::invalid_input,
                 fmt::format("--policy {}: there are {}", options.policy,
                             fmt::join(search_policy_words, ", ")));
  }
  search.policy = static_cast<SearchPolicy>(policy - search_policy_words.begin());
  SHARDSWEEP_ASSIGN(search.until, until_from(options.until));
  search.learn_across = options.learn_across;
  for (const auto& rule : options.without_rules) {
    if (rule == "micro_batch") {
      search.rules.micro_batch = false;
    } else if (rule == "grad_accum") {
      search.rules.grad_accum = false;
    } else {
      return fault(FaultKind::invalid_input,
                   fmt::format("--without-rule {}: there are micro_batch, grad_accum", rule));
    }
  }
  return search;
}

}  // namespace

Result<ExitCode> command_replay(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto search, search_of(session.options));
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session));
  SHARDSWEEP_ASSIGN(const auto report, replay(input.sweep, {.cluster = input.cluster,
                                                            .family = input.family,
                                                            .search = search}));
  SHARDSWEEP_TRY(print_result(replay_text(report, session.options.format)));
  if (session.options.format == Format::table) say(replay_summary(report));
  return ExitCode::done;
}

Result<ExitCode> command_evaluate_memory(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto input, read_recorded_input(session));
  const auto report = score_memory(input.sweep, input.cluster, *input.family);
  SHARDSWEEP_TRY(print_result(memory_report_text(report, session.options.format)));
  return ExitCode::done;
}

}  // namespace shardsweep
