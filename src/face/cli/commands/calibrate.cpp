// SPDX-License-Identifier: Apache-2.0
// calibrate: the runner's microbenchmarks as trials of a sweep of their own, by the way that
// all trials go, and a cluster file from what they measured.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "predict/predictor.hpp"
#include "predict/rates.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

struct CalibrateOptions {
  std::string dtype;
  std::string seq_len;
  std::string micro_batch = "4";
};

/// Each world is measured so often: the median counts, and the spread is told.
constexpr int repeats = 3;

/// One rank, a full node, and so many nodes, each with one micro-batch; data parallel, so that
/// every rank has the whole model's shapes.
std::string sweep_text(const Options& options, const ClusterSpec& cluster) {
  const auto& own = options.of<CalibrateOptions>();
  const bool gpus = !cluster.gpu.empty();
  const auto or_else = [](const std::string& said, const char* otherwise) {
    return said.empty() ? std::string(otherwise) : said;
  };
  std::string text = fmt::format(
      "# Made by 'shardsweep calibrate {0}'.\n"
      "name: calibrate-{0}\n"
      "constants: {{model: {1}, seq_len: {2}, micro_batch: {3}, grad_accum: 1, dtype: {4}}}\n"
      "runner: {{name: shardbench, args: [--microbench]}}\n"
      "measure: {{warmup: 1, steps: 3, repeats: {5}}}\n"
      "points:\n"
      "  - {{gpus: 1, dp: 1}}\n",
      cluster.name, or_else(options.asked.model, gpus ? "llama-1b" : "mini"),
      or_else(own.seq_len, gpus ? "4096" : "256"), own.micro_batch,
      or_else(own.dtype, gpus ? "bf16" : "fp32"), repeats);
  if (cluster.gpus_per_node > 1)
    text += fmt::format("  - {{gpus: {0}, dp: {0}}}\n", cluster.gpus_per_node);
  if (!options.asked.nodes.empty())
    text += fmt::format("  - {{nodes: {}, dp: auto}}\n", options.asked.nodes);
  text += "cluster:\n";
  std::string lines = explain_cluster(cluster);
  for (std::string_view rest = lines; !rest.empty();) {
    const auto end = rest.find('\n') + 1;
    text += fmt::format("  {}", rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return text;
}

/// A trial that has measured the blocks.
struct BlockRun {
  std::int64_t trial = 0;
  BlockTimes times;
  double train_step_s = 0;
};

struct TransferRun {
  std::int64_t trial = 0;
  BlockTimes::Transfer transfer;
};

}  // namespace

SHARDSWEEP_DESCRIBE(
    BlockTimes, gpus, nodes, gemm_flops, gemm_peak_flops, attention_flops, memory_bandwidth);
SHARDSWEEP_DESCRIBE(BlockTimes::Transfer, sent_bytes, seconds);
template <>
inline constexpr auto described<BlockRun> = Entries{
    Field{"trial_id", &BlockRun::trial},
    Part{&BlockRun::times},
    Field{"train_step_s", &BlockRun::train_step_s},
};
template <>
inline constexpr auto described<TransferRun> =
    Entries{Field{"trial_id", &TransferRun::trial}, Part{&TransferRun::transfer}};

namespace {

Result<std::vector<BlockRun>> measured(Reader& reader, const std::string& sweep) {
  SHARDSWEEP_ASSIGN(auto runs, reader.rows<BlockRun>(Listing::measured_blocks, {sweep}));
  SHARDSWEEP_ASSIGN(
      const auto transfers, reader.rows<TransferRun>(Listing::measured_transfers, {sweep}));
  for (BlockRun& run : runs) {
    for (const auto& [trial, transfer] : transfers) {
      if (trial == run.trial) run.times.all_reduce.push_back(transfer);
    }
  }
  return runs;
}

/// Table of what changed, by name. The lowest and the highest value come from each repeat alone.
Table changes(const ClusterSpec& preset, const ClusterSpec& now,
    const std::vector<ClusterSpec>& alone, Dtype dtype) {
  Table table;
  table.columns = {"parameter", "unit", "preset", "measured", "lowest", "highest"};
  const auto add = [&](std::string_view name, const char* unit, const auto& read) {
    double lowest = read(now);
    double highest = lowest;
    for (const auto& one : alone) {
      lowest = std::min(lowest, read(one));
      highest = std::max(highest, read(one));
    }
    const double before = read(preset);
    table.rows.push_back({std::string(name), std::string(unit),
        before > 0 ? Value(before) : Value(), Value(read(now)), Value(lowest), Value(highest)});
  };
  const auto at = peak_index(dtype);
  if (now.peak_flops.at(at))
    add(fmt::format("peak_flops.{}", peak_words.at(at)), "FLOP/s",
        [&](const ClusterSpec& cluster) { return cluster.peak_flops.at(at).value_or(0); });
  struct Row {
    const char* name;
    const char* unit;
    double ClusterSpec::*member;
  };
  constexpr std::array<Row, 10> rows{{
      {"gemm_efficiency", "1", &ClusterSpec::gemm_efficiency},
      {"attention_efficiency", "1", &ClusterSpec::attention_efficiency},
      {"memory_bandwidth", "B/s", &ClusterSpec::memory_bandwidth},
      {"intra_node_bandwidth", "B/s", &ClusterSpec::intra_node_bandwidth},
      {"intra_node_efficiency", "1", &ClusterSpec::intra_node_efficiency},
      {"intra_node_latency", "us", &ClusterSpec::intra_node_latency_us},
      {"inter_node_bandwidth", "B/s", &ClusterSpec::inter_node_bandwidth},
      {"inter_node_efficiency", "1", &ClusterSpec::inter_node_efficiency},
      {"inter_node_group_bandwidth", "B/s", &ClusterSpec::inter_node_group_bandwidth},
      {"inter_node_latency", "us", &ClusterSpec::inter_node_latency_us},
  }};
  for (const auto& row : rows) {
    if (preset.*row.member != now.*row.member)
      add(row.name, row.unit, [&](const ClusterSpec& cluster) { return cluster.*row.member; });
  }
  return table;
}

const Point* point_of(const PlannedSweep& planned, const BlockTimes& run) {
  for (const auto& trial : planned.plan.trials) {
    if (trial.point.gpus == run.gpus && trial.point.nodes == run.nodes) return &trial.point;
  }
  return nullptr;
}

/// The runs' own train steps beside what both clusters predict for them, by world.
std::vector<StepCheck> check_steps(
    const PlannedSweep& planned, const ClusterSpec& now, const std::vector<BlockRun>& runs) {
  const auto& family = family_of_runner(planned.sweep.runner.name);
  const Predictor before(planned.sweep.cluster, family);
  const Predictor after(now, family);
  std::map<const Point*, std::vector<double>> measured;
  for (const auto& run : runs) {
    if (const auto* point = point_of(planned, run.times))
      measured[point].push_back(run.train_step_s);
  }
  std::vector<StepCheck> checks;
  for (auto& [point, steps] : measured) {
    const auto& model = planned.sweep.models.at(static_cast<std::size_t>(point->model));
    std::sort(steps.begin(), steps.end());
    checks.push_back({.gpus = point->gpus,
        .measured_s = steps[steps.size() / 2],
        .fastest_s = steps.front(),
        .slowest_s = steps.back(),
        .before_s = before.guess(model, *point).step_s,
        .after_s = after.guess(model, *point).step_s});
  }
  std::sort(checks.begin(), checks.end(),
      [](const StepCheck& a, const StepCheck& b) { return a.gpus < b.gpus; });
  return checks;
}

constexpr std::string_view worse =
    "Warning: these rates predict the measured steps worse than the preset does. Measure again "
    "while the machine is idle.";

/// Clusters that each repeat alone would give.
std::vector<ClusterSpec> alone(
    const ClusterSpec& preset, Dtype dtype, const std::vector<BlockRun>& runs) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> seen;
  std::vector<std::vector<BlockTimes>> by_repeat;
  for (const auto& run : runs) {
    const auto repeat = seen[{run.times.nodes, run.times.gpus}]++;
    if (repeat >= by_repeat.size()) by_repeat.emplace_back();
    by_repeat[repeat].push_back(run.times);
  }
  std::vector<ClusterSpec> clusters;
  clusters.reserve(by_repeat.size());
  for (const auto& times : by_repeat)
    clusters.push_back(calibrated(preset, dtype, times));
  return clusters;
}

Result<void> write_cluster(const std::filesystem::path& file, const ClusterSpec& cluster,
    const std::string& sweep, const std::vector<StepCheck>& checks) {
  std::string text = fmt::format(
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Measured by 'shardsweep calibrate' (sweep '{}'): the medians of {} runs.\n"
      "# To use it, write in a sweep file:\n#   cluster: {}\n",
      sweep, repeats, file.filename().string());
  for (const auto& check : checks)
    text += fmt::format("# {}\n", step_text(check));
  if (predicts_worse(checks)) text += fmt::format("# {}\n", worse);
  return write_file_durably(file, text + explain_cluster(cluster));
}

Result<ExitCode> run_calibrate(const Session& session) {
  const auto& options = session.options;
  SHARDSWEEP_ASSIGN(
      const ClusterSpec preset, load_cluster(options.asked.cluster, session.installation.presets));
  SHARDSWEEP_TRY(make_home(session.home));
  Session sweep_session = session;
  const auto sweep_file = session.home.dir() / fmt::format("calibrate-{}.yaml", preset.name);
  SHARDSWEEP_TRY(write_own_file(sweep_file, sweep_text(options, preset)));
  sweep_session.options.file = sweep_file.string();

  SHARDSWEEP_ASSIGN(const PlannedSweep planned, plan_file(sweep_session));
  SHARDSWEEP_ASSIGN(const std::string sweep, submit_anew(sweep_session));
  SHARDSWEEP_ASSIGN(const ExitCode code, follow_sweeps(session, {sweep}));
  if (code != ExitCode::done) return code;

  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto runs, measured(*reader, sweep));
  if (runs.empty()) {
    say("No run of '{0}' measured anything. 'shardsweep results {0}' says why.", sweep);
    return ExitCode::failed;
  }
  std::vector<BlockTimes> times;
  times.reserve(runs.size());
  for (const auto& run : runs)
    times.push_back(run.times);
  const Dtype dtype = planned.plan.trials.front().point.dtype;
  const ClusterSpec now = calibrated(preset, dtype, medians(times));
  const auto checks = check_steps(planned, now, runs);
  const std::filesystem::path file =
      options.out.empty() ? preset.name + ".calibrated.yaml" : options.out;
  SHARDSWEEP_TRY(write_cluster(file, now, sweep, checks));
  SHARDSWEEP_TRY(print_result(
      table_text(changes(preset, now, alone(preset, dtype, runs), dtype), table_style(session))));
  for (const auto& check : checks)
    say(step_text(check));
  if (predicts_worse(checks)) say(std::string(worse));
  say("Wrote {}.", file.string());
  return ExitCode::done;
}

}  // namespace

extern const Command command_calibrate{.name = "calibrate",
    .help = "Measure a cluster's speed and write it down for predictions.",
    .examples =
        "shardsweep calibrate this-machine\n"
        "shardsweep calibrate h100-8x --nodes 2 --out ours.yaml",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          auto& own = grammar.own<CalibrateOptions>();
          grammar
              .option("cluster", options.asked.cluster, "PRESET",
                  "Preset of the cluster, or a cluster file.")
              .required();
          grammar.option("--out", options.out, "FILE",
              "File to write, for a sweep's 'cluster:'. Default: NAME.calibrated.yaml here.");
          grammar.option("--model", options.asked.model, "MODEL",
              "Preset of the model whose shapes are timed. Default: llama-1b on GPUs, mini "
              "without.");
          grammar.option("--seq-len", own.seq_len, "TOKENS",
              "Tokens per sample. Default: 4096 on GPUs, 256 without.");
          grammar.option("--micro-batch", own.micro_batch, "N", "Samples per timed block.");
          grammar
              .option("--dtype", own.dtype, "DTYPE",
                  "Number format. Default: bf16 on GPUs, fp32 without.")
              .offers({"bf16", "fp32", "fp64"});
          grammar.option("--nodes", options.asked.nodes, "N",
              "Also run on this many nodes, to measure the links between them.");
          grammar.backend();
          grammar.format();
        },
    .run = run_calibrate};

}  // namespace shardsweep
