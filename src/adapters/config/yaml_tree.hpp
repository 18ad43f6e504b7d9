// SPDX-License-Identifier: Apache-2.0
// A YAML document as a tree that keeps what yaml-cpp's own nodes forget: duplicate keys are
// refused, quotes and positions are known. Bounded in every direction.
#pragma once

#include "adapters/config/source.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardsweep::config {

inline constexpr std::size_t most_yaml_bytes = 4U << 20;
inline constexpr std::size_t most_yaml_nodes = 100'000;  ///< with aliases written out
inline constexpr std::size_t most_yaml_depth = 64;
inline constexpr std::size_t most_scalar_bytes = 64U << 10;

struct YamlNode;
using YamlNodePtr = std::shared_ptr<const YamlNode>;

/// An alias is the node that it stands for, seen from a second place.
struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  bool quoted = false;
  std::string text;                ///< of a scalar, as it was meant: without quotes
  std::vector<YamlNodePtr> keys;   ///< of a map, scalars, all different
  std::vector<YamlNodePtr> items;  ///< of a list, or a map's values beside `keys`
  const Source* source = nullptr;
  int line = 0;
  int column = 0;          ///< in bytes, from 1
  std::size_t size = 1;    ///< nodes in it with aliases written out, itself included
  std::size_t height = 1;  ///< levels in it, itself included
};

/// The one document of `source`, which has to outlive the tree; a null node where it is empty.
[[nodiscard]] Result<YamlNodePtr> parse_yaml(const Source& source);
/// The same of `text`, whose lines and columns are those of `source`.
[[nodiscard]] Result<YamlNodePtr> parse_yaml(const std::string& text, const Source& source);

[[nodiscard]] Fault fault_at(const YamlNode& node, std::string_view what);

}  // namespace shardsweep::config
