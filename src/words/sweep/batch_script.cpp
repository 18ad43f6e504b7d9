// SPDX-License-Identifier: Apache-2.0
// All that the plan knows is written out, in single quotes where a shell could read something
// into it; what only the job knows becomes a variable. Files of a trainer are here-documents
// that bash leaves alone. So the script runs where nothing of ours is installed.
#include "sweep/batch_script.hpp"

#include "sweep/launch.hpp"
#include "sweep/passed_variables.hpp"
#include "sweep/trainer_command.hpp"
#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view job_folder = "@job_folder@";

/// Values that the shell fills in, each with the text that stands for it until then.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> known_to_the_shell{
    {{job_folder, "$job_folder"}, {"{rank}", "$RANK"}, {"{local_rank}", "$LOCAL_RANK"},
        {"{node_rank}", "$NODE_RANK"}, {"{master_addr}", "$MASTER_ADDR"},
        {"{master_port}", "$MASTER_PORT"}}};

bool is_plain(std::string_view text) {
  constexpr std::string_view safe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  return !text.empty() && text.find_first_not_of(safe) == std::string_view::npos;
}

std::string single_quoted(std::string_view text) {
  return is_plain(text) ? std::string(text) : shell_quoted(text);
}

/// A word for bash. What only the job knows becomes a variable.
std::string shell_word(std::string_view word) {
  std::string out;
  while (!word.empty()) {
    std::size_t first = word.size();
    const std::pair<std::string_view, std::string_view>* known = nullptr;
    for (const auto& one : known_to_the_shell) {
      const auto at = word.find(one.first);
      if (at < first) {
        first = at;
        known = &one;
      }
    }
    if (first > 0) out += single_quoted(word.substr(0, first));
    if (known == nullptr) return out;
    out += fmt::format("\"{}\"", known->second);
    word.remove_prefix(first + known->first.size());
  }
  return out.empty() ? "''" : out;
}

std::string here_document(std::string_view file, std::string_view text) {
  std::string end = "END";
  while (text.find(end) != std::string_view::npos)
    end += "_END";
  // Quoted: bash fills nothing in. The folder's name is put in afterwards.
  return fmt::format("sed \"s|{}|$job_folder|g\" >\"$job_folder/{}\" <<'{}'\n{}{}{}\n", job_folder,
      file, end, text, text.ends_with('\n') ? "" : "\n", end);
}

std::string rank_script(const AttemptSpec& spec) {
  const bool per_node = spec.trainer && spec.trainer->per_node;
  std::string text = per_node
      ? "export NODE_RANK=$SLURM_NODEID NNODES=$SLURM_NNODES\n"
        "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE\n"
      : fmt::format(
            "export RANK=$SLURM_PROCID WORLD_SIZE={} LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE={} "
            "NODE_RANK=$SLURM_NODEID\n",
            spec.world, spec.ranks_per_node);
  if (spec.trainer && !spec.trainer->directory.empty())
    text += fmt::format("cd {}\n", shell_word(spec.trainer->directory));
  text += "exec";
  for (const auto& word : spec.argv)
    text += " " + shell_word(word);
  return text + "\n";
}

}  // namespace

std::string batch_script(const SweepSpec& sweep, const Point& point, const BatchScript& about) {
  const AttemptSpec spec = attempt_spec(sweep, point,
      {.attempt = 0,
          .trial = about.name,
          .nonce = "batch",
          .token = "",
          .program = about.program,
          .paths = {std::string(job_folder)},
          .slots_per_node = about.slots_per_node});
  const auto nodes = (spec.world + spec.ranks_per_node - 1) / spec.ranks_per_node;
  const bool per_node = spec.trainer && spec.trainer->per_node;
  std::string text = fmt::format(
      "#!/bin/bash\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n",
      about.name, nodes, per_node ? 1 : spec.ranks_per_node);
  if (!sweep.cluster.gpu.empty())
    text += fmt::format("#SBATCH --gpus-per-node={}\n", spec.ranks_per_node);
  text += fmt::format("# {}\nset -euo pipefail\n", about.comment);
  text += "export job_folder=$PWD/$SLURM_JOB_NAME.$SLURM_JOB_ID\nmkdir -p \"$job_folder\"\n";
  text +=
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
      "export MASTER_ADDR=${MASTER_ADDR%%$'\\n'*} MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000))\n";
  for (const auto& [name, value] : spec.env)
    text += fmt::format("export {}={}\n", name, single_quoted(value));
  for (const auto& name : secret_names(sweep))
    text += fmt::format("export {0}=\"${{{0}:?}}\"  # of the shell that submits\n", name);
  for (const auto& [name, file] :
      trainer_files(sweep, point, std::string(job_folder), spec.ranks_per_node))
    text += here_document(name, file);
  text += fmt::format("cat >\"$job_folder/rank.sh\" <<'RANK'\n{}RANK\n", rank_script(spec));
  return text + "srun --export=ALL bash \"$job_folder/rank.sh\"\n";
}

}  // namespace shardsweep
