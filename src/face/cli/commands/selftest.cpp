// SPDX-License-Identifier: Apache-2.0
// selftest: trials of known outcome as a sweep of their own, in one job, by the way that all
// trials go.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/rows.hpp"
#include "show/selftest_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::string_view selftest_sweep = "selftest";
constexpr double giga_bytes = 1e9;

/// Every layout has the same batch, so that all of them end with the same loss.
std::string selftest_text(const std::string& cluster, std::int32_t nodes, std::int32_t ranks) {
  std::string text = fmt::format(
      "# Made by 'shardsweep selftest'.\n"
      "name: {}\n"
      "cluster: {}\n"
      "runner: {{name: shardbench, args: [--network-probe, first]}}\n"
      "constants: {{model: mini, dtype: fp32, seq_len: 32, global_batch_size: 16, "
      "micro_batch: 1, nodes: {}, dp: auto, grad_accum: auto}}\n"
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

Result<std::vector<SelfTestTrial>> selftest_trials(Reader& reader) {
  SHARDSWEEP_ASSIGN(const Table table,
      reader.query(fmt::format(
          "SELECT r.trial, r.layout, json_extract(r.vars, '$.shardbench_fault') AS fault, "
          "r.outcome, r.cause, r.dp * r.tp * r.pp AS ranks, (SELECT max(a.leaked) FROM "
          "attempts "
          "AS a WHERE a.trial = r.trial_id) AS leaked, r.loss, r.peak_memory_bytes, "
          "r.predicted_memory_bytes, json_extract(m.detail, '$.network.busbw_gb_per_s') AS "
          "busbw FROM results AS r LEFT JOIN measurements AS m ON m.attempt = r.attempt_id "
          "WHERE r.sweep = '{}' ORDER BY r.trial_id",
          selftest_sweep)));
  std::vector<SelfTestTrial> trials;
  const Rows rows(table);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto number = [&](std::string_view column) {
      return rows.number(row, column).value_or(0);
    };
    trials.push_back({.slug = rows.text(row, "trial"),
        .layout = rows.text(row, "layout"),
        .fault = rows.text(row, "fault"),
        .outcome = rows.text(row, "outcome"),
        .cause = rows.text(row, "cause"),
        .ranks = static_cast<std::int32_t>(number("ranks")),
        .leaked = static_cast<std::int64_t>(number("leaked")),
        .loss = number("loss"),
        .peak_memory_bytes = static_cast<std::int64_t>(number("peak_memory_bytes")),
        .predicted_memory_bytes = static_cast<std::int64_t>(number("predicted_memory_bytes")),
        .bus_bandwidth = number("busbw") * giga_bytes});
  }
  return trials;
}

/// Where it ran, as a sentence for the page.
Result<std::string> where_it_ran(Reader& reader) {
  SHARDSWEEP_ASSIGN(const Table table,
      reader.query(
          fmt::format("SELECT DISTINCT al.job_id, al.backend, al.nodes FROM attempts AS a "
                      "JOIN allocations AS al ON al.id = a.allocation JOIN results AS r "
                      "ON r.trial_id = a.trial WHERE r.sweep = '{}' AND a.number = (SELECT "
                      "max(number) FROM attempts WHERE trial = a.trial) ORDER BY al.id",
              selftest_sweep)));
  const Rows rows(table);
  if (rows.size() == 0) return std::string("Nothing ran.");
  std::string jobs;
  for (std::size_t row = 0; row < rows.size(); ++row)
    jobs += (jobs.empty() ? "" : ", ") + rows.text(row, "job_id");
  const bool local = rows.text(0, "backend") == "local";
  const auto nodes = rows.integer(0, "nodes");
  return local
      ? std::string("Ran on this machine.")
      : fmt::format("Ran on {} node{} in Slurm job {}.", nodes, nodes == 1 ? "" : "s", jobs);
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
  say(fmt::format("{} of {} checks failed. 'shardsweep results selftest' lists the trials.", failed,
      verdicts.size()));
  return ExitCode::failed;
}

}  // namespace

extern const Command command_selftest{.name = "selftest",
    .heading = Heading::other,
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
