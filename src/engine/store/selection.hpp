// SPDX-License-Identifier: Apache-2.0
// What rows a user means: names, and an expression over the columns of `results`.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/store.hpp>

#include <string>
#include <vector>

namespace shardsweep::sqlite {

/// Names resolved to sweeps and trials, as JSON arrays of ids to be bound.
struct ResolvedNames {
  bool all = true;
  std::string sweeps = "[]";
  std::string trials = "[]";
};

/// Sweeps, slugs, attempts (`slug.2`), both as `sweep/slug` too, and job ids. An unknown name
/// is a fault, and so is a slug of several sweeps.
[[nodiscard]] ResolvedNames resolve_names(
    Database& database, const std::vector<std::string>& names);

/// A condition on `t` (trials) with two parameters, ResolvedNames::sweeps and
/// ResolvedNames::trials; both are bound where it says all, too.
[[nodiscard]] std::string chosen_condition(
    const ResolvedNames& chosen, const std::string& sweep, const std::string& trial);

/// The columns of `results`.
[[nodiscard]] std::vector<std::string> result_columns(Database& database);
[[nodiscard]] std::vector<std::string> columns_of_view(Database& database, const std::string& view);

/// The free axes of the chosen sweeps that can be named in an expression.
[[nodiscard]] std::vector<std::string> chosen_vars(Database& database, const ResolvedNames& chosen);

/// ", json_extract(<vars>, …) AS name" for each.
[[nodiscard]] std::string var_columns(
    const std::vector<std::string>& vars, const std::string& column);

/// `where` checked to be one expression over the columns of `results` and `vars`, and nothing
/// else: no statement, no sub-query, no function with an effect. Empty: "1".
[[nodiscard]] std::string checked_where(
    Database& database, const std::string& where, const std::vector<std::string>& vars);

// Meaning of a verb's names and expression mean, for the daemon and for those who only ask.

/// See Store::select_trials().
[[nodiscard]] TrialSelection selected(
    Database& database, const std::vector<std::string>& names, const std::string& where);

}  // namespace shardsweep::sqlite
