// SPDX-License-Identifier: Apache-2.0
// Tables that are built in, in a part of YAML that needs no library: keys at the margin, lists of
// texts in quotes or of `- key: value` with further keys below, and blocks of text (`|`, `|-`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct TableValue {
  int line = 0;
  std::string_view section{};  ///< the last key at the margin
  std::string_view key{};      ///< empty: it is the section's own, or an item of a list of texts
  bool fresh = false;          ///< begins an item of a list
  std::string text{};          ///< without its quotes
};

/// In their order. Throws std::invalid_argument, which names the line.
[[nodiscard]] std::vector<TableValue> read_table(std::string_view yaml);

}  // namespace shardsweep
