// SPDX-License-Identifier: Apache-2.0
// Argv and environment are words, never text for a shell. What the sweep file adds comes after
// all that follows from the point: a user's flag wins. Repeats have one seed, so that they
// measure the same thing again.
//
// Decision: `launch` says how ranks start: `local`, `agents` (one srun per allocation), or
// `srun` (one step per attempt, for PMI).

#include "sweep/launch.hpp"

#include "sweep/trainer_command.hpp"
#include "text/content_hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace shardsweep {
namespace {

std::string flag_of(std::string_view axis) {
  std::string flag = "--";
  for (const char c : axis)
    flag += c == '_' ? '-' : c;
  return flag;
}

std::string flag_value(const AxisInfo& axis, std::int64_t value) {
  if (axis.kind == AxisKind::toggle) return value != 0 ? "on" : "off";
  return axis_text(axis, value);
}

void add_layout(std::vector<std::string>& argv, const Point& point) {
  for (const AxisInfo& axis : axes()) {
    // The model's shape and the number of GPUs already say these.
    if (axis.kind == AxisKind::model || axis.is(AxisUse::world)) continue;
    // Runners that know no such flag get none if it would say nothing.
    if (axis.name == "cp_mode" && point.layout.cp == 1) continue;
    const auto value = axis.get(point);
    if (axis.is(AxisUse::optional_flag) && value == axis.default_value) continue;
    argv.push_back(flag_of(axis.name));
    argv.push_back(flag_value(axis, value));
  }
}

void add_model(std::vector<std::string>& argv, const ModelSpec& model) {
  for (const auto& field : shape_fields) {
    const auto value = model.*field.member;
    if (field.optional && value == 0) continue;
    argv.push_back(flag_of(field.name));
    argv.push_back(std::to_string(value));
  }
  if (model.tied_embeddings) argv.insert(argv.end(), {"--tied-embeddings", "on"});
}

}  // namespace

std::string variable_of(const std::string& var) {
  std::string name;
  for (const char c : var)
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string runner_program(const SweepSpec& sweep, const std::string& installed) {
  std::string program = sweep.runner.program;
  const bool on_gpus = !sweep.cluster.gpu.empty() && sweep.runner.name == "shardbench";
  if (program.empty() && on_gpus) program = "shardbench-cuda";
  if (program.empty()) return installed;
  if (program.front() == '/') return program;
  return installed.substr(0, installed.rfind('/') + 1) + program;
}

std::vector<std::string> programs_of(const SweepSpec& sweep, const std::string& installed) {
  std::vector<std::string> programs;
  if (!sweep.runner.is_trainer()) programs.push_back(runner_program(sweep, installed));
  for (const auto& [path, hash] : sweep.runner.programs) {
    if (std::find(programs.begin(), programs.end(), path) == programs.end())
      programs.push_back(path);
  }
  return programs;
}

namespace {

/// Path of the program for this cluster, out of the two beside `installed`.
std::string shardbench_for(const ClusterSpec& cluster, const std::string& installed) {
  return installed.substr(0, installed.rfind('/') + 1) +
      (cluster.gpu.empty() ? "shardbench-cpu" : "shardbench-cuda");
}

}  // namespace

std::vector<std::string> allreduce_command(const SweepSpec& sweep, const std::string& installed) {
  return {shardbench_for(sweep.cluster, installed), "--microbench", "--network-probe", "alone",
      "--model",
      "tiny",  // no layer of it runs, but a model is asked for
      "--world-size", "2", "--local-rank", "0"};
}

/// Pass the rank as an option: a step of Slurm has other numbers in its environment.
std::vector<std::string> gemm_command(const SweepSpec& sweep, const std::string& installed) {
  const std::string program = shardbench_for(sweep.cluster, installed);
  if (sweep.cluster.gpu.empty())
    return {program, "--microbench", "--rank", "0", "--world-size", "1", "--local-rank", "0",
        "--layers", "1", "--hidden", "512", "--ffn", "1024", "--heads", "8", "--kv-heads", "8",
        "--vocab", "512", "--seq-len", "128", "--micro-batch", "1", "--dtype", "fp32"};
  return {program, "--microbench", "--rank", "0", "--world-size", "1", "--local-rank", "0",
      "--layers", "1", "--hidden", "4096", "--ffn", "14336", "--heads", "32", "--kv-heads", "8",
      "--vocab", "32000", "--seq-len", "4096", "--micro-batch", "1", "--dtype", "bf16"};
}

std::vector<std::string> runner_command(
    const SweepSpec& sweep, const Point& point, const LaunchContext& context) {
  std::vector<std::string> argv{runner_program(sweep, context.program)};
  // Flags after it override what it sets.
  if (sweep.runner.profile != own_profile)
    argv.insert(argv.end(), {"--profile", sweep.runner.profile});
  add_model(argv, sweep.models.at(static_cast<std::size_t>(point.model)));
  add_layout(argv, point);
  const auto add = [&argv](const char* flag, std::string value) {
    argv.emplace_back(flag);
    argv.push_back(std::move(value));
  };
  add("--warmup", std::to_string(sweep.measure.warmup));
  add("--steps", std::to_string(sweep.measure.steps));
  // Repeats measure the same thing again: same weights, same samples.
  add("--seed", "1");
  if (sweep.cluster.memory_bytes > 0) {
    add("--memory-limit", std::to_string(sweep.cluster.memory_bytes));
  }
  if (const auto peak = sweep.cluster.peak(point.dtype)) {
    add("--peak-flops", fmt::format("{:.17g}", *peak));
  }
  add("--records", context.paths.records().string());
  add("--recorder", context.paths.recorder().string());
  add("--run-id", context.nonce);
  if (sweep.runner.gives_up && context.give_up_above_ms > 0)
    add("--give-up-above", fmt::format("{:.17g}", context.give_up_above_ms));
  argv.insert(argv.end(), sweep.runner.args.begin(), sweep.runner.args.end());
  return argv;
}

AttemptSpec attempt_spec(const SweepSpec& sweep, const Point& point, const LaunchContext& context) {
  const Policy& policy = sweep.policy;
  AttemptSpec spec;
  spec.attempt = context.attempt;
  spec.trial = context.trial;
  spec.nonce = context.nonce;
  spec.token = context.token;
  spec.world = static_cast<std::int32_t>(point.layout.world());
  spec.ranks_per_node = std::min(spec.world, context.slots_per_node);
  if (sweep.runner.is_trainer()) {
    const std::string dir = context.paths.dir.string();
    spec.argv = trainer_command(sweep, point, dir, spec.ranks_per_node);
    spec.trainer = trainer_run(sweep, point, dir, spec.ranks_per_node, context.parameters);
  } else {
    spec.argv = runner_command(sweep, point, context);
  }
  spec.container = container_of(sweep.container, spec,
      image_of(sweep, point, context.paths.dir.string(), spec.ranks_per_node),
      context.paths.dir.string());
  spec.env = point_env(sweep, point, context.paths.dir.string(), spec.ranks_per_node);
  if (!sweep.proof_of.empty() && spec.trainer) {
    spec.trainer->fake_world = spec.world;
    spec.trainer->fake_rank = fake_rank_of(sweep, point);
    spec.world = 1;
    spec.ranks_per_node = 1;
  }
  spec.programs = sweep.runner.programs;
  spec.code_hash = sweep.runner.snapshot_hash.empty() ? hash_of_programs(spec.programs)
                                                      : sweep.runner.snapshot_hash;
  spec.secrets = context.secrets;
  spec.secrets_file = context.secrets_file;
  for (std::size_t i = 0; i < sweep.vars.size() && i < point.vars.size(); ++i) {
    spec.env[variable_of(sweep.vars[i].name)] =
        sweep.vars[i].values.at(static_cast<std::size_t>(point.vars[i]));
  }
  spec.expandable_segments = context.expandable;
  spec.limits = policy.attempt;
  // A shared host may have other users: their CPU use is recorded, and contaminates nothing.
  if (sweep.cluster.shared_host && spec.limits.others_cpu_limit > 0)
    spec.limits.others_cpu_limit = 1;
  spec.group = context.lane;
  spec.predicted_s = context.predicted_s;
  if (policy.slow_factor > 0 && context.predicted_s > 0)
    spec.slow_limit_s = std::max(policy.slow_floor_s, policy.slow_factor * context.predicted_s);
  if (!sweep.runner.gives_up && context.give_up_above_ms > 0) {
    spec.give_up_above_ms = context.give_up_above_ms;
    spec.tokens_per_step = std::int64_t{point.layout.global_batch()} * point.seq_len;
  }
  // shardbench looks between its train steps, and nobody asks the driver while one is timed.
  spec.watch_pace = !sweep.runner.is_shardbench();
  spec.warmup = sweep.measure.warmup;
  if (!spec.container) spec.limits.container_limit_s = 0;
  spec.rules = sweep.rules;
  for (Cause& cause : spec.rules)
    cause.sample.clear();  // tried when the file was read
  return spec;
}

namespace {

constexpr std::array<std::string_view, 3> stage_words{"first", "middle", "last"};

}  // namespace

std::span<const std::string_view> proof_stage_words() {
  return stage_words;
}

std::int32_t fake_rank_of(const SweepSpec& proof, const Point& point) {
  const auto word = proof.vars.empty() || point.vars.size() != proof.vars.size()
      ? std::size_t{0}
      : static_cast<std::size_t>(point.vars.back());
  const Layout& layout = point.layout;
  const std::int32_t stage = word == 0 ? 0 : word == 1 ? layout.pp / 2 : layout.pp - 1;
  return stage * static_cast<std::int32_t>(layout.world() / layout.pp);
}

namespace {

constexpr std::string_view between = ":,=";

bool ends_an_element(std::string_view text, std::size_t at) {
  return at == text.size() || text[at] == '/' || between.find(text[at]) != std::string_view::npos;
}

}  // namespace

std::string moved(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  bool begins = true;  // an element
  while (!text.empty()) {
    if (begins && !from.empty() && text.starts_with(from) && ends_an_element(text, from.size())) {
      out += to;
      text.remove_prefix(from.size());
      begins = false;
      continue;
    }
    begins = between.find(text.front()) != std::string_view::npos;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

SweepSpec in_snapshot(SweepSpec sweep, const std::string& tree) {
  RunnerSpec& runner = sweep.runner;
  if (runner.snapshot_hash.empty()) return sweep;
  const auto move = [&](std::string& text) { text = moved(text, runner.snapshot_root, tree); };
  move(runner.program);
  for (auto& word : runner.args)
    move(word);
  for (auto& word : runner.trainer.argv)
    move(word);
  move(runner.trainer.directory);
  for (auto& [name, value] : sweep.env)
    move(value);
  return sweep;
}

// The sweep file wins over the site file key by key; mounts and options of both add up. What
// ranks need of ours, the attempt's folder and the program, is mounted at its own path, unless
// the user has put something else there: then that was meant.

namespace {

bool has_target(const ContainerSpec& container, std::string_view target) {
  return std::any_of(container.mounts.begin(), container.mounts.end(),
      [target](const std::string& one) { return mount_of(one).target == target; });
}

/// Mounts a folder under its own path, unless the user has put something else there.
void mount_as_it_is(ContainerSpec& container, const std::string& folder, bool read_only) {
  if (!folder.starts_with('/') || folder == "/" || has_target(container, folder)) return;
  container.mounts.push_back(
      read_only ? fmt::format("{0}:{0}:ro", folder) : fmt::format("{0}:{0}", folder));
}

std::string folder_of(const std::string& program) {
  return program.substr(0, std::min(program.rfind('/'), program.size()));
}

}  // namespace

ContainerSpec joined(const ContainerSpec& sweep, const SiteSpec& site) {
  ContainerSpec all = sweep;
  const ContainerSpec& given = site.container;
  if (!all.runtime) all.runtime = given.runtime;
  if (all.image.empty()) all.image = given.image;
  // A site may say how containers are started without saying that all sweeps run in one. An image
  // without a runtime stays, for check_container() to refuse.
  if (all.image.empty() || (all.runtime && !all.is_used())) return sweep;
  if (all.workdir.empty()) all.workdir = given.workdir;
  for (const auto& mount : given.mounts) {
    if (!has_target(all, mount_of(mount).target)) all.mounts.push_back(mount);
  }
  all.options.insert(all.options.begin(), given.options.begin(), given.options.end());
  all.env.insert(given.env.begin(), given.env.end());
  all.env.insert(site.env.begin(), site.env.end());
  return all;
}

Result<void> check_container(const ContainerSpec& container, LaunchMode launch) {
  const bool has_image = !container.image.empty();
  if (container.is_used() && !has_image)
    return fault(FaultKind::invalid_input,
        "'container' has the runtime {} but no image; write 'image' into the sweep file",
        word_of(*container.runtime));
  if (has_image && !container.runtime)
    return fault(FaultKind::invalid_input,
        "'container' has an image but no runtime; write 'runtime' into the sweep file or into the "
        "site file: pyxis, enroot, apptainer, podman-hpc or shifter");
  const bool is_file = container.image.ends_with(".sqsh") || container.image.ends_with(".squashfs");
  const bool is_made = container.runtime == ContainerRuntime::pyxis ||
      (container.runtime == ContainerRuntime::enroot && is_file);
  if (is_made && launch == LaunchMode::srun)
    return fault(FaultKind::invalid_input,
        "with 'launch: srun' nothing creates the {} container on each node; write 'launch: "
        "agents', or name an enroot container that already exists there",
        word_of(*container.runtime));
  return {};
}

Result<void> check_watched_image(const ContainerSpec& container) {
  const bool is_one_file = container.is_used() && container.image.starts_with('/') &&
      container.image.find('{') == std::string::npos;
  if (is_one_file) return {};
  return fault(FaultKind::invalid_input,
      "'remeasure: {{on: image}}' needs 'image' to be one file with its path from '/', such as "
      "/images/train.sqsh, but {}. Or leave 'on' out: the layouts are then measured again in the "
      "image as it is then",
      container.is_used() ? fmt::format("'image' is '{}'", container.image)
                          : std::string("no container is used"));
}

std::optional<ContainerSpec> container_of(const ContainerSpec& container, const AttemptSpec& spec,
    std::string image, const std::string& attempt_dir) {
  if (!container.is_used()) return std::nullopt;
  ContainerSpec filled = container;
  filled.image = std::move(image);
  mount_as_it_is(filled, attempt_dir, false);
  if (spec.trainer) {
    mount_as_it_is(filled, spec.trainer->directory, false);
  } else if (!spec.argv.empty()) {
    // Ours lies beside the agent, and no image has it.
    mount_as_it_is(filled, folder_of(spec.argv.front()), true);
  }
  return filled;
}

}  // namespace shardsweep
