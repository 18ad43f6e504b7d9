// SPDX-License-Identifier: Apache-2.0
#include "text/escapes.hpp"

#include <algorithm>

namespace shardsweep {

std::string without_escapes(std::string_view text) {
  std::string plain;
  for (auto at = text.find('\x1b'); at != std::string_view::npos; at = text.find('\x1b')) {
    plain += text.substr(0, at);
    text.remove_prefix(at + 1);
    if (!text.starts_with('[')) continue;
    text.remove_prefix(std::min(text.find_first_not_of("0123456789;?", 1), text.size() - 1) + 1);
  }
  return plain.append(text);
}

}  // namespace shardsweep
