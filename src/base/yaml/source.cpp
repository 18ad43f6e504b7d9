// SPDX-License-Identifier: Apache-2.0
#include "yaml/source.hpp"

#include "text/characters.hpp"
#include "text/secrets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

namespace shardsweep::config {
namespace {

// A minified file is one endless line: messages show the part around the caret.
constexpr std::size_t widest_excerpt = 100;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// `line` for a terminal: one column per character, nothing that moves the cursor.
std::string printable(std::string_view line) {
  std::string shown;
  for (std::size_t at = 0; at < line.size();) {
    const auto valid = character_length(line.substr(at));
    const auto length = std::max<std::size_t>(1, valid);
    if (line[at] == '\t') {
      shown += ' ';
    } else if (valid == 0 || is_control(line.substr(at))) {
      shown += '?';
    } else {
      shown.append(line.substr(at, length));
    }
    at += length;
  }
  return shown;
}

/// Start of the excerpt around byte `column`: at a character, not too far before it.
std::size_t excerpt_start(std::string_view line, std::size_t column) {
  if (line.size() <= widest_excerpt || column <= widest_excerpt / 2) return 0;
  auto start = column - widest_excerpt / 2;
  while (start > 0 && is_continuation(line[start]))
    --start;
  return start;
}

std::string_view excerpt(std::string_view line, std::size_t start) {
  auto length = std::min(line.size() - start, widest_excerpt);
  while (start + length < line.size() && is_continuation(line[start + length]))
    ++length;
  return line.substr(start, length);
}

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Stars in place of secrets that their form tells, and of all that stands behind a key which
/// says that it is a secret.
std::string without_values(std::string line) {
  std::string_view rest = line;
  for (auto secret = secret_by_form(rest); !secret.empty(); secret = secret_by_form(rest)) {
    const auto at = static_cast<std::size_t>(secret.data() - line.data());
    line.replace(at, secret.size(), secret.size(), '*');
    rest = std::string_view(line).substr(at + secret.size());
  }
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = at;
    while (at < line.size() && is_of_name(line[at]))
      ++at;
    const std::string_view name = std::string_view(line).substr(begin, at - begin);
    if (name.empty()) ++at;
    const std::size_t colon = line.find_first_not_of("\"' ", at);
    const bool is_key = colon != std::string::npos && (line[colon] == ':' || line[colon] == '=');
    if (name.empty() || !is_key || !may_be_secret(name)) continue;
    std::replace_if(
        line.begin() + static_cast<std::ptrdiff_t>(colon) + 1, line.end(),
        [](char c) { return c != ' '; }, '*');
    break;
  }
  return line;
}

}  // namespace

Source::Source(std::string name, std::string text, Kind kind)
    : name_(std::move(name)), text_(std::move(text)), kind_(kind), starts_{0} {
  for (std::size_t at = 0; at < text_.size(); ++at) {
    if (text_[at] == '\n') starts_.push_back(at + 1);
  }
}

std::string_view Source::line(int number) const {
  const auto index = static_cast<std::size_t>(number - 1);
  if (number < 1 || index >= starts_.size()) return {};
  const auto end = index + 1 < starts_.size() ? starts_[index + 1] - 1 : text_.size();
  std::string_view found(text_.data() + starts_[index], end - starts_[index]);
  if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
  return found;
}

std::string_view Source::from(int line, int column) const {
  const auto index = static_cast<std::size_t>(line - 1);
  if (line < 1 || column < 1 || index >= starts_.size()) return {};
  const auto at = starts_[index] + static_cast<std::size_t>(column - 1);
  return std::string_view(text_).substr(std::min(at, text_.size()));
}

int Source::display_column(int number, int column) const {
  const auto whole = line(number);
  const auto before = whole.substr(0, static_cast<std::size_t>(std::max(column - 1, 0)));
  const auto skipped = std::count_if(before.begin(), before.end(), is_continuation);
  return column - static_cast<int>(skipped);
}

/// Below `secrets:` every value is one, whatever its key is called.
std::string Source::shown_line(int number) const {
  const std::string_view whole = line(number);
  const auto indent_of = [](std::string_view text) { return text.find_first_not_of(' '); };
  auto indent = indent_of(whole);
  for (int above = number - 1; above >= 1 && indent != std::string_view::npos && indent > 0;
       --above) {
    const std::string_view text = line(above);
    const auto its = indent_of(text);
    if (its >= indent) continue;
    indent = its;
    if (text.substr(its).starts_with("secrets:"))
      return std::string(whole.substr(0, indent_of(whole))) + "(hidden: it is one of 'secrets')";
  }
  return without_values(std::string(whole));
}

Fault Source::fault_at(int number, int column, std::string_view what) const {
  const auto shown_name = escaped(name_, name_.size());
  // Keys and values of the file stand in it.
  const auto words = escaped(what, what.size());
  if (number < 1) return {FaultKind::invalid_input, fmt::format("{}: {}", shown_name, words)};
  const auto whole = shown_line(number);
  const auto byte = std::min(static_cast<std::size_t>(std::max(column - 1, 0)), whole.size());
  const auto start = excerpt_start(whole, byte);
  const auto shown = printable(excerpt(whole, start));
  const auto caret = character_count(printable(whole.substr(start, byte - start)));
  const auto position = kind_ == Kind::flag
      ? std::string()
      : fmt::format(":{}:{}", number, display_column(number, column));
  return {FaultKind::invalid_input,
      fmt::format("{}{}: {}\n{}\n{:>{}}", shown_name, position, words, shown, '^', caret + 1)};
}

Result<std::string> read_text_file(const std::filesystem::path& file, std::size_t most_bytes) {
  const Source nowhere(file.string(), {});
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    const auto reason = error ? error.message() : std::string("no such file");
    return tl::unexpected(nowhere.fault_at(0, 0, "cannot be read: " + reason));
  }
  // A pipe or a device may never end.
  if (!std::filesystem::is_regular_file(status))
    return tl::unexpected(nowhere.fault_at(0, 0, "is not a regular file"));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    const auto reason = std::string("cannot be read: ") + std::strerror(errno);
    return tl::unexpected(nowhere.fault_at(0, 0, reason));
  }
  // Grows with the file: a buffer of the largest allowed size would cost more than most files.
  constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
  const std::size_t most = most_bytes + 1 + byte_order_mark.size();
  std::string text;
  while (stream && text.size() < most) {
    const std::size_t before = text.size();
    text.resize(std::min(most, before + chunk_bytes));
    stream.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<std::size_t>(stream.gcount()));
  }
  if (text.rfind(byte_order_mark, 0) == 0) text.erase(0, byte_order_mark.size());
  return text;
}

Result<void> check_text(const Source& source, std::size_t most_bytes) {
  if (source.text().size() > most_bytes) {
    return tl::unexpected(source.fault_at(
        0, 0, fmt::format("is larger than {} MiB, the limit for such a file", most_bytes >> 20)));
  }
  const auto& text = source.text();
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto length = character_length(std::string_view(text).substr(at));
    if (length == 0 || text[at] == '\0') {
      const auto column = static_cast<int>(at - line_start) + 1;
      return tl::unexpected(
          source.fault_at(line, column, "is not UTF-8 text; save the file as UTF-8"));
    }
    if (text[at] == '\n') {
      ++line;
      line_start = at + 1;
    }
    at += length;
  }
  return {};
}

}  // namespace shardsweep::config
