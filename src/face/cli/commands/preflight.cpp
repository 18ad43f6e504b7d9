// SPDX-License-Identifier: Apache-2.0
// preflight: every check of nodes on so many nodes, in one job and by the way that all trials
// go; a verdict for each node.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "text/node_list.hpp"
#include "text/pieces.hpp"

#include <shardsweep/results.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::string_view preflight_sweep = "preflight";

/// One trial over all nodes, whose allocation is checked first. The first one that ends before
/// its trial has begun is the last: its verdicts are what was asked for.
std::string preflight_text(const OwnCluster& cluster, std::int32_t nodes) {
  return fmt::format(
      "# Made by 'shardsweep preflight'.\n"
      "name: {}\n"
      "cluster: {}\n"
      "constants: {{model: mini, dtype: fp32, seq_len: 32, global_batch_size: {}, micro_batch: 1, "
      "nodes: {}, dp: auto, grad_accum: auto}}\n"
      "measure: {{warmup: 1, steps: 3}}\n"
      "check: {{home: 10s, memory: 0.5, gemm: 0.8, clocks: 0.8, allreduce: 0.5}}\n"
      "control: off\n"
      "retry: {{on_trial: 0, failed_starts: 1, failed_nodes: 1}}\n"
      "limits: {{max_nodes: {}}}\n",
      preflight_sweep, cluster.text, nodes * cluster.slots, nodes, nodes);
}

/// Number of nodes by --nodelist or --nodes, which have to agree.
Result<std::int32_t> nodes_wanted(const Options& options) {
  SHARDSWEEP_ASSIGN(const std::int32_t nodes, asked_nodes(options));
  const std::string& list = options.asked.nodelist;
  if (list.empty()) return nodes;
  const auto named = static_cast<std::int32_t>(nodes_in(list).size());
  if (named > 0 && (options.asked.nodes.empty() || named == nodes)) return named;
  return fault(FaultKind::invalid_input,
      named == 0
          ? fmt::format("--nodelist takes nodes such as n[1-4,7]; got '{}'", list)
          : fmt::format("--nodelist {} names {} nodes, but --nodes says {}", list, named, nodes));
}

struct CheckedNode {
  std::string node;
  std::string verdict;
  std::string not_checked;
};

struct LedgerRow {
  std::string node;
  NodeState state = NodeState::trusted;
};

}  // namespace

SHARDSWEEP_DESCRIBE(CheckedNode, node, verdict, not_checked);
SHARDSWEEP_DESCRIBE(LedgerRow, node, state);

namespace {

/// Slurm would wait for ever for a node that new jobs must not get.
Result<void> refuse_left_out(Reader& reader, const std::string& list) {
  SHARDSWEEP_ASSIGN(const auto ledger, reader.rows<LedgerRow>(Listing::node_ledger));
  const auto asked = nodes_in(list);
  for (const auto& [node, state] : ledger) {
    if (state == NodeState::trusted || std::find(asked.begin(), asked.end(), node) == asked.end())
      continue;
    return fault(FaultKind::invalid_input,
        "node {} is left out of jobs ({}). 'shardsweep nodes' says why, 'shardsweep nodes --clear "
        "{}' lets it back in.",
        node, word_of(state), node);
  }
  return {};
}

Result<std::optional<SweepRow>> sweep_of_preflight(Reader& reader) {
  SHARDSWEEP_ASSIGN(auto sweeps, reader.sweeps());
  for (auto& sweep : sweeps) {
    if (sweep.name == preflight_sweep) return std::move(sweep);
  }
  return std::nullopt;
}

/// The checks of its sweep; of one that is not there, none.
Result<Table> checks_so_far(const Session& session) {
  std::error_code ignored;
  if (!std::filesystem::exists(session.home.database, ignored)) return Table{};
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_TRY(refuse_left_out(*reader, session.options.asked.nodelist));
  SHARDSWEEP_ASSIGN(const auto known, sweep_of_preflight(*reader));
  if (!known) return Table{};
  SHARDSWEEP_ASSIGN(ReportFacts facts, reader->facts({.names = {std::string(preflight_sweep)}}));
  return std::move(facts.checks);
}

/// Table without its first `known` rows, which leaves what the last job has found.
Table without(Table all, std::size_t known) {
  all.rows.erase(all.rows.begin(),
      all.rows.begin() + static_cast<std::ptrdiff_t>(std::min(known, all.rows.size())));
  return all;
}

std::vector<std::string> nodes_with(
    const std::vector<CheckedNode>& checks, std::string_view verdict) {
  std::vector<std::string> names;
  for (const auto& one : checks) {
    if (one.verdict == verdict) names.push_back(one.node);
  }
  return names;
}

/// Checks that could not be judged on some node, with the reason: "clocks (no GPUs); gemm (2.1
/// GFLOP/s, and fewer than 3 nodes …)". Empty: all was judged.
std::string not_judged(const std::vector<CheckedNode>& checks) {
  std::map<std::string, std::string> names;  // checks by the reason
  for (const auto& node : checks) {
    for (const std::string_view one : split(node.not_checked, ';')) {
      const std::size_t colon = one.find(": ");
      if (colon == std::string_view::npos) continue;
      const std::string name(trimmed(one.substr(0, colon)));
      std::string& all = names[std::string(one.substr(colon + 2))];
      if (all.find(name) == std::string::npos) all += (all.empty() ? "" : ", ") + name;
    }
  }
  std::vector<std::string> texts;
  texts.reserve(names.size());
  for (const auto& [why, all] : names)
    texts.push_back(fmt::format("{} ({})", all, why));
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// Cancels what is left of the sweep: it is not wanted any more.
Result<void> end_sweep(const Session& session, Reader& reader) {
  SHARDSWEEP_ASSIGN(const auto open,
      reader.count({.names = {std::string(preflight_sweep)}, .where = "state <> 'ended'"}));
  if (open == 0) return {};
  return ask_daemon(session, {.verb = Verb::cancel, .names = {std::string(preflight_sweep)}})
      .map([](const Answer&) {});
}

/// A node that failed in the one before has paused it.
Result<void> resume_sweep(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto sweep, sweep_of_preflight(*reader));
  if (!sweep || sweep->state == SweepState::active) return {};
  return ask_daemon(session, {.verb = Verb::resume, .names = {std::string(preflight_sweep)}})
      .map([](const Answer&) {});
}

/// Why no node has a verdict, or what the nodes that have passed have made of the trial.
Result<std::string> what_became(Reader& reader) {
  SHARDSWEEP_ASSIGN(
      const auto last, reader.texts(Listing::last_pause, {std::string(preflight_sweep)}));
  return last.empty() ? std::string() : last.front();
}

Result<ExitCode> run_preflight(const Session& session) {
  SHARDSWEEP_ASSIGN(const std::int32_t nodes, nodes_wanted(session.options));
  constexpr std::int32_t most = 1 << 20;  // more slots than a node has, so all count
  SHARDSWEEP_ASSIGN(const OwnCluster cluster, own_cluster(session, nodes, most));
  SHARDSWEEP_ASSIGN(const Table before, checks_so_far(session));
  SHARDSWEEP_ASSIGN(const std::string sweep,
      submit_own_sweep(session, std::string(preflight_sweep), preflight_text(cluster, nodes)));
  SHARDSWEEP_TRY(resume_sweep(session));
  SHARDSWEEP_ASSIGN(const ExitCode followed,
      follow_sweeps(session, {sweep}, FollowFrom::now, FollowedTo::trials));
  if (followed == ExitCode::interrupted) return followed;

  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_TRY(end_sweep(session, *reader));
  SHARDSWEEP_ASSIGN(ReportFacts facts, reader->facts({.names = {sweep}}));
  const Table checks = without(std::move(facts.checks), before.rows.size());
  SHARDSWEEP_TRY(print_result(table_text(checks,
      table_style(session,
          {"node", "verdict", "why", "not_checked", "gemm_gflops", "busbw_gb_per_s", "host_free",
              "seconds", "device"}))));
  if (checks.rows.empty()) {
    SHARDSWEEP_ASSIGN(const std::string why, what_became(*reader));
    say("No node was checked. " + why);
    return ExitCode::failed;
  }
  const auto nodes_checked = typed_rows<CheckedNode>(checks);
  const auto failed = nodes_with(nodes_checked, "failed");
  const auto unclear = nodes_with(nodes_checked, "unclear");
  if (!failed.empty())
    say("{} of {} nodes failed and are left out of new jobs: {}. 'shardsweep nodes --clear NODE' "
        "lets one back in.",
        failed.size(), checks.rows.size(), fmt::join(failed, ", "));
  if (!unclear.empty())
    say("A check of {} failed, but no single node is to blame: all nodes fail it, or the network "
        "between two nodes is slow.",
        fmt::join(unclear, ", "));
  if (!failed.empty() || !unclear.empty()) return ExitCode::failed;
  const std::string open = not_judged(nodes_checked);
  const std::string ran =
      fmt::format("{} {}", nodes == 1 ? "The node" : fmt::format("All {} nodes", nodes),
          open.empty() ? "passed" : "ran");
  const std::string judged = open.empty() ? "" : "; not judged: " + open;
  say(followed == ExitCode::done
          ? fmt::format("{}, and trained a small model{}.", ran, judged)
          : fmt::format(
                "{}, but a small model was not trained: 'shardsweep results {}' says why{}.", ran,
                sweep, judged));
  return followed == ExitCode::done ? ExitCode::done : ExitCode::failed;
}

}  // namespace

extern const Command command_preflight{.name = "preflight",
    .help = "Check nodes before they run anything: a verdict for each.",
    .examples =
        "shardsweep preflight --nodes 16 --cluster h100-8x\n"
        "shardsweep preflight --nodelist n[1-4,7]\n"
        "shardsweep preflight --nodes 4 --set check.gemm=0.9",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          grammar.option("--nodes", options.asked.nodes, "N", "Number of nodes. Default: 1.");
          grammar.option("--nodelist", options.asked.nodelist, "NODES",
              "These nodes, as Slurm writes them: n[1-4,7].");
          grammar.option("--cluster", options.asked.cluster, "PRESET",
              "Preset of the cluster. Default: two slots without GPUs on each node.");
          grammar.option("--set", options.set, "KEY=VALUE",
              "Another threshold, such as check.gemm=0.9. Repeatable.");
          grammar.backend();
          grammar.format();
        },
    .run = run_preflight};

}  // namespace shardsweep
