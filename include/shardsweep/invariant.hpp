// SPDX-License-Identifier: Apache-2.0
// Assertions that live in release. INVARIANT(condition, what, values…) throws where the program
// contradicts itself: its next step would be built on something that is not so. The values are
// named by their own text, and that text is made only if the condition fails.
//
//   INVARIANT(row.state == State::ended, "what counts has ended", row.id, row.state);
//
// Never about what others wrote (files, logs, Slurm, a runner's records): these are faults, and
// faults are values. NDEBUG changes nothing.
#pragma once

#include <shardsweep/words.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep {

class BrokenInvariant : public std::exception {
 public:
  std::string place;      ///< "fleet/fold.cpp:123": stable within one version
  std::string condition;  ///< condition as it stands in the source
  std::string what_holds;
  std::string values;      ///< "row.id = 7, row.state = running"
  std::int64_t sweep = 0;  ///< sweep at work; 0: not known

  BrokenInvariant(std::string at, std::string_view condition_text, std::string_view rule,
      std::string value_text)
      : place(std::move(at)),
        condition(condition_text),
        what_holds(rule),
        values(std::move(value_text)),
        text_(place + ": broken: " + what_holds + " (" + condition +
            (values.empty() ? ")" : "; " + values + ")")) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

namespace invariants {

/// Seen from src, include or tests: where the checkout lies is nobody's business.
[[nodiscard]] inline std::string place_of(std::string_view file, int line) {
  std::size_t begin = 0;
  for (const std::string_view root : {"/src/", "/include/shardsweep/", "/tests/"}) {
    const auto at = file.rfind(root);
    if (at != file.npos && at + root.size() > begin) begin = at + root.size();
  }
  file.remove_prefix(begin);
  return std::string(file) + ":" + std::to_string(line);
}

template <class T>
[[nodiscard]] std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (Worded<T>) {
    const auto at = static_cast<std::size_t>(value);
    return at < word_table<T>.size() ? std::string(word_table<T>[at])
                                     : "no word: " + std::to_string(at);
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(value);
  } else {
    constexpr std::size_t longest = 200;
    return "'" + std::string(std::string_view(value).substr(0, longest)) + "'";
  }
}
template <class T>
[[nodiscard]] std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "none";
}

/// Takes the next name off "a.b, f(c, d)".
[[nodiscard]] inline std::string_view next_name(std::string_view& names) {
  int depth = 0;
  std::size_t end = 0;
  for (; end < names.size(); ++end) {
    const char c = names[end];
    if (c == ',' && depth == 0) break;
    depth += c == '(' || c == '[' || c == '{' ? 1 : 0;
    depth -= c == ')' || c == ']' || c == '}' ? 1 : 0;
  }
  const std::string_view name = names.substr(0, end);
  names.remove_prefix(end < names.size() ? end + 1 : end);
  while (names.starts_with(' '))
    names.remove_prefix(1);
  return name;
}

template <class... Values>
[[noreturn, gnu::cold, gnu::noinline]] void broken(const char* condition, const char* file,
    int line, std::string_view names, std::string_view what, const Values&... values) {
  std::string text;
  [[maybe_unused]] const auto add = [&](const std::string& value) {
    text += (text.empty() ? "" : ", ") + std::string(next_name(names)) + " = " + value;
  };
  (add(text_of(values)), ...);
  throw BrokenInvariant(place_of(file, line), condition, what, std::move(text));
}

}  // namespace invariants

/// Blames this sweep for what goes wrong in `work`. An unexpected exception is a broken invariant
/// too: that it could not be thrown. `file` and `line` are the caller's.
template <class Work>
decltype(auto) in_work_of(std::int64_t sweep, Work&& work, const char* file = __builtin_FILE(),
    int line = __builtin_LINE()) {
  try {
    return std::forward<Work>(work)();
  } catch (BrokenInvariant& broken) {
    if (broken.sweep == 0) broken.sweep = sweep;
    throw;
  } catch (const std::exception& unexpected) {
    BrokenInvariant broken(
        invariants::place_of(file, line), unexpected.what(), "nothing below throws", "");
    broken.sweep = sweep;
    throw broken;
  }
}

}  // namespace shardsweep

#define INVARIANT(condition, ...)                                                         \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::shardsweep::invariants::broken(                                                   \
          #condition, __FILE__, __LINE__, SHARDSWEEP_NAMES_(__VA_ARGS__, ), __VA_ARGS__); \
  } while (false)
/// The text of all but the first, which is what holds.
#define SHARDSWEEP_NAMES_(what, ...) #__VA_ARGS__
