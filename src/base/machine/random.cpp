// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/random.hpp>

#include <stdlib.h>
#include <sys/random.h>

namespace shardsweep {

std::string random_hex(int digits) {
  std::string text;
  while (text.size() < static_cast<std::size_t>(digits)) {
    unsigned char byte = 0;
    // Reads of up to 256 bytes are whole and uninterrupted once the pool is ready
    // (getrandom(2)).
    if (::getrandom(&byte, sizeof byte, 0) != sizeof byte) ::abort();
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  text.resize(static_cast<std::size_t>(digits));
  return text;
}

}  // namespace shardsweep
