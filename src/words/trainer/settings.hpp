// SPDX-License-Identifier: Apache-2.0
// The leaves of flags, overrides, YAML, TOML and JSON: names and values, whatever they are
// nested in.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace shardsweep {

class Settings {
 public:
  /// `--flag value`, `--flag=value` and `--flag`, between blanks; of a flag that takes a list
  /// all values, with blanks; quotes are taken off, and comments (#) passed over.
  [[nodiscard]] static Settings of_flags(std::string_view text);
  /// `section.name=value` between blanks, with or without + in front; other words and comments
  /// are passed over.
  [[nodiscard]] static Settings of_overrides(std::string_view text);
  /// `name: value`, `name = value` and `"name": value`, each on a line or between braces and
  /// commas; of a name that stands in several places the last counts. `${section.name}` is what
  /// stands there. Comments (#) are passed over, and so is what is nested in the section
  /// `without`.
  [[nodiscard]] static Settings of_lines(std::string_view text, std::string_view without = {});
  /// The same with _ for each - in a name.
  [[nodiscard]] Settings with_underscores() const;

  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
  /// Empty where it is missing.
  [[nodiscard]] std::string_view text(std::string_view name) const;
  /// `fallback` where it is missing, -1, null or None; a value that is no whole number from 0 is
  /// a fault.
  [[nodiscard]] Result<std::int64_t> number(std::string_view name, std::int64_t fallback) const;
  [[nodiscard]] bool is_true(std::string_view name) const;
  /// Of lines: of a name in the section that it stands in; empty where it is missing.
  [[nodiscard]] std::string_view text_in(std::string_view section, std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> by_path_;
};

/// A trainer's own text, in the form that it has: flags, overrides, or lines.
[[nodiscard]] Settings settings_of(std::string_view trainer, std::string_view text);

}  // namespace shardsweep
