// SPDX-License-Identifier: Apache-2.0
// A text that a user wrote, and faults that point into it: position, what is wrong, the line, a
// caret.
#pragma once

#include <shardsweep/result.hpp>

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::config {

class Source {
 public:
  enum class Kind : std::uint8_t { file, flag };

  /// `name` is how messages call it: a path, or the flag as it was given.
  Source(std::string name, std::string text, Kind kind = Kind::file);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool is_file() const { return kind_ == Kind::file; }

  /// Line and column count from 1, columns in bytes; line 0: the file as a whole.
  [[nodiscard]] Fault fault_at(int line, int column, std::string_view what) const;
  /// The column as a person counts it: in characters.
  [[nodiscard]] int display_column(int line, int column) const;
  /// Without its end; empty where there is no such line.
  [[nodiscard]] std::string_view line(int number) const;
  /// The text from there to the end.
  [[nodiscard]] std::string_view from(int line, int column) const;

 private:
  std::string name_;
  std::string text_;
  Kind kind_;
  std::vector<std::size_t> starts_;  // of each line
};

/// Owns what nodes point into, for as long as a file is being loaded.
using Sources = std::deque<Source>;

/// A regular file of UTF-8 text with at most `most_bytes`, without its byte order mark.
[[nodiscard]] Result<std::string> read_text_file(const std::filesystem::path& file,
                                                 std::size_t most_bytes);
/// Faults where `source` is longer than `most_bytes` or no UTF-8 text.
[[nodiscard]] Result<void> check_text(const Source& source, std::size_t most_bytes);

}  // namespace shardsweep::config
