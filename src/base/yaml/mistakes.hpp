// SPDX-License-Identifier: Apache-2.0
// Everything that is wrong with a user's file, collected so that it can be told at once.
// A reader notes a mistake and goes on with what does not depend on it. Where the YAML parser
// itself stopped there is one mistake alone, put into the words of what a person did.
#pragma once

#include "yaml/source.hpp"

#include <shardsweep/result.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::config {

inline constexpr std::size_t most_mistakes_shown = 20;
inline constexpr std::size_t most_mistakes_kept = 1000;

class Mistakes {
 public:
  /// `file` is what the count at the end names; its mistakes come before those of other files.
  explicit Mistakes(const Source& file) : files_{&file} {}

  /// Notes `fault`, which `at` is guilty of. The same words are noted once.
  void add(const YamlNode& at, Fault fault);
  void add(const YamlNode& at, std::string_view what);
  template <class First, class... Rest>
  void add(
      const YamlNode& at, fmt::format_string<First, Rest...> what, First&& first, Rest&&... rest) {
    add(at, fmt::format(what, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  void add(const Source& source, int line, int column, Fault fault);
  /// The value, or nothing and the fault is noted.
  template <class T>
  [[nodiscard]] std::optional<T> take(const YamlNode& at, Result<T> read) {
    if (read) return *std::move(read);
    add(at, std::move(read).error());
    return std::nullopt;
  }
  /// True if there is no fault.
  bool take(const YamlNode& at, Result<void> read) {
    if (read) return true;
    add(at, std::move(read).error());
    return false;
  }
  /// `into` takes the value, if there is one.
  template <class T, class Into>
  bool assign(Into& into, const YamlNode& at, Result<T> read) {
    auto value = take(at, std::move(read));
    const bool is_there = value.has_value();
    if (is_there) into = *std::move(value);
    return is_there;
  }

  [[nodiscard]] std::size_t count() const { return noted_.size(); }
  [[nodiscard]] bool none() const { return noted_.empty(); }
  /// A fault with all of them in the order of the file, or none.
  [[nodiscard]] Result<void> verdict() const;

 private:
  struct LocatedFault {
    std::size_t file;  // index into files_
    int line;
    int column;
    Fault fault;
  };
  [[nodiscard]] std::size_t index_of(const Source& source);

  std::vector<const Source*> files_;  // files in the order of their first mistake
  std::vector<LocatedFault> noted_;
  std::set<std::string> words_;
};

// The parser's own words differ between versions: only their beginnings are looked at, and
// unknown ones are shown.

inline constexpr std::string_view wrong_indentation =
    "wrong indentation; keys of one map and items of one list begin in the same column";
inline constexpr std::string_view open_quote = "this quote is never closed";

struct SyntaxMistake {
  int line = 0;
  int column = 0;
  std::string what;
};

/// The parser said `message` about that place.
[[nodiscard]] SyntaxMistake syntax_mistake(
    const Source& source, std::string_view message, int line, int column);

/// True if the quote that `text` begins with is closed in it.
[[nodiscard]] bool closing_quote(std::string_view text);

}  // namespace shardsweep::config
