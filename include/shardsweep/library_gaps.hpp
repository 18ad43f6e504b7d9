// SPDX-License-Identifier: Apache-2.0
// What libc++ 14 lacks of C++20's library, in one place. The planner is also compiled to
// WebAssembly, by emscripten with that library (src/README.md, explore): there strings and
// vectors have no <=>, and std::from_chars reads no double. Each has one name here, which is
// the standard's own wherever there is one.
#pragma once

#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

namespace shardsweep {

/// a <=> b by their operator<, which strings, vectors and tuples of them have everywhere.
template <class T>
[[nodiscard]] constexpr std::strong_ordering compared(const T& a, const T& b) {
  if (a < b) return std::strong_ordering::less;
  if (b < a) return std::strong_ordering::greater;
  return std::strong_ordering::equal;
}

namespace library_gaps {

/// How many characters at the front of `text` are a decimal number as std::from_chars reads
/// one: -1.5e-3, without a plus or a space before it.
[[nodiscard]] constexpr std::size_t length_of_real(std::string_view text) {
  const auto digits = [&](std::size_t& at) {
    const auto before = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9')
      ++at;
    return at - before;
  };
  std::size_t at = text.starts_with('-') ? 1 : 0;
  auto found = digits(at);
  if (at < text.size() && text[at] == '.') {
    ++at;
    found += digits(at);
  }
  if (found == 0) return 0;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    auto end = at + 1;
    if (end < text.size() && (text[end] == '-' || text[end] == '+')) ++end;
    if (digits(end) > 0) at = end;
  }
  return at;
}

}  // namespace library_gaps

/// std::from_chars of a double; without the standard's, `inf` and `nan` are no numbers.
inline std::from_chars_result read_real(const char* first, const char* last, double& value) {
#ifdef __cpp_lib_to_chars
  return std::from_chars(first, last, value);
#else
  const std::string number(
      first, library_gaps::length_of_real({first, static_cast<std::size_t>(last - first)}));
  if (number.empty()) return {first, std::errc::invalid_argument};
  const double read = std::strtod(number.c_str(), nullptr);
  const char* end = first + number.size();
  if (read - read != 0) return {end, std::errc::result_out_of_range};
  value = read;
  return {end, std::errc()};
#endif
}

}  // namespace shardsweep
