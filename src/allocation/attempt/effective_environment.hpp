// SPDX-License-Identifier: Apache-2.0
// What a rank really found in its environment: an image, a hook of the site or a wrapper may
// have changed what it was given. Pure.
#pragma once

#include <shardsweep/protocol.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

using Variables = std::map<std::string, std::string, std::less<>>;

/// Parses /proc/PID/environ: entries end with a zero byte.
[[nodiscard]] Variables variables_in(std::string_view environ);
[[nodiscard]] Variables variables_of(const std::vector<std::string>& entries);

/// Wraps the command in one that writes the environment it finds into `file`, for its owner alone:
/// there may be secrets in it. It needs `sh` and `env`.
[[nodiscard]] std::vector<std::string> telling_environment(
    const std::vector<std::string>& command, const std::string& file);
/// Environment of one of our own processes, in the form that telling_environment() writes.
[[nodiscard]] std::string told_text(const std::vector<std::string>& entries);
/// Parses the written environment; empty while it is incomplete.
[[nodiscard]] Variables told_environment(std::string_view text);

/// Variables that must arrive in a container unchanged: the ones by which ranks find each other,
/// and the ones of the sweep file and its container. `given`: the rank's environment. A launcher
/// numbers its ranks by itself.
[[nodiscard]] Variables wanted_inside(const AttemptSpec& spec, const Variables& given);

struct VariableOverride {
  std::string name;
  std::string wanted;
  std::string found;  ///< "nothing" if it is not set
  friend bool operator==(const VariableOverride&, const VariableOverride&) = default;
};
[[nodiscard]] std::vector<VariableOverride> overridden(
    const Variables& wanted, const Variables& found);
/// A sentence that names each variable with both values, and those of secrets without:
/// `secrets` are the attempt's, whatever their names say.
[[nodiscard]] std::string describe(const std::vector<VariableOverride>& changes,
    const std::string& image, const std::vector<std::string>& secrets = {});

/// Prepares variables for the database: values of secrets are hidden (text/secrets.hpp), long
/// values and long lists are cut. On a host without a container the rest of a user's environment is
/// nobody's matter: then `wanted`, and what libraries read.
enum class Keeping : std::uint8_t { all, of_the_rank };
[[nodiscard]] Variables for_keeping(const Variables& variables, const Variables& wanted,
    Keeping keeping, const std::vector<std::string>& secrets = {});

/// True if these are the arguments of the rank's own command, and not of a runtime that is
/// about to start it: a script has its interpreter in front.
[[nodiscard]] bool is_command_of_rank(
    const std::vector<std::string>& arguments, const std::vector<std::string>& command);

}  // namespace shardsweep
