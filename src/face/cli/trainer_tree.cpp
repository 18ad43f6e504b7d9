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

}  // namespace

std::string wrong_tree_text(const SweepSpec& sweep) {
  const TrainerSpec& trainer = sweep.runner.trainer;
  const TrainerFile& file = trainer_file(trainer.told_as());
  // A folder with placeholders is another one at each point.
  const bool looks = !trainer.directory.empty() && trainer.directory.find('{') == std::string::npos;
  if (!looks || sweep.container.is_used()) return {};
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
