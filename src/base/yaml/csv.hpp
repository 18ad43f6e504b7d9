// SPDX-License-Identifier: Apache-2.0
// CSV as in RFC 4180, with the position of every cell.
#pragma once

#include "yaml/source.hpp"
#include "yaml/yaml_tree.hpp"

#include <cstddef>
#include <vector>

namespace shardsweep::config {

struct CsvLimits {
  std::size_t bytes = most_yaml_bytes;
  std::size_t cells = most_yaml_nodes;
};

/// Rows of cells as nodes, so that one set of readers serves both kinds of file: an unquoted
/// empty cell is null. Rows have one length; blank lines are passed over.
[[nodiscard]] Result<std::vector<std::vector<YamlNode>>> parse_csv(
    const Source& source, const CsvLimits& limits = {});

}  // namespace shardsweep::config
