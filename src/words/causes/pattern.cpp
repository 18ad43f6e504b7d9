// SPDX-License-Identifier: Apache-2.0
#include "causes/pattern.hpp"

#include <algorithm>

namespace shardsweep {
namespace {

/// Takes the next piece off `pattern`, with its star.
std::string_view next_piece(std::string_view& pattern) {
  const std::string_view piece = pattern.substr(0, pattern.find('*'));
  pattern.remove_prefix(std::min(piece.size() + 1, pattern.size()));
  return piece;
}

}  // namespace

bool matches(std::string_view line, std::string_view pattern) {
  bool any = false;
  while (!pattern.empty()) {
    const std::string_view piece = next_piece(pattern);
    const std::size_t found = line.find(piece);
    if (found == std::string_view::npos) return false;
    line.remove_prefix(found + piece.size());
    any = any || !piece.empty();
  }
  return any;
}

std::string_view longest_piece(std::string_view pattern) {
  std::string_view longest;
  while (!pattern.empty()) {
    const std::string_view piece = next_piece(pattern);
    if (piece.size() > longest.size()) longest = piece;
  }
  return longest;
}

}  // namespace shardsweep
