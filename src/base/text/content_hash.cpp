// SPDX-License-Identifier: Apache-2.0
#include "text/content_hash.hpp"

#include <cstddef>

namespace shardsweep {

// state *= 2^88 + 0x13b (mod 2^128), in two halves: no 128-bit type in ISO C++.
void Fnv128::add(std::string_view bytes) {
  constexpr std::uint64_t factor = 0x13b;
  constexpr std::uint64_t low_half = 0xffffffffULL;
  for (const char c : bytes) {
    low_ ^= static_cast<unsigned char>(c);
    const std::uint64_t carry =
        ((low_ >> 32U) * factor + ((low_ & low_half) * factor >> 32U)) >> 32U;
    high_ = high_ * factor + carry + (low_ << 24U);
    low_ *= factor;
  }
}

std::string Fnv128::hex() const {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::size_t half = 16;
  std::string text(2 * half, '0');
  for (std::size_t i = 0; i < half; ++i) {
    const auto shift = 4 * (half - 1 - i);
    text[i] = digits[high_ >> shift & 0xfU];
    text[half + i] = digits[low_ >> shift & 0xfU];
  }
  return text;
}

std::string hash_of_programs(const std::map<std::string, std::string>& programs) {
  if (programs.empty()) return {};
  if (programs.size() == 1) return programs.begin()->second;
  Fnv128 all;
  for (const auto& [path, hash] : programs) {
    all.add(std::string_view(path).substr(path.rfind('/') + 1));
    all.add(std::string_view("\0", 1));
    all.add(hash);
  }
  return all.hex();
}

std::string short_hash(std::string_view hash) {
  constexpr std::size_t shown = 12;
  return std::string(hash.substr(0, shown));
}

std::string with_code(std::string_view name, std::string_view code) {
  return std::string(name) +
      (code.empty() ? " (unknown code)" : " (code " + short_hash(code) + ")");
}

}  // namespace shardsweep
