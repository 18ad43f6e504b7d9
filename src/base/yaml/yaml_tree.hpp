// SPDX-License-Identifier: Apache-2.0
// A YAML document as a tree that keeps what yaml-cpp's own nodes forget: duplicate keys are
// refused, quotes and positions are known. Bounded in every direction.
#pragma once

#include "yaml/mistakes.hpp"
#include "yaml/source.hpp"

#include <shardsweep/result.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shardsweep::config {

inline constexpr std::size_t most_yaml_bytes = 4U << 20;
inline constexpr std::size_t most_yaml_nodes = 100'000;  ///< limit with aliases written out
inline constexpr std::size_t most_yaml_depth = 64;
inline constexpr std::size_t most_scalar_bytes = 64U << 10;

/// The one document of `source`, which has to outlive the tree; a null node if it is empty.
/// Duplicate keys are noted, and the first of them is kept; after any other fault there is no
/// tree.
[[nodiscard]] std::optional<YamlNodePtr> parse_yaml(const Source& source, Mistakes& mistakes);
/// Parses `source`; its fault lists all mistakes.
[[nodiscard]] Result<YamlNodePtr> parse_yaml(const Source& source);
/// Parses `text`, whose lines and columns are those of `source`.
[[nodiscard]] Result<YamlNodePtr> parse_yaml(const std::string& text, const Source& source);

/// Writes a scalar as YAML that the readers read back to the same value: plain if YAML reads it so,
/// else in double quotes.
[[nodiscard]] std::string yaml_text(std::string_view text);

}  // namespace shardsweep::config
