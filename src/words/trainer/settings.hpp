// SPDX-License-Identifier: Apache-2.0
// The leaves of flags, overrides, YAML, TOML and JSON: names and values, whatever they are
// nested in.
#pragma once

#include "trainer/layout_words.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace shardsweep {

/// True if a switch with this value is on; a switch without a value is on.
[[nodiscard]] bool says_true(std::string_view value);

/// A word as it stands in a text.
struct Setting {
  std::string word, value;
};

class Settings {
 public:
  /// `--flag value`, `--flag=value` and `--flag`, between blanks; quotes are taken off, and
  /// comments (#) passed over.
  [[nodiscard]] static Settings of_flags(std::string_view text);
  /// `section.name=value` between blanks, with or without + or -- in front; other words and
  /// comments are passed over. A section may be given as a map: `section={name: value}`.
  [[nodiscard]] static Settings of_overrides(std::string_view text);
  /// `name: value`, `name = value` and `"name": value`, each on a line or between braces and
  /// commas, with _ for each - in a name; of a name that stands in several places the last
  /// counts. `${section.name}` is what stands there, `${NAME:value}` and `${NAME:-value}` that
  /// value. A list of `- item` lines is one value. Comments (#) are passed over, and so is what is
  /// nested in the section `without`.
  [[nodiscard]] static Settings of_lines(std::string_view text, std::string_view without = {});
  /// `--section.name=value`, `--section.name value` and `--section.name`, as of_lines() has them.
  [[nodiscard]] static Settings of_nested_flags(std::string_view text);
  /// Reads settings in the form that a trainer has, or in the other one that it is read in.
  [[nodiscard]] static Settings of(const LayoutWords& words, std::string_view text);

  /// True of of_lines() and of of_nested_flags(): names stand in sections, and are found by their
  /// last part. A switch is on if its value is true.
  [[nodiscard]] bool is_nested() const { return is_nested_; }
  /// True unless they are of of_lines(): words of a command, which a script may hold.
  [[nodiscard]] bool is_command() const { return is_command_; }
  [[nodiscard]] bool has_any(const std::set<std::string, std::less<>>& plain_names) const;

  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
  /// Empty if it is missing.
  [[nodiscard]] std::string_view text(std::string_view name) const;
  /// Finds a word by its bare name; lines are also found with their section's name: section_name.
  /// Null if it is missing.
  [[nodiscard]] const Setting* plain(std::string_view name) const;
  /// All values of a flag as one text; empty if it is missing.
  [[nodiscard]] std::string_view list(std::string_view name) const;

 private:
  using Texts = std::map<std::string, std::string, std::less<>>;
  void add_plain_names();

  bool is_nested_ = false;
  bool is_command_ = true;
  Texts values_;
  Texts by_path_;
  std::map<std::string, Setting, std::less<>> by_plain_name_;
  Texts lists_;
};

}  // namespace shardsweep
