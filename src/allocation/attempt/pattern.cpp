// SPDX-License-Identifier: Apache-2.0
#include "attempt/pattern.hpp"

#include <algorithm>

namespace shardsweep {

bool is_pattern(std::string_view pattern) {
  return pattern.find_first_not_of('*') != std::string_view::npos;
}

bool matches(std::string_view line, std::string_view pattern) {
  if (!is_pattern(pattern)) return false;
  while (!pattern.empty()) {
    const std::size_t end = std::min(pattern.find('*'), pattern.size());
    const std::string_view piece = pattern.substr(0, end);
    const std::size_t found = line.find(piece);
    if (found == std::string_view::npos) return false;
    line.remove_prefix(found + piece.size());
    pattern.remove_prefix(std::min(end + 1, pattern.size()));
  }
  return true;
}

}  // namespace shardsweep
