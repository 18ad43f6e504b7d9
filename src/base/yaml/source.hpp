// SPDX-License-Identifier: Apache-2.0
// A text that a user wrote, the values in it, and faults that point into it: position, what is
// wrong, the line, a caret. A value keeps its place, so that a fault found long after parsing
// still shows the line that has to be mended.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
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
  /// Text of a line without its line end; empty if there is no such line.
  [[nodiscard]] std::string_view line(int number) const;
  /// The text from there to the end.
  [[nodiscard]] std::string_view from(int line, int column) const;

 private:
  /// Line for a message: values of secrets are hidden.
  [[nodiscard]] std::string shown_line(int number) const;

  std::string name_;
  std::string text_;
  Kind kind_;
  std::vector<std::size_t> starts_;  // first byte of each line
};

/// Owns what nodes point into, for as long as a file is being loaded.
using Sources = std::deque<Source>;

/// A regular file of UTF-8 text with at most `most_bytes`, without its byte order mark.
[[nodiscard]] Result<std::string> read_text_file(
    const std::filesystem::path& file, std::size_t most_bytes);
/// Faults if `source` is longer than `most_bytes` or no UTF-8 text.
[[nodiscard]] Result<void> check_text(const Source& source, std::size_t most_bytes);

struct YamlNode;
using YamlNodePtr = std::shared_ptr<const YamlNode>;

/// A value of the file, with the place where it stands. An alias is the node that it stands
/// for, seen from a second place.
struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  bool quoted = false;
  std::string text;                ///< text of a scalar, without quotes
  std::vector<YamlNodePtr> keys;   ///< keys of a map: scalars, all different
  std::vector<YamlNodePtr> items;  ///< items of a list, or a map's values beside `keys`
  const Source* source = nullptr;
  int line = 0;
  int column = 0;          ///< byte of the line, from 1
  std::size_t size = 1;    ///< nodes in it with aliases written out, itself included
  std::size_t height = 1;  ///< levels in it, itself included
};

}  // namespace shardsweep::config
