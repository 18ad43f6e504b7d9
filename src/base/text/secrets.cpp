// SPDX-License-Identifier: Apache-2.0
#include "text/secrets.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace shardsweep {

bool may_be_secret(std::string_view name) {
  std::string upper;
  for (const char c : name)
    upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  constexpr std::array<std::string_view, 10> words{"TOKEN",  "SECRET", "PASSW",   "PASSPHRASE",
                                                   "APIKEY", "_KEY",   "CREDENT", "COOKIE",
                                                   "AUTH",   "PRIVATE"};
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return upper.find(word) != std::string::npos;
  });
}

}  // namespace shardsweep
