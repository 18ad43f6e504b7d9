// SPDX-License-Identifier: Apache-2.0
// One pass over the text: each level of precedence is a function that gives a value. Looked at
// for its names alone, each name is 1 and nothing is computed.
#include "text/expression.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <variant>

namespace shardsweep {
namespace {

using Computed = std::variant<std::int64_t, std::string>;

template <class... Values>
tl::unexpected<Fault> refuse(fmt::format_string<Values...> what, Values&&... values) {
  return fault(FaultKind::invalid_input, fmt::format(what, std::forward<Values>(values)...));
}

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

Computed value_of(std::string_view text) {
  if (text == "true") return std::int64_t{1};
  if (text == "false") return std::int64_t{0};
  if (const auto integer = number_from<std::int64_t>(text)) return *integer;
  return std::string(text);
}

struct Operator {
  std::string_view sign;
  int level;  ///< binds the tighter the higher
};
/// Longer operators precede their own prefixes.
constexpr auto operators =
    std::to_array<Operator>({{"or", 0}, {"and", 1}, {"==", 3}, {"!=", 3}, {"<>", 3}, {"<=", 4},
        {">=", 4}, {"=", 3}, {"<", 4}, {">", 4}, {"+", 5}, {"-", 5}, {"*", 6}, {"/", 6}, {"%", 6}});
constexpr int level_of_not = 2;

template <typename T>
bool compare(std::string_view sign, const T& a, const T& b) {
  if (sign == "=" || sign == "==") return a == b;
  if (sign == "!=" || sign == "<>") return a != b;
  if (sign == "<") return a < b;
  if (sign == "<=") return a <= b;
  return sign == ">" ? a > b : a >= b;
}

Result<std::int64_t> arithmetic(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool fits = true;
  if (sign == "+") {
    fits = !__builtin_add_overflow(a, b, &out);
  } else if (sign == "-") {
    fits = !__builtin_sub_overflow(a, b, &out);
  } else if (sign == "*") {
    fits = !__builtin_mul_overflow(a, b, &out);
  } else {
    if (b == 0) return refuse("{} {} 0 has no value", a, sign);
    fits = a != std::numeric_limits<std::int64_t>::min() || b != -1;
    if (fits) out = sign == "/" ? a / b : a % b;
  }
  if (!fits) return refuse("{} {} {} is too large", a, sign, b);
  return out;
}

class Reader {
 public:
  Reader(std::string_view text, const TextOfName* text_of) : text_(text), text_of_(text_of) {}

  Result<Computed> read() {
    if (text_.size() > longest_computed)
      return refuse("it has {} bytes, at most {} are allowed", text_.size(), longest_computed);
    SHARDSWEEP_ASSIGN(auto value, binary(0));
    skip_blanks();
    if (at_ < text_.size()) return refuse("{} is not expected {}", in_quotes(next_word()), place());
    return value;
  }
  std::vector<std::string_view>& names() { return names_; }

 private:
  [[nodiscard]] bool is_computing() const { return text_of_ != nullptr; }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
      ++at_;
  }
  [[nodiscard]] std::string place() const {
    const auto before = text_.substr(0, at_);
    return before.find_first_not_of(" \t") == std::string_view::npos
        ? "at the beginning"
        : fmt::format("after {}", in_quotes(before));
  }
  /// A word, or one sign.
  [[nodiscard]] std::string_view next_word() const {
    std::size_t end = at_;
    while (end < text_.size() && (begins_name(text_[end]) || is_digit(text_[end])))
      ++end;
    return text_.substr(at_, std::max<std::size_t>(1, end - at_));
  }
  /// SQL knows its words in any case.
  [[nodiscard]] static bool is_word(std::string_view text, std::string_view word) {
    return std::equal(text.begin(), text.end(), word.begin(), word.end(),
        [](char a, char b) { return (a | 0x20) == b; });
  }
  [[nodiscard]] const Operator* next_operator() const {
    for (const Operator& one : operators) {
      const bool is_there = begins_name(one.sign.front()) ? is_word(next_word(), one.sign)
                                                          : text_.substr(at_).starts_with(one.sign);
      if (is_there) return &one;
    }
    return nullptr;
  }

  Result<Computed> binary(int level) {
    if (level == level_of_not) return negation();
    if (level > operators.back().level) return primary();
    SHARDSWEEP_ASSIGN(auto left, binary(level + 1));
    for (;;) {
      skip_blanks();
      const Operator* found = at_ < text_.size() ? next_operator() : nullptr;
      if (found == nullptr || found->level != level) return left;
      at_ += found->sign.size();
      SHARDSWEEP_ASSIGN(const auto right, binary(level + 1));
      SHARDSWEEP_ASSIGN(left, applied(found->sign, left, right));
    }
  }

  Result<Computed> negation() {
    skip_blanks();
    if (at_ >= text_.size() || !is_word(next_word(), "not")) return binary(level_of_not + 1);
    at_ += 3;
    SHARDSWEEP_TRY(deeper());
    SHARDSWEEP_ASSIGN(const auto value, negation());
    --depth_;
    SHARDSWEEP_ASSIGN(const auto integer, number(value, "not"));
    return Computed(std::int64_t{integer == 0});
  }

  Result<Computed> primary() {
    skip_blanks();
    if (at_ >= text_.size())
      return refuse(
          "{}", text_.empty() ? "it is empty" : fmt::format("something is missing {}", place()));
    const char c = text_[at_];
    if (c == '(') return in_brackets();
    if (c == '-') return minus();
    if (c == '\'') return quoted();
    const std::string_view word = next_word();
    if (is_digit(c)) return literal(word);
    if (begins_name(c)) return name(word);
    return refuse("{} is not expected {}", in_quotes(word), place());
  }

  Result<void> deeper() {
    if (++depth_ > deepest_computed) return refuse("the expression is nested too deeply");
    return {};
  }
  Result<Computed> in_brackets() {
    ++at_;
    SHARDSWEEP_TRY(deeper());
    SHARDSWEEP_ASSIGN(auto value, binary(0));
    --depth_;
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != ')') return refuse("a ')' is missing {}", place());
    ++at_;
    return value;
  }
  Result<Computed> minus() {
    ++at_;
    SHARDSWEEP_TRY(deeper());
    SHARDSWEEP_ASSIGN(const auto value, primary());
    --depth_;
    SHARDSWEEP_ASSIGN(const auto integer, number(value, "-"));
    SHARDSWEEP_ASSIGN(const auto negative, arithmetic("-", 0, integer));
    return Computed(negative);
  }
  Result<Computed> quoted() {
    const auto end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos)
      return refuse("a ' is missing {}", in_quotes(text_.substr(at_)));
    Computed word = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  Result<Computed> literal(std::string_view word) {
    const auto value = number_from<std::int64_t>(word);
    if (!value) return refuse("{} does not fit into a 64-bit integer", in_quotes(word));
    at_ += word.size();
    if (at_ < text_.size() && text_[at_] == '.')
      return refuse("only whole numbers are allowed, {}", place());
    return Computed(*value);
  }
  Result<Computed> name(std::string_view word) {
    at_ += word.size();
    if (is_word(word, "true")) return Computed(std::int64_t{1});
    if (is_word(word, "false")) return Computed(std::int64_t{0});
    if (is_word(word, "and") || is_word(word, "or") || is_word(word, "not")) {
      at_ -= word.size();
      return refuse("{} is not expected {}", in_quotes(word), place());
    }
    if (at_ < text_.size() && text_[at_] == '(')
      return refuse("functions such as {} are not supported", in_quotes(word));
    if (!is_computing()) {
      names_.push_back(word);
      return Computed(std::int64_t{1});
    }
    const auto text = (*text_of_)(word);
    if (!text) return refuse("{} has no value", in_quotes(word));
    return value_of(*text);
  }

  [[nodiscard]] Result<std::int64_t> number(const Computed& value, std::string_view sign) const {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    if (!is_computing()) return 1;
    return refuse("{} is not a number, and {} needs one", in_quotes(std::get<std::string>(value)),
        in_quotes(sign));
  }
  [[nodiscard]] Result<Computed> applied(
      std::string_view sign, const Computed& a, const Computed& b) const {
    if (!is_computing()) return Computed(std::int64_t{1});
    const bool compares = sign.find_first_of("=<>") != std::string_view::npos;
    if (compares && a.index() != b.index())
      return refuse("{} {} {} compares a word with a number", text_of(a), sign, text_of(b));
    if (compares) return Computed(std::int64_t{compare(sign, a, b)});
    SHARDSWEEP_ASSIGN(const auto left, number(a, sign));
    SHARDSWEEP_ASSIGN(const auto right, number(b, sign));
    if (sign == "or") return Computed(std::int64_t{left != 0 || right != 0});
    if (sign == "and") return Computed(std::int64_t{left != 0 && right != 0});
    SHARDSWEEP_ASSIGN(const auto out, arithmetic(sign, left, right));
    return Computed(out);
  }

 public:
  static std::string text_of(const Computed& value) {
    const auto* integer = std::get_if<std::int64_t>(&value);
    return integer != nullptr ? fmt::format("{}", *integer) : std::get<std::string>(value);
  }

 private:
  std::string_view text_;
  const TextOfName* text_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string_view> names_;
};

}  // namespace

Result<std::vector<std::string_view>> names_of_expression(std::string_view expression) {
  Reader reader(expression, nullptr);
  SHARDSWEEP_TRY(reader.read());
  return std::move(reader.names());
}

Result<std::string> computed(std::string_view expression, const TextOfName& text_of) {
  Reader reader(expression, &text_of);
  SHARDSWEEP_ASSIGN(const auto value, reader.read());
  return Reader::text_of(value);
}

}  // namespace shardsweep
