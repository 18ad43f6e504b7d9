// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainers.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "trainer/configuration.hpp"
#include "trainer/trainer_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace shardsweep {

namespace {

constexpr auto keys = std::to_array<LogKey>({
    {"iteration",
        "number of the train step; begins a new one. iteration:next: the line has no number, and "
        "is one more than the last"},
    {"validation", "number of a validation: all else on its line is passed over"},
    {"step_ms", "time of a train step in ms"},
    {"step_s", "time of a train step in s"},
    {"elapsed_s", "seconds since the start, at the end of this train step"},
    {"steps_per_s", "train steps per second"},
    {"samples_per_s", "samples per second of all GPUs"},
    {"tokens_per_s", "tokens per second of all GPUs"},
    {"tokens_per_s_per_gpu", "tokens per second of a GPU"},
    {"tflops_per_gpu", "TFLOP/s of a GPU, as the trainer counts them"},
    {"loss", "loss of the train step, nat per token"},
    {"skipped", "train steps that changed no weight"},
    {"skipped_total", "the same, counted since the start"},
    {"consumed_samples", "samples since the start, after this train step"},
    {"consumed_tokens", "tokens since the start, after this train step"},
    {"nans", "train steps whose loss was no number"},
    {"global_batch", "samples per train step", true},
    {"tokens_per_step", "tokens per train step", true},
    {"seq_len", "tokens per sample", true},
    {"vocab", "entries of the vocabulary", true},
    {"gpus", "ranks of the run", true},
    {"dp", "data parallel degree", true},
    {"tp", "tensor parallel degree", true},
    {"pp", "pipeline stages", true},
    {"cp", "context parallel degree", true},
    {"data_ranks", "ranks among which samples are divided: dp, as far as it is told", true},
    {"ep", "expert parallel degree", true},
    {"vpp", "virtual pipeline stages of a rank", true},
    {"zero", "ZeRO stage", true},
    {"distributed_optimizer", "the optimizer's state is sharded: 0: no, 1: yes", true},
    {"fsdp", "kind of FSDP, 0: none, 1: the trainer's own, 2: PyTorch's", true},
    {"fsdp_stage", "what the trainer's own FSDP shards, as a ZeRO stage", true},
    {"grad_accum", "micro-batches of a train step", true},
    {"recompute", "0: none, 1: selective, 2: full", true},
    {"sequence_parallel", "0: no, 1: yes", true},
    {"expert_tp", "tensor parallel degree of experts", true},
    {"first_stage_layers", "layers of the first pipeline stage, if told", true},
    {"last_stage_layers", "layers of the last pipeline stage, if told", true},
    {"cuda_graphs", "0: none, 1 and 2: of layers", true},
    {"offload", "to the host's memory, 0: none, 1: the optimizer's state", true},
    {"layers", "layers of the model", true},
    {"hidden", "hidden size of the model", true},
    {"ffn", "width of a feed-forward layer", true},
    {"heads", "attention heads of the model", true},
    {"kv_heads", "key and value heads of the model", true},
    {"experts", "experts of a layer", true},
    {"experts_per_token", "experts that a token goes through", true},
    {"expert_ffn", "width of an expert", true},
    {"expert_period", "layers for each one that has experts", true},
    {"micro_batch", "samples per micro-batch", true},
    {"micro_batch_tokens", "tokens per micro-batch", true},
    {"parameters", "parameters of one model parallel rank"},
    {"all_parameters", "parameters of the whole model", true},
    {"allocated_bytes", "largest memory that tensors had, bytes", true},
    {"allocated_mib", "the same in MiB", true},
    {"allocated_gib", "the same in GiB", true},
    {"allocated_gb", "the same in GB of 10^9 bytes", true},
    {"reserved_bytes", "largest memory that the allocator held, bytes", true},
    {"reserved_mib", "the same in MiB", true},
    {"reserved_gib", "the same in GiB", true},
    {"reserved_gb", "the same in GB of 10^9 bytes", true},
});

}  // namespace

std::span<const LogKey> log_keys() {
  return keys;
}

std::vector<std::string_view> log_patterns(std::string_view trainer) {
  const auto& patterns = trainer_file(trainer).patterns;
  return {patterns.begin(), patterns.end()};
}

std::span<const Trainer> trainers() {
  static const auto all = [] {
    std::vector<Trainer> known;
    for (const std::string_view name : trainers_with_files())
      if (!trainer_file(name).patterns.empty()) known.push_back(trainer_file(name).about);
    return known;
  }();
  return all;
}

const Trainer* find_trainer(std::string_view name) {
  const auto all = trainers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Trainer& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string unknown_trainer(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Trainer& trainer : trainers())
    names.push_back(trainer.name);
  const auto hint = did_you_mean(name, names);
  return fmt::format("no trainer is called {}{} 'shardsweep trainers' names all.", in_quotes(name),
      hint.empty() ? "." : hint);
}

namespace {

constexpr std::string_view layout_mark = "@LAYOUT@";

/// Formats words as lines of the list `argv`.
std::string lines_of(const std::vector<std::string>& words) {
  constexpr std::size_t width = 105;
  constexpr std::string_view indent = "     ";
  std::string text;
  std::size_t used = indent.size();
  for (const std::string& word : words) {
    const std::string_view quote = word.find('{') != std::string::npos ? "\"" : "";
    const std::string item = fmt::format("{0}{1}{0},", quote, word);
    if (!text.empty() && used + 1 + item.size() > width) {
      text += fmt::format("\n{}", indent);
      used = indent.size();
    } else if (!text.empty()) {
      text += ' ';
      ++used;
    }
    text += item;
    used += item.size();
  }
  return text;
}

}  // namespace

bool TrainerStart::tells(std::string_view degree) const {
  if (degree == "pp" && !has_pp) return false;
  return rest.find(layout_mark) != std::string::npos ||
      rest.find(fmt::format("{{{}}}", degree)) != std::string::npos;
}

std::span<const TrainerStart> trainer_starts() {
  static const std::vector<TrainerStart> starts = [] {
    std::vector<TrainerStart> all;
    for (const std::string_view trainer : configurable_trainers())
      if (!trainer_file(trainer).start.rest.empty()) all.push_back(trainer_file(trainer).start);
    return all;
  }();
  return starts;
}

Result<const TrainerStart*> find_trainer_start(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TrainerStart& start : trainer_starts()) {
    if (start.name == name) return &start;
    names.push_back(start.name);
  }
  if (find_trainer(name) != nullptr)
    return fault(FaultKind::invalid_input,
        "{0} is started by a script of your own: write 'runner: {{argv: [...], log: {0}}}' into a "
        "sweep file ('shardsweep new' without --trainer writes the rest). --trainer knows {1}.",
        name, fmt::join(names, ", "));
  return fault(FaultKind::invalid_input, "--trainer knows {}; got {}.", fmt::join(names, ", "),
      in_quotes(name));
}

std::vector<std::string_view> models_of(const TrainerStart& start) {
  std::vector<std::string_view> models;
  for (const StartRecipe& one : start.recipes)
    models.push_back(one.model);
  return models;
}

Result<std::string> rest_of(const TrainerStart& start, std::string_view model) {
  std::string text(start.rest);
  if (const auto layout = text.find(layout_mark); layout != std::string::npos)
    text.replace(layout, layout_mark.size(), lines_of(words_of_argv(layout_words_of(start.name))));
  if (!start.has_recipes()) return text;
  const auto found = std::find_if(start.recipes.begin(), start.recipes.end(),
      [&](const StartRecipe& one) { return one.model == model; });
  if (found == start.recipes.end()) {
    return fault(FaultKind::invalid_input,
        "{} is started by a recipe for one model. Begin with --model {}, then name your recipe and "
        "model in the file",
        start.name, fmt::join(models_of(start), " or "));
  }
  constexpr std::string_view mark = "@RECIPE@";
  return text.replace(text.find(mark), mark.size(), found->name);
}

}  // namespace shardsweep
