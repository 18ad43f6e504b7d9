// SPDX-License-Identifier: Apache-2.0
#include "text/pieces.hpp"

#include <cstddef>

// libc++ has from_chars for whole numbers alone, and the explorer's module is compiled with it.
#ifndef __cpp_lib_to_chars
#include <locale>
#include <sstream>
#include <string>
#endif

namespace shardsweep {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(mark);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <>
std::optional<double> number_from<double>(std::string_view text) {
  double number = 0;
#ifdef __cpp_lib_to_chars
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
#else
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  if (!(stream >> std::noskipws >> number) ||
      stream.peek() != std::istringstream::traits_type::eof())
    return std::nullopt;
#endif
  return number;
}

}  // namespace shardsweep
