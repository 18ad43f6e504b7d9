// SPDX-License-Identifier: Apache-2.0
// Assertions that live in release and name what they have seen. A broken one is a defect of the
// runner: it ends the rank as `internal`, and the values stand in its error record. Never about
// what was asked for: that is refused (rules.hpp).
//
//   SHARDBENCH_INVARIANT(held == 0, "each forward has its backward", rank, held);
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace shardbench {

/// Takes the next name off "a.b, f(c, d)".
inline std::string_view next_name(std::string_view& names) {
  int depth = 0;
  std::size_t end = 0;
  for (; end < names.size() && (names[end] != ',' || depth != 0); ++end) {
    depth += names[end] == '(' ? 1 : 0;
    depth -= names[end] == ')' ? 1 : 0;
  }
  const std::string_view name = names.substr(0, end);
  names.remove_prefix(end < names.size() ? end + 1 : end);
  while (names.starts_with(' '))
    names.remove_prefix(1);
  return name;
}

/// The text of the values is made here, if the condition has failed.
template <class... Values>
[[noreturn, gnu::cold, gnu::noinline]] void broken_invariant(
    const char* file, int line, std::string_view names, const char* what, const Values&... values) {
  std::string_view place = file;
  if (const auto at = place.rfind("/src/"); at != place.npos) place.remove_prefix(at + 5);
  std::string text = std::string("broken invariant: ") + what + " (" + std::string(place) + ":" +
      std::to_string(line);
  [[maybe_unused]] const auto add = [&](const std::string& value) {
    text += ", " + std::string(next_name(names)) + " = " + value;
  };
  (add(std::to_string(values)), ...);
  fail(ErrorClass::internal, text + ")");
}

}  // namespace shardbench

#define SHARDBENCH_INVARIANT(condition, ...)                                  \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::shardbench::broken_invariant(                                         \
          __FILE__, __LINE__, SHARDBENCH_NAMES_(__VA_ARGS__, ), __VA_ARGS__); \
  } while (false)
/// The text of all but the first, which is what holds.
#define SHARDBENCH_NAMES_(what, ...) #__VA_ARGS__
