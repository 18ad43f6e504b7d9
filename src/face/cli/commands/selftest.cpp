// SPDX-License-Identifier: Apache-2.0
// selftest: trials of known outcome as a sweep of their own, in one job, by the way that all
// trials go.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/selftest_view.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::string_view selftest_sweep = "selftest";

/// Every layout has the same batch, so that all of them end with the same loss.
std::string selftest_text(const std::string& cluster, std::int32_t nodes, std::int32_t ranks) {
  std::string text = fmt::format(
      "# Made by 'shardsweep selftest'.\n"
      "name: {}\n"
      "cluster: {}\n"
      "runner: {{name: shardbench, args: [--network-probe, first]}}\n"
      "constants: {{model: mini, dtype: fp32, seq_len: 32, global_batch_size: 16, micro_batch: 1, "
      "nodes: {}, dp: auto, grad_accum: auto}}\n"
      "vars: {{shardbench_fault: [none, fork@train, kill@train+1, hang@train+1]}}\n"
      "measure: {{warmup: 2, steps: 5}}\n"
      "watch: {{hang_floor: 5s}}\n"
      "retry: {{on_trial: 0}}\n"
      "limits: {{max_nodes: {}}}\n"
      "points:\n",
      selftest_sweep, cluster, nodes, nodes);
  for (const std::string_view fault : {"none", "fork@train", "kill@train+1", "hang@train+1"})
    text += fmt::format("  - {{shardbench_fault: {}}}\n", fault);
  if (ranks > 1) {
    text +=
        "  - {zero: 3, shardbench_fault: none}\n"
        "  - {tp: 2, shardbench_fault: none}\n"
        "  - {pp: 2, shardbench_fault: none}\n";
  }
  return text;
}

struct SelfTestJob {
  std::string job_id;
  Backend backend = Backend::none;
  std::int64_t nodes = 0;
};

Result<std::vector<SelfTestTrial>> selftest_trials(Reader& reader) {
  return reader.rows<SelfTestTrial>(Listing::selftest_trials, {std::string(selftest_sweep)});
}

}  // namespace

SHARDSWEEP_DESCRIBE(SelfTestJob, job_id, backend, nodes);

namespace {

/// Sentence for the page that says where the self-test ran.
Result<std::string> where_it_ran(Reader& reader) {
  SHARDSWEEP_ASSIGN(const auto jobs,
      reader.rows<SelfTestJob>(Listing::selftest_jobs, {std::string(selftest_sweep)}));
  if (jobs.empty()) return std::string("Nothing ran.");
  if (jobs.front().backend == Backend::local) return std::string("Ran on this machine.");
  const auto ids = join_texts(jobs, ", ", &SelfTestJob::job_id);
  return fmt::format("Ran on {} in Slurm job {}.", counted(jobs.front().nodes, "node"), ids);
}

Result<ExitCode> run_selftest(const Session& session) {
  SHARDSWEEP_ASSIGN(const std::int32_t nodes, asked_nodes(session.options));
  // 16 ranks at most share the batch.
  SHARDSWEEP_ASSIGN(const OwnCluster cluster, own_cluster(session, nodes, 16));
  SHARDSWEEP_ASSIGN(const std::string sweep,
      submit_own_sweep(session, std::string(selftest_sweep),
          selftest_text(cluster.text, nodes, nodes * cluster.slots)));
  // A hang has no final verdict, and is what was asked for; no layout is to win.
  SHARDSWEEP_ASSIGN(const ExitCode followed,
      follow_sweeps(session, {sweep}, FollowFrom::now, FollowedTo::trials));
  if (followed == ExitCode::interrupted) return followed;

  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto trials, selftest_trials(*reader));
  SHARDSWEEP_ASSIGN(const std::string where, where_it_ran(*reader));
  const auto verdicts = judge_selftest(trials);
  SHARDSWEEP_TRY(print_result(
      table_text(selftest_table(verdicts), table_style(session, {"check", "verdict", "detail"}))));
  say(where);
  const auto failed = std::count_if(
      verdicts.begin(), verdicts.end(), [](const auto& each) { return !each.passed; });
  if (failed == 0) return ExitCode::done;
  say("{} of {} checks failed. 'shardsweep results selftest' lists the trials.", failed,
      verdicts.size());
  return ExitCode::failed;
}

}  // namespace

extern const Command command_selftest{.name = "selftest",
    .help = "Run trials of known outcome in one job, and judge them.",
    .examples =
        "shardsweep selftest\n"
        "shardsweep selftest --nodes 2",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          grammar.option("--nodes", options.asked.nodes, "N", "Number of nodes. Default: 1.");
          grammar.option("--cluster", options.asked.cluster, "PRESET",
              "Preset of the cluster. Default: two slots without GPUs on each node.");
          grammar.backend();
          grammar.format();
        },
    .run = run_selftest};

}  // namespace shardsweep
