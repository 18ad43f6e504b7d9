// SPDX-License-Identifier: Apache-2.0
// A value of a user's file, with the place where it stands.
#pragma once

#include "yaml/source.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardsweep::config {

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

}  // namespace shardsweep::config
