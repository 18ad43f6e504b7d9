// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "sweep/key_text.hpp"
#include "sweep/trainer_command.hpp"
#include "text/placeholders.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <utility>

namespace shardsweep {
namespace {

struct NewSweep {
  std::string name;
  ClusterSpec cluster;
  std::vector<ModelSpec> models;          ///< models, one at least
  std::string own_model;                  ///< section of the file, if the model is no preset
  bool whole_nodes = true;                ///< `worlds` counts nodes, else GPUs of one node
  std::vector<std::int64_t> worlds;       ///< sizes in nodes or GPUs, one at least
  const TrainerStart* trainer = nullptr;  ///< null: shardbench
  std::string trainer_rest;               ///< how it is started
};

/// 1, 2, 4, … up to `most`, as far as each divides all of `numbers`.
std::vector<std::int64_t> powers(std::int64_t most, const std::vector<std::int64_t>& numbers) {
  std::vector<std::int64_t> found;
  for (std::int64_t value = 1; value <= most; value *= 2) {
    const bool divides = std::all_of(
        numbers.begin(), numbers.end(), [&](std::int64_t number) { return number % value == 0; });
    if (divides) found.push_back(value);
  }
  return found;
}

/// GPUs of each world.
std::vector<std::int64_t> slots_of(const NewSweep& sweep) {
  auto slots = sweep.worlds;
  for (auto& each : slots)
    each *= sweep.whole_nodes ? sweep.cluster.gpus_per_node : 1;
  return slots;
}

/// The least number of samples from `least` on that every world can share out evenly.
std::int64_t batch_for(const NewSweep& sweep, std::int64_t least) {
  std::int64_t unit = 1;
  for (const auto slots : slots_of(sweep))
    unit = std::lcm(unit, std::max<std::int64_t>(slots, 1));
  return (least + unit - 1) / unit * unit;
}

std::vector<std::int64_t> tensor_degrees(const NewSweep& sweep) {
  const auto slots = slots_of(sweep);
  const auto most = std::min<std::int64_t>(
      sweep.cluster.gpus_per_node, *std::max_element(slots.begin(), slots.end()));
  std::vector<std::int64_t> numbers;
  for (const ModelSpec& model : sweep.models)
    numbers.insert(numbers.end(), {model.heads, model.kv_heads, model.ffn});
  return powers(most, numbers);
}

std::vector<std::int64_t> pipeline_degrees(const NewSweep& sweep) {
  const auto slots = slots_of(sweep);
  std::int64_t most = std::min<std::int64_t>(*std::max_element(slots.begin(), slots.end()), 16);
  for (const ModelSpec& model : sweep.models)
    most = std::min(most, model.layers);
  return powers(most, {});
}

std::string constants_text(const NewSweep& sweep, bool gpus) {
  const std::int64_t batch = batch_for(sweep, gpus ? 256 : 64);
  const std::string size = batch == 256 ? std::string("global_batch_tokens: 1Mi")
                                        : fmt::format("global_batch_size: {}", batch);
  const std::string_view unit = batch == 256 ? "tokens" : "samples";
  return fmt::format(
      "# One value each, the same for all trials.\n"
      "constants:\n"
      "  dtype: {}\n"
      "  seq_len: {}\n"
      "  {:<26} # {} per train step\n{}\n",
      gpus ? "bf16" : "fp32", gpus ? 4096 : 32, size, unit,
      sweep.trainer == nullptr || sweep.trainer->constants.empty()
          ? ""
          : "  " + sweep.trainer->constants);
}

std::string axes_text(const NewSweep& sweep, bool gpus) {
  std::string out =
      "# What varies. Every combination of these values is a point of the grid.\n"
      "# Combinations that cannot run are left out, each with its reason.\naxes:\n";
  const auto line = [&](std::string_view key, const std::string& value, std::string_view comment) {
    out += fmt::format("  {:<42} # {}\n", fmt::format("{}: {}", key, value), comment);
  };
  std::vector<std::string> names;
  for (const ModelSpec& model : sweep.models)
    names.push_back(model.name);
  line("model", fmt::format("[{}]", fmt::join(names, ", ")), "'shardsweep presets' lists more");
  line(sweep.whole_nodes ? "nodes" : "gpus", fmt::format("[{}]", fmt::join(sweep.worlds, ", ")),
      sweep.whole_nodes ? "whole nodes" : "GPUs of one node");
  const TrainerStart* trainer = sweep.trainer;
  if (trainer == nullptr || trainer->has_tp)
    line("tp", fmt::format("[{}]", fmt::join(tensor_degrees(sweep), ", ")),
        "tensor parallel degree");
  if (trainer == nullptr || trainer->has_pp)
    line("pp", fmt::format("[{}]", fmt::join(pipeline_degrees(sweep), ", ")), "pipeline stages");
  line("zero", std::string(trainer == nullptr ? "[0, 1]" : trainer->zero), "ZeRO stage, 0 to 3");
  const std::string recompute(trainer == nullptr ? "[none, full]" : trainer->recompute);
  if (!recompute.empty())
    line("recompute", recompute, "recompute activations: none, selective, full");
  if (trainer != nullptr && !trainer->axes.empty()) out += "  " + trainer->axes;
  const std::int64_t experts = sweep.models.front().experts;
  if (trainer != nullptr && trainer->spreads_experts && experts > 0) {
    constexpr std::int64_t most_ep = 8;
    line("ep", fmt::format("[{}]", fmt::join(powers(most_ep, {experts}), ", ")),
        "expert parallel degree");
    if (sweep.trainer_rest.find("{expert_tp") != std::string::npos)
      line("expert_tp", "[0, 1]", "ranks that split each expert; 0: as many as tp");
    line("cp", "[1, 2]", "context parallel degree");
  }
  line("micro_batch", gpus ? "[1, 2, 4, 8]" : "[2, 8, 16]", "samples per micro-batch");
  line("dp", "auto", "data parallel degree: auto takes the remaining GPUs");
  line("grad_accum", "auto", "micro-batches per train step: auto follows the global batch");
  return out;
}

constexpr std::string_view rest =
    "\n# Points that you do not want. SQL expressions over axes, vars and model columns.\n"
    "# exclude:\n"
    "#   - {when: \"tp > 8\", why: \"keep tensor parallelism inside a node\"}\n"
    "\n# Find the fastest layout without running all of them.\n"
    "# search: {policy: best_first, until: {regret: 1%, confidence: 95%}}\n";

std::string sweep_name(const Options& options, const std::string& model) {
  const auto stem = std::filesystem::path(options.file).stem().string();
  return options.file.empty() || options.file == "-" ? model + "-sweep" : stem;
}

Result<std::vector<std::int64_t>> read_worlds(std::string_view flag, std::string_view text) {
  std::vector<std::int64_t> worlds;
  while (true) {
    const auto part = text.substr(0, text.find(','));
    std::int64_t value = 0;
    const auto* const last = part.data() + part.size();
    const auto [end, error] = std::from_chars(part.data(), last, value);
    if (error != std::errc() || end != last || value < 1 || value > 1'000'000) {
      return fault(FaultKind::invalid_input, "{} takes whole numbers, such as 4 or 1,2,4; got '{}'",
          flag, part);
    }
    worlds.push_back(value);
    if (part.size() == text.size()) return worlds;
    text.remove_prefix(part.size() + 1);
  }
}

Result<void> choose_worlds(const Options& options, NewSweep& sweep) {
  if (!options.asked.nodes.empty() && !options.asked.gpus.empty())
    return fault(FaultKind::invalid_input, "Give --nodes or --gpus, not both.");
  sweep.whole_nodes = options.asked.gpus.empty() && !sweep.cluster.this_machine;
  if (!options.asked.nodes.empty() && sweep.cluster.this_machine)
    return fault(FaultKind::invalid_input, "This machine is one node: give --gpus.");
  if (!options.asked.nodes.empty() || !options.asked.gpus.empty()) {
    SHARDSWEEP_ASSIGN(sweep.worlds,
        sweep.whole_nodes ? read_worlds("--nodes", options.asked.nodes)
                          : read_worlds("--gpus", options.asked.gpus));
  } else {
    // One GPU alone has no layouts to choose from.
    const std::int64_t nodes = sweep.cluster.gpus_per_node > 1 ? 1 : 4;
    sweep.worlds = sweep.whole_nodes ? std::vector<std::int64_t>{nodes}
                                     : powers(sweep.cluster.gpus_per_node, {});
  }
  return {};
}

Result<NewSweep> sweep_to_write(const Session& session) {
  const Options& options = session.options;
  const auto& presets = session.installation.presets;
  NewSweep sweep;
  const bool own = !own_trainer_file(options.asked.trainer).empty();
  if (!options.asked.trainer.empty() && !own) {
    SHARDSWEEP_ASSIGN(sweep.trainer, find_trainer_start(options.asked.trainer));
  }
  if (!options.asked.trainer.empty() && options.asked.model.empty())
    return fault(FaultKind::invalid_input,
        "Which model is {} to train? Give --model: a preset ('shardsweep presets' lists them), "
        "FILE.yaml or Hugging Face's config.json{}.",
        options.asked.trainer, options.asked.cluster.empty() ? ", and --cluster" : "");
  SHARDSWEEP_ASSIGN(sweep.cluster,
      load_cluster(
          options.asked.cluster.empty() ? "this-machine" : options.asked.cluster, presets));
  if (!options.asked.model.empty()) {
    SHARDSWEEP_ASSIGN(sweep.models.emplace_back(), load_model(options.asked.model, presets));
    const auto& model = sweep.models.front();
    const auto known = preset_names(presets, PresetKind::model);
    if (std::find(known.begin(), known.end(), options.asked.model) == known.end())
      sweep.own_model = fmt::format("# Its shape, from {}.\nmodels:\n  {}: {}\n\n",
          options.asked.model, model.name, config::map_text(model));
  } else if (sweep.cluster.gpu.empty()) {
    SHARDSWEEP_ASSIGN(sweep.models.emplace_back(), load_model("tiny", presets));
    SHARDSWEEP_ASSIGN(sweep.models.emplace_back(), load_model("mini", presets));
  } else {
    SHARDSWEEP_ASSIGN(sweep.models.emplace_back(), load_model("llama-1b", presets));
  }
  SHARDSWEEP_TRY(choose_worlds(options, sweep));
  sweep.name = sweep_name(options, sweep.models.front().name);
  if (!options.asked.trainer.empty()) {
    if (own) {
      SHARDSWEEP_ASSIGN(TrainerFile file, load_trainer(options.asked.trainer));
      if (file.start.rest.empty())
        return fault(FaultKind::invalid_input,
            "{} does not say how its trainer is started: add 'start: {{text: …}}'",
            options.asked.trainer);
      sweep.trainer = &add_trainer_file(options.asked.trainer, std::move(file)).start;
    }
    SHARDSWEEP_ASSIGN(sweep.trainer_rest, rest_of(*sweep.trainer, sweep.models.front().name));
    const ModelSpec& model = sweep.models.front();
    const std::string what = untold_shape(placeholders_in(sweep.trainer_rest), {}, model);
    if (!what.empty())
      return fault(FaultKind::invalid_input,
          "the command line of {} can't pass on {} of {}, so it would train another model under "
          "that name",
          sweep.trainer->name, what, model.name);
  }
  return sweep;
}

/// Degrees and the global batch are chosen so that they fit the models and the worlds.
std::string new_sweep_text(const NewSweep& sweep) {
  const bool gpus = !sweep.cluster.gpu.empty();
  return fmt::format(
             "# A sweep of training layouts. 'shardsweep plan FILE' shows what would run;\n"
             "# 'shardsweep help keys' and sweeps/README.md explain every key.\n"
             "name: {}\n\n"
             "# Preset of the hardware. 'shardsweep presets' lists them.\n"
             "cluster: {}\n\n",
             sweep.name, sweep.cluster.name) +
      sweep.own_model + constants_text(sweep, gpus) + axes_text(sweep, gpus) + std::string(rest) +
      fmt::format(
          "\n# Train steps per trial. The first ones warm up and do not count. With 'finalists: "
          "{}'\n"
          "# the fastest layouts run again, together; a search runs short until then.\n"
          "measure: {{warmup: {}, steps: {}}}\n",
          Measure::usual_finalists, gpus ? 3 : 1, gpus ? 10 : 3) +
      (sweep.trainer == nullptr ? "" : "\n" + sweep.trainer_rest);
}

std::string trainer_names() {
  std::vector<std::string_view> names;
  for (const TrainerStart& start : trainer_starts())
    names.push_back(start.name);
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

Result<ExitCode> run_new(const Session& session) {
  SHARDSWEEP_ASSIGN(const NewSweep sweep, sweep_to_write(session));
  const std::string text = new_sweep_text(sweep);
  const std::string& file = session.options.file;
  // The loader has to accept the text: a name that it refuses is found out now.
  SHARDSWEEP_TRY(
      load_sweep_text(text, file.empty() ? "new" : file, {session.installation.presets, {}}));
  if (file.empty() || file == "-") return deliver(text);
  SHARDSWEEP_ASSIGN(const bool made, create_file(file, text));
  if (!made) return fault(FaultKind::invalid_input, "'{}' exists already; name another file", file);
  say("Wrote {0}. 'shardsweep plan {0}' shows what would run.", file);
  if (sweep.trainer != nullptr && session.options.asked.cluster.empty())
    say("The file is for cluster '{}'; name yours with --cluster.", sweep.cluster.name);
  return ExitCode::done;
}

}  // namespace

extern const Command command_new{.name = "new",
    .heading = Heading::daily,
    .help = "Write a commented sweep file to start from.",
    .examples =
        "shardsweep new sweep.yaml\n"
        "shardsweep new sweep.yaml --cluster h100-8x --nodes 1,2,4\n"
        "shardsweep new sweep.yaml --trainer megatron",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          grammar.option("sweep", options.file, "FILE",
              "File to write, such as SWEEP.yaml; - prints it. Refused if it exists.");
          grammar.option("--model", options.asked.model, "MODEL",
              "Preset of the model, a YAML file, or Hugging Face's config.json. Default: tiny and "
              "mini.");
          grammar.option("--cluster", options.asked.cluster, "PRESET",
              "Preset of the cluster. Default: this-machine.");
          grammar.option("--trainer", options.asked.trainer, "TRAINER",
              fmt::format("Start this trainer in place of shardbench: {}, or a trainer's file of "
                          "yours (./mine.yaml). The sweep tells it every axis.",
                  trainer_names()));
          grammar.option(
              "--nodes", options.asked.nodes, "N", "Number of nodes, or several: 1,2,4.");
          grammar.option("--gpus", options.asked.gpus, "N",
              "GPUs on one node, in place of --nodes: 4, or 1,2,4.");
        },
    .run = run_new,
    .database = false};

}  // namespace shardsweep
