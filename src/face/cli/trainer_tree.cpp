// SPDX-License-Identifier: Apache-2.0
#include "cli/trainer_tree.hpp"

#include "trainer/trainer_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

bool has_option(const std::vector<std::string>& words, std::string_view option) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == option || (word.starts_with(option) && word[option.size()] == '=');
  });
}

/// True if its folder can be looked at: one with placeholders is another one at each point, and one
/// in a container may be of its image.
bool has_tree(const SweepSpec& sweep) {
  const std::string& folder = sweep.runner.trainer.directory;
  return !folder.empty() && folder.find('{') == std::string::npos && !sweep.container.is_used();
}

/// The first word that is a script by its ending; empty: there is none.
std::string script_in(const std::vector<std::string>& argv) {
  const auto is_script = [](const std::string& word) {
    return (word.ends_with(".py") || word.ends_with(".sh")) && !word.starts_with('-') &&
        word.find_first_of(" {") == std::string::npos;
  };
  const auto found = std::find_if(argv.begin(), argv.end(), is_script);
  return found == argv.end() ? std::string() : *found;
}

}  // namespace

std::string missing_script_text(const SweepSpec& sweep) {
  if (!has_tree(sweep)) return {};
  const TrainerSpec& trainer = sweep.runner.trainer;
  const std::string script = script_in(trainer.argv);
  std::error_code ignored;
  if (script.empty() || fs::exists(fs::path(trainer.directory) / script, ignored)) return {};
  return fmt::format(
      "'argv' names {}, which is not in {} here. Each trial fails unless it is there "
      "on the nodes; 'cwd' names another folder.",
      script, trainer.directory);
}

std::string launcher_text(const SweepSpec& sweep) {
  const TrainerSpec& trainer = sweep.runner.trainer;
  if (trainer.per_node) return {};
  // Ranks of a node, as torchrun, accelerate and deepspeed are told them.
  for (const std::string& word : trainer.argv)
    for (const std::string_view option : {"--nproc", "--num_processes", "--num_gpus"})
      if (word.starts_with(option))
        return fmt::format(
            "'argv' has {}, so it seems to start the ranks of a node, and it is started once for "
            "each GPU. Write 'launch: node' to start it once on each node.",
            word);
  return {};
}

std::string wrong_tree_text(const SweepSpec& sweep) {
  if (!has_tree(sweep)) return {};
  const TrainerSpec& trainer = sweep.runner.trainer;
  const TrainerFile& file = trainer_file(trainer.told_as());
  const auto is_there = [&](const TrainerTree& tree) {
    std::error_code ignored;
    return fs::exists(fs::path(trainer.directory) / tree.file, ignored);
  };
  const auto there = std::find_if(file.trees.begin(), file.trees.end(), is_there);
  const auto told = std::find_if(file.trees.begin(), file.trees.end(),
      [&](const TrainerTree& tree) { return has_option(trainer.argv, tree.word); });
  if (there == file.trees.end() || told == file.trees.end() || there == told) return {};
  return fmt::format("'argv' has {}, which {} in {} does not take: it has {} and no {}. {}.",
      told->word, file.about.title, trainer.directory, there->file, told->file, there->advice);
}

}  // namespace shardsweep
