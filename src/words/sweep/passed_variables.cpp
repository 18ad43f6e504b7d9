// SPDX-License-Identifier: Apache-2.0
#include "sweep/passed_variables.hpp"

#include "text/secrets.hpp"

#include <shardsweep/rank_variables.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace shardsweep {
namespace {

bool is_pattern(std::string_view entry) {
  return entry.ends_with('*');
}

/// Each rank, shell or program has a value of its own.
bool is_of_one_process(std::string_view name) {
  constexpr std::array<std::string_view, 15> names{"RANK", "WORLD_SIZE", "LOCAL_RANK",
      "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "NOTIFY_SOCKET",
      "_", "PWD", "OLDPWD", "SHLVL", "TERM", "NODE_RANK", "NNODES"};
  return std::find(names.begin(), names.end(), name) != names.end() ||
      name.starts_with("SHARDSWEEP_") || name.starts_with("SLURM") || name.starts_with("BASH_");
}

}  // namespace

bool is_passed_by(std::string_view entry, std::string_view name) {
  if (!is_pattern(entry)) return entry == name;
  return name.starts_with(entry.substr(0, entry.size() - 1)) && !is_of_one_process(name);
}

PassedVariables take_variables(SweepSpec& sweep, const std::vector<std::string>& shell,
    const std::map<std::string, std::string>& kept) {
  std::map<std::string, std::string> set;
  for (const std::string& entry : shell) {
    if (const auto equals = entry.find('='); equals != std::string::npos && equals > 0)
      set.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  PassedVariables passed;
  for (auto& [name, value] : sweep.secrets) {
    for (const auto* source : {&kept, &std::as_const(set)}) {
      if (const auto found = source->find(name); value.empty() && found != source->end())
        value = found->second;
    }
    if (value.empty()) passed.missing.push_back(name);
    passed.values.emplace(name, std::exchange(value, {}));
  }
  for (const std::string& entry : sweep.pass_env) {
    if (!is_pattern(entry) && !set.contains(entry)) passed.missing.push_back(entry);
    for (const auto& [name, value] : set) {
      if (!is_passed_by(entry, name)) continue;
      if (is_setting(name)) {
        sweep.env.emplace(name, value);
      } else if (!sweep.env.contains(name)) {
        passed.values.emplace(name, value);
      }
    }
  }
  std::erase_if(sweep.pass_env, [](const std::string& entry) { return is_setting(entry); });
  return passed;
}

std::string missing_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto* const between = i == 0 ? "" : i + 1 == names.size() ? " and " : ", ";
    text += between + names[i];
  }
  return fmt::format("{} {} not set in this shell", text, names.size() == 1 ? "is" : "are");
}

bool is_read_by_libraries(std::string_view variable) {
  constexpr std::array<std::string_view, 22> of_trainers{"HF_", "WANDB_", "TRANSFORMERS_", "TORCH",
      "NCCL_", "CUDA_", "OMP_", "MKL_", "TRITON_", "MLFLOW_", "COMET_", "XLA_", "NVTE_", "UCX_",
      "GLOO_", "PYTORCH_", "CUDNN_", "CUBLAS_", "RCCL_", "HSA_", "HIP_", "FI_"};
  return std::any_of(of_trainers.begin(), of_trainers.end(),
      [&](std::string_view it) { return variable.starts_with(it); });
}

std::vector<std::string> withheld_variables(
    const SweepSpec& sweep, const std::vector<std::string>& shell) {
  std::vector<std::string> names;
  for (const std::string& entry : shell) {
    const std::string name = entry.substr(0, entry.find('='));
    const bool is_passed = is_passed_on(name) || sweep.env.contains(name) ||
        sweep.secrets.contains(name) ||
        std::any_of(sweep.pass_env.begin(), sweep.pass_env.end(),
            [&](const auto& passed) { return is_passed_by(passed, name); });
    if (is_read_by_libraries(name) && !is_passed) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string withheld_text(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return fmt::format(
      "this shell has {}, which the ranks do not get; 'pass_env: [{}]' in the sweep file passes {} "
      "on",
      fmt::join(names, ", "), fmt::join(names, ", "), names.size() == 1 ? "it" : "them");
}

namespace {

/// Counts, switches and placeholders are no secrets.
bool may_be_value(std::string_view text) {
  return text.size() >= shortest_masked && !text.starts_with('-') &&
      text.find('{') == std::string_view::npos && text != "true" && text != "false" &&
      text != "none" && text != "None" && text != "True" && text != "False" &&
      text.find_first_not_of("0123456789.,e+-") != std::string_view::npos;
}

/// "--hf-token=x" and "--hf-token", "x": the option, if its name says that x is a secret.
std::string telling_option(std::string_view word, std::string_view next) {
  if (!word.starts_with('-')) return {};
  const auto equals = word.find('=');
  const std::string_view option = word.substr(0, equals);
  std::string name(option.substr(std::min(option.find_first_not_of('-'), option.size())));
  std::replace(name.begin(), name.end(), '-', '_');
  const auto value = equals == std::string_view::npos ? next : word.substr(equals + 1);
  return may_be_secret(name) && may_be_value(value) ? std::string(option) : std::string();
}

}  // namespace

std::vector<std::string> secrets_in_words(
    const SweepSpec& sweep, const std::map<std::string, std::string>& values) {
  std::vector<std::string> found;
  for (const auto* words : {&sweep.runner.trainer.argv, &sweep.runner.args}) {
    for (std::size_t i = 0; i < words->size(); ++i) {
      const std::string& word = (*words)[i];
      const std::string next = i + 1 < words->size() ? (*words)[i + 1] : std::string();
      const auto known = std::find_if(values.begin(), values.end(), [&](const auto& one) {
        return one.second.size() >= shortest_masked && word.find(one.second) != std::string::npos;
      });
      std::string what = telling_option(word, next);
      if (what.empty() && known != values.end()) what = "the value of " + known->first;
      if (what.empty() && !secret_by_form(word).empty()) what = "a password or token";
      if (!what.empty()) found.push_back(std::move(what));
    }
  }
  return found;
}

std::string secrets_in_words_text(const std::vector<std::string>& found) {
  if (found.empty()) return {};
  return fmt::format(
      "The runner's command line has a secret in clear ({}). It is stored and shown, and each user "
      "of a node can read it with 'ps'. Write the value under 'secrets', and let the program read "
      "its environment.",
      fmt::join(found, ", "));
}

std::vector<std::string> secret_names(const SweepSpec& sweep) {
  std::vector<std::string> names;
  for (const auto& [name, value] : sweep.secrets)
    names.push_back(name);
  std::copy_if(sweep.pass_env.begin(), sweep.pass_env.end(), std::back_inserter(names),
      [](const std::string& entry) { return !is_pattern(entry); });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace shardsweep
