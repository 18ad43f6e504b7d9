// SPDX-License-Identifier: Apache-2.0
#include "text/masked_pieces.hpp"

#include "text/secrets.hpp"

#include <algorithm>
#include <cstddef>

namespace shardsweep {

std::string MaskedPieces::take(std::string_view piece) {
  std::string text = masked(std::exchange(held_, {}).append(piece), secrets_);
  std::size_t held = 0;
  for (const auto& [name, value] : secrets_) {
    if (value.size() < shortest_masked) continue;
    std::size_t length = std::min(text.size(), value.size() - 1);
    while (length > held && !text.ends_with(std::string_view(value).substr(0, length)))
      --length;
    held = std::max(held, length);
  }
  held_ = text.substr(text.size() - held);
  text.resize(text.size() - held);
  return text;
}

}  // namespace shardsweep
