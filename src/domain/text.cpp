// SPDX-License-Identifier: Apache-2.0
#include "domain/text.hpp"

#include <array>
#include <cmath>
#include <string_view>

namespace shardsweep {

std::string grouped(std::int64_t value) {
  auto text = std::to_string(value);
  const std::size_t first = text.front() == '-' ? 1 : 0;
  for (auto at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string amount_text(double value) {
  constexpr double large = 999.5;  // from here three digits would need an exponent
  return value < large ? fmt::format("{:.3g}", value)
                       : grouped(static_cast<std::int64_t>(std::llround(value)));
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  constexpr double step = 1024;
  std::size_t unit = 0;
  while (bytes >= step && unit + 1 < units.size()) {
    bytes /= step;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, decimals, units[unit]);
}

void append_text(fmt::memory_buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

void append_integer(fmt::memory_buffer& out, std::int64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.data() + digits.size());
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

}  // namespace shardsweep
