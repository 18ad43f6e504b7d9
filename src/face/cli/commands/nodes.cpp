// SPDX-License-Identifier: Apache-2.0
// nodes: what is known of the nodes that have run something.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"

#include <shardsweep/results.hpp>

#include <string>

namespace shardsweep {
namespace {

struct NodesOptions {
  std::string clear;  ///< the node to be trusted again
};

Result<ExitCode> run_nodes(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  if (!session.options.of<NodesOptions>().clear.empty()) {
    SHARDSWEEP_ASSIGN(const Answer answer,
        ask_daemon(session,
            {.verb = Verb::clear_node, .names = {session.options.of<NodesOptions>().clear}}));
    say(answer.text);
    return ExitCode::done;
  }
  SHARDSWEEP_ASSIGN(const Table table, reader->list(Listing::node_ledger));
  return print_table(table,
      table_style(session,
          {"node", "state", "reason", "attempts", "evidence", "completed", "last_evidence",
              "node_failure", "comm_error", "hung", "crashed", "since", "probe_at", "slow",
              "slow_in"}));
}

}  // namespace

extern const Command command_nodes{.name = "nodes",
    .help = "Show the nodes that have run something, and their state.",
    .examples =
        "shardsweep nodes\n"
        "shardsweep nodes --clear node017",
    .declare =
        [](Grammar& grammar) {
          grammar.format();
          grammar.option(
              "--clear", grammar.own<NodesOptions>().clear, "NODE", "Trust this node again.");
        },
    .run = run_nodes};

}  // namespace shardsweep
