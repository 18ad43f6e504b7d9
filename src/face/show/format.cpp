// SPDX-License-Identifier: Apache-2.0
// Decision: Text that a spreadsheet would calculate gets an apostrophe in CSV. JSON has the
// bare text.
#include "show/format.hpp"

#include "text/characters.hpp"

#include <algorithm>
#include <charconv>

namespace shardsweep {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// Bytes of the character at `at`; 0 where there is none.
std::size_t length_at(std::string_view text, std::size_t at) {
  return byte_at(text, at) < 0x80 ? 1 : character_length(text.substr(at));
}

void append(fmt::memory_buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

void append_escaped(fmt::memory_buffer& out, unsigned char byte) {
  switch (byte) {
    case '"':
      return append(out, "\\\"");
    case '\\':
      return append(out, "\\\\");
    case '\n':
      return append(out, "\\n");
    case '\r':
      return append(out, "\\r");
    case '\t':
      return append(out, "\\t");
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
  }
}

/// Spreadsheets calculate what begins so. A number may have a sign.
bool is_formula(std::string_view text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos)
    return false;
  double number = 0;
  const auto begin = text.data() + (text.front() == '+' ? 1 : 0);
  const auto read = std::from_chars(begin, text.data() + text.size(), number);
  return read.ec != std::errc() || read.ptr != text.data() + text.size();
}

}  // namespace

void append_csv(fmt::memory_buffer& out, std::string_view text) {
  if (is_formula(text)) return append_csv(out, fmt::format("'{}", text));
  const bool plain = std::none_of(text.begin(), text.end(),
      [](char c) { return c == ',' || c == '"' || c == '\r' || c == '\n'; });
  if (plain) return append(out, text);
  out.push_back('"');
  for (const char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  out.push_back('"');
}

void append_markdown(fmt::memory_buffer& out, std::string_view text) {
  for (const char c : text) {
    if (c == '<') {
      append(out, "&lt;");
    } else if (c == '&') {
      append(out, "&amp;");
    } else {
      if (std::string_view("\\|`*_[]>#!~@").find(c) != std::string_view::npos) out.push_back('\\');
      out.push_back(c);
    }
  }
}

void append_json(fmt::memory_buffer& out, std::string_view text) {
  out.push_back('"');
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = byte_at(text, at);
    const auto length = length_at(text, at);
    if (length == 0) {
      append(out, "\xef\xbf\xbd");
    } else if (byte < 0x20 || byte == '"' || byte == '\\') {
      append_escaped(out, byte);
    } else {
      append(out, text.substr(at, length));
    }
    at += std::max<std::size_t>(length, 1);
  }
  out.push_back('"');
}

}  // namespace shardsweep
