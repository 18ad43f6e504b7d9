// SPDX-License-Identifier: Apache-2.0
// An expression is put into a statement of ours, and so it is read before SQLite sees it. The
// reader knows no grammar: it refuses what could end the expression, begin another statement or
// hide something, and collects the names. SQLite judges the rest, and its messages are turned
// into those of the expression alone.
#include "filter/filter.hpp"
#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep::filter {
namespace {

constexpr std::size_t longest_in_message = 120;

/// Words of an expression that name nothing, unless they stand in quotes.
constexpr std::array<std::string_view, 19> operators{"and", "or", "not", "in", "is", "null", "like",
    "glob", "between", "case", "when", "then", "else", "end", "cast", "as", "escape", "isnull",
    "notnull"};

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::set<std::string>> read() {
    while (at_ < text_.size())
      SHARDSWEEP_TRY(token());
    if (depth_ > 0) return refuse("a '(' is not closed");
    if (tokens_ == 0) return refuse("is empty");
    return std::move(identifiers_);
  }

 private:
  static tl::unexpected<Fault> refuse(std::string what) {
    return fault(FaultKind::invalid_input, std::move(what));
  }

  [[nodiscard]] bool starts(std::string_view with) const {
    return text_.substr(at_, with.size()) == with;
  }

  Result<void> token() {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
      return {};
    }
    ++tokens_;
    if (c == '\'' || c == '"') return quoted(c);
    if (is_word_letter(c)) return word();
    if (is_digit(c)) {
      // 1e5 and 0x1f hold letters that are no name.
      while (at_ < text_.size() && (is_word_letter(text_[at_]) || is_digit(text_[at_])))
        ++at_;
      return {};
    }
    return sign(c);
  }

  // Two quotes within quotes are one; what "…" holds is a name.
  Result<void> quoted(char quote) {
    std::string held;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] != quote) {
        held += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == quote) {
        held += text_[at_++];
      } else {
        ++at_;
        if (quote == '"') identifiers_.insert(lower(held));
        return {};
      }
    }
    return refuse(fmt::format("a {} is not closed", quote));
  }

  Result<void> word() {
    const auto first = at_;
    while (at_ < text_.size() && (is_word_letter(text_[at_]) || is_digit(text_[at_])))
      ++at_;
    auto name = lower(text_.substr(first, at_ - first));
    if (name == "select" || name == "values" || name == "with")
      return refuse("a sub-query is not allowed, only an expression");
    if (std::find(operators.begin(), operators.end(), name) == operators.end())
      identifiers_.insert(std::move(name));
    return {};
  }

  Result<void> sign(char c) {
    if (starts("--") || starts("/*")) return refuse("a comment is not allowed");
    if (c == '(') ++depth_;
    if (c == ')' && --depth_ < 0) return refuse("a ')' closes nothing");
    constexpr std::string_view allowed = "()+-*/%<>=!|&~,.";
    if (allowed.find(c) == std::string_view::npos) {
      if (c == ';') return refuse("a second statement is not allowed, only an expression");
      if (c == '?' || c == ':' || c == '@' || c == '$')
        return refuse(fmt::format("parameters such as '{}' are not allowed", c));
      const auto byte = static_cast<unsigned char>(c);
      const bool plain = byte > 0x20 && byte < 0x7f;
      return refuse(plain ? fmt::format("'{}' is not allowed here", c)
                          : fmt::format("the byte 0x{:02x} is not allowed here", byte));
    }
    ++at_;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t tokens_ = 0;
  int depth_ = 0;
  std::set<std::string> identifiers_;
};

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
      [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

std::string syntax_in_words(std::string words, std::string_view expression) {
  if (words != "near \")\": syntax error") return words;
  return expression.find(')') == std::string_view::npos
      ? "it ends too early; write what stands behind the last word"
      : "something is missing before a ')' or at the end";
}

std::string in_message(std::string_view expression) {
  std::string out = "'";
  for (const char c : expression.substr(0, longest_in_message)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (expression.size() > longest_in_message ? "…'" : "'");
}

Result<std::set<std::string>> read_identifiers(std::string_view expression) {
  if (expression.size() > longest_expression) {
    return fault(FaultKind::invalid_input, "is {} bytes long, at most {} are allowed",
        expression.size(), longest_expression);
  }
  return Reader(expression).read();
}

std::optional<std::string_view> missing_column(std::string_view message) {
  constexpr std::string_view begin = "no such column: ";
  if (!message.starts_with(begin)) return std::nullopt;
  std::string_view name = message.substr(begin.size());
  name = name.substr(0, name.find(" - should this be"));
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"')
    name = name.substr(1, name.size() - 2);
  return name;
}

}  // namespace shardsweep::filter
