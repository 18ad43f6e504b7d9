// SPDX-License-Identifier: Apache-2.0
// Nodes into values, strictly; every fault stands at the node that caused it.
#pragma once

#include "text/units.hpp"
#include "yaml/mistakes.hpp"
#include "yaml/yaml_tree.hpp"

#include <fmt/core.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::config {

inline constexpr std::size_t most_text_bytes = 1024;

enum class Lines : std::uint8_t { one, many };

[[nodiscard]] tl::unexpected<Fault> refuse(const YamlNode& node, std::string_view what);
template <class First, class... Rest>
[[nodiscard]] tl::unexpected<Fault> refuse(
    const YamlNode& node, fmt::format_string<First, Rest...> what, First&& first, Rest&&... rest) {
  return refuse(node, fmt::format(what, std::forward<First>(first), std::forward<Rest>(rest)...));
}
/// "a list", "nothing", "'8' in quotes": what stands there, for "expected …, got …".
[[nodiscard]] std::string describe(const YamlNode& node);

/// Faults if `node` is no map or no list; `what` names it: "'axes'".
[[nodiscard]] Result<void> expect_map(const YamlNode& node, std::string_view what);
[[nodiscard]] Result<void> expect_list(const YamlNode& node, std::string_view what);
/// Notes every key that is not in `known`, with the one that was probably meant. `elsewhere` says
/// of a key where it belongs, if that is another file or place; empty: nowhere.
void check_keys(const YamlNode& map, std::string_view what,
    const std::vector<std::string_view>& known, Mistakes& mistakes,
    std::string (*elsewhere)(std::string_view) = nullptr);
/// The value at `key`; nullptr if there is none.
[[nodiscard]] const YamlNode* find(const YamlNode& map, std::string_view key);
/// True if a key of the map is nearly written so: check_keys() has noted that one.
[[nodiscard]] bool is_misspelt(const YamlNode& map, std::string_view key);
/// find(); a key that is missing and not misspelt is noted.
[[nodiscard]] const YamlNode* need(
    const YamlNode& map, std::string_view what, std::string_view key, Mistakes& mistakes);

[[nodiscard]] Result<std::string> read_text(const YamlNode& node, std::string_view what,
    std::size_t most_bytes = most_text_bytes, Lines lines = Lines::one);
/// A text that is_name(): safe in paths, job names and scripts.
[[nodiscard]] Result<std::string> read_name(const YamlNode& node, std::string_view what);
[[nodiscard]] Result<std::vector<std::string>> read_texts(
    const YamlNode& node, std::string_view what);
[[nodiscard]] Result<std::int64_t> read_count(const YamlNode& node, const Range& range);
[[nodiscard]] Result<std::int64_t> read_bytes(const YamlNode& node, const Range& range);
[[nodiscard]] Result<bool> read_bool(const YamlNode& node, std::string_view what);
/// Reads a real number with `parse`; `kind` names what is expected: "a duration".
[[nodiscard]] Result<double> read_real(const YamlNode& node, std::string_view what,
    std::string_view kind, Parsed<double> (*parse)(std::string_view));
/// Explains why only the tool may set this variable; empty for all other variables.
[[nodiscard]] std::string_view owned_variable(std::string_view name);
enum class Stars : std::uint8_t { none, may_end };
/// Names of environment variables; with `may_end` also the beginnings of names and a star.
[[nodiscard]] Result<std::vector<std::string>> read_passed_names(const YamlNode& node, Stars stars);
/// Environment variables; those that the tool sets itself are refused. `what`: the key that has
/// them.
[[nodiscard]] std::map<std::string, std::string> read_environment(
    const YamlNode& node, Mistakes& mistakes, std::string_view what = "'env'");

}  // namespace shardsweep::config
