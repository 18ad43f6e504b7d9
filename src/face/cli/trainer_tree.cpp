// SPDX-License-Identifier: Apache-2.0
// Decision: The tree tells, by the one file that came and went with the TOML: torchtitan had
// config/job_config.py until the registry of 2026-02-23 (#2386) put config/configs.py in its
// place.
#include "cli/trainer_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

enum class TitanForm { unknown, toml, registry };

TitanForm form_of_tree(const fs::path& config) {
  std::error_code ignored;
  if (fs::exists(config / "job_config.py", ignored)) return TitanForm::toml;
  return fs::exists(config / "configs.py", ignored) ? TitanForm::registry : TitanForm::unknown;
}

bool has_option(const std::vector<std::string>& words, std::string_view option) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == option || (word.starts_with(option) && word[option.size()] == '=');
  });
}

TitanForm form_of_command(const std::vector<std::string>& words) {
  if (has_option(words, "--job.config_file")) return TitanForm::toml;
  return has_option(words, "--module") ? TitanForm::registry : TitanForm::unknown;
}

}  // namespace

std::string wrong_tree_text(const SweepSpec& sweep) {
  const TrainerSpec& trainer = sweep.runner.trainer;
  // A folder with placeholders is another one at each point.
  const bool looks = trainer.log == "torchtitan" && !trainer.directory.empty() &&
      trainer.directory.find('{') == std::string::npos;
  if (!looks || sweep.container.is_used()) return {};
  const fs::path config = fs::path(trainer.directory) / "torchtitan" / "config";
  const TitanForm tree = form_of_tree(config);
  const TitanForm command = form_of_command(trainer.argv);
  if (tree == command || tree == TitanForm::unknown || command == TitanForm::unknown) return {};
  if (tree == TitanForm::registry)
    return fmt::format(
        "'argv' names a TOML file (--job.config_file), and torchtitan in {} reads none, "
        "whatever "
        "its version.txt says: it has config/configs.py and no config/job_config.py. Write "
        "--module, --config and --section.option, as 'shardsweep new --trainer torchtitan' "
        "does.",
        trainer.directory);
  return fmt::format(
      "'argv' names a recipe (--module), and torchtitan in {} reads a TOML file: it has "
      "config/job_config.py. Write --job.config_file and a file, as 'shardsweep best --emit "
      "torchtitan' prints it, or check out a tree of 2026-02-23 or later.",
      trainer.directory);
}

}  // namespace shardsweep
