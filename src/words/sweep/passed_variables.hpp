// SPDX-License-Identifier: Apache-2.0
// Variables that a sweep takes from the shell of whoever submits it.
#pragma once

#include <shardsweep/sweep.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// True if an entry of `pass_env` names this variable: NAME, or its beginning with a star. A star
/// does not take what only one shell, one rank or this program has use for.
[[nodiscard]] bool is_passed_by(std::string_view entry, std::string_view name);

struct PassedVariables {
  std::map<std::string, std::string> values;  ///< values for the file of the sweep's secrets
  std::vector<std::string> missing;           ///< names that neither file nor shell has
};

/// Takes the values of `secrets` out of the sweep, and what it passes on out of the shell
/// ("NAME=value"). A setting that is passed on (rank_variables.hpp) becomes one of `env`:
/// measurements depend on it. `kept`: values of an earlier submission, for secrets that have
/// none in the file; what the shell passes on is always taken anew.
[[nodiscard]] PassedVariables take_variables(SweepSpec& sweep,
    const std::vector<std::string>& shell, const std::map<std::string, std::string>& kept = {});

/// "WANDB_API_KEY and HF_TOKEN are not set in this shell": in a sentence.
[[nodiscard]] std::string missing_text(const std::vector<std::string>& names);

/// True if trainers and their libraries read the variable by themselves.
[[nodiscard]] bool is_read_by_libraries(std::string_view variable);

/// Variables of this shell that trainers and their libraries read, and that ranks on this
/// machine do not get.
[[nodiscard]] std::vector<std::string> withheld_variables(
    const SweepSpec& sweep, const std::vector<std::string>& shell);
/// Explains withheld variables and what to write; empty: none is withheld.
[[nodiscard]] std::string withheld_text(const std::vector<std::string>& names);

/// Words of the runner's command line that give a secret in clear: the value of an option whose
/// name says that it is one ("--api-key"), or one of `values` ("the value of HF_TOKEN").
[[nodiscard]] std::vector<std::string> secrets_in_words(
    const SweepSpec& sweep, const std::map<std::string, std::string>& values);
/// Explains secrets in words and what to write; empty: there are none.
[[nodiscard]] std::string secrets_in_words_text(const std::vector<std::string>& found);

/// Names of variables that an attempt of the sweep can't do without, in order.
[[nodiscard]] std::vector<std::string> secret_names(const SweepSpec& sweep);

}  // namespace shardsweep
