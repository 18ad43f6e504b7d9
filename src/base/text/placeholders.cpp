// SPDX-License-Identifier: Apache-2.0
#include "text/placeholders.hpp"

#include "text/characters.hpp"
#include "text/expression.hpp"
#include "text/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace shardsweep {
namespace {

/// Bytes of a name at the beginning of `text`: small letters, digits and '_', a letter first.
std::size_t name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const char c = text[length];
    const bool letter = c >= 'a' && c <= 'z';
    const bool other = (c >= '0' && c <= '9') || c == '_';
    if (!letter && !(other && length > 0)) break;
    ++length;
  }
  return length;
}
bool is_placeholder_name(std::string_view text) {
  return !text.empty() && name_length(text) == text.size();
}

/// The first of `wanted` outside inner braces and quoted words.
std::size_t find_outside(std::string_view text, char wanted) {
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == wanted && depth == 0 && !is_quoted) return at;
    if (c == '\'') is_quoted = !is_quoted;
    if (c == '{') ++depth;
    if (c == '}') --depth;
  }
  return std::string_view::npos;
}

/// Begins as arithmetic or a condition does: JSON, YAML and variables of a shell don't.
bool looks_computed(std::string_view text) {
  if (text.starts_with('(')) return true;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::size_t first = digits > 0 ? digits : name_length(text);
  if (first == 0) return false;
  const std::string_view word = text.substr(0, first);
  const auto blanks = text.find_first_not_of(' ', first);
  if (blanks == std::string_view::npos) return false;
  const std::string_view rest = text.substr(blanks);
  if (blanks > first && (rest.starts_with("and ") || rest.starts_with("or "))) return true;
  return word == "not" ||
      std::string_view("+-*/%<>=!").find(rest.front()) != std::string_view::npos;
}

/// A piece of a text from one brace on.
struct Piece {
  std::string_view condition;           ///< the name or the computation, if nothing is chosen
  std::optional<std::string_view> yes;  ///< chosen if the condition holds
  std::string_view no{};
  bool is_double = false;
  std::size_t length = 1;
  [[nodiscard]] bool is_literal() const { return condition.empty(); }
};

/// `name=word`, compared as texts.
struct Comparison {
  std::string_view name, word;
};
std::optional<Comparison> comparison_of(std::string_view condition) {
  const auto length = name_length(condition);
  if (length == 0 || !condition.substr(length).starts_with('=')) return std::nullopt;
  const std::string_view word = condition.substr(length + 1);
  if (word.find_first_of("=<>!*/%()' ") != std::string_view::npos) return std::nullopt;
  return Comparison{condition.substr(0, length), word};
}

/// Parses the text between the braces.
Piece read_inside(std::string_view inside) {
  if (is_placeholder_name(inside)) return {inside, std::nullopt};
  const auto mark = find_outside(inside, '?');
  const std::string_view condition = inside.substr(0, mark);
  const bool is_known =
      is_placeholder_name(condition) || comparison_of(condition) || looks_computed(condition);
  if (mark == std::string_view::npos)
    return looks_computed(inside) ? Piece{inside, std::nullopt} : Piece{};
  if (!is_known) return {};
  const std::string_view texts = inside.substr(mark + 1);
  const auto colon = find_outside(texts, ':');
  return {condition, texts.substr(0, colon),
      colon == std::string_view::npos ? std::string_view{} : texts.substr(colon + 1)};
}

/// `text` begins with a brace.
Piece piece_at(std::string_view text) {
  constexpr std::size_t longest = 4096;
  const std::string_view line = text.substr(0, std::min(text.find('\n'), longest));
  for (const std::size_t braces : {std::size_t{2}, std::size_t{1}}) {
    if (braces == 2 && !text.starts_with("{{")) continue;
    const std::string_view after = line.substr(braces);
    const auto length = find_outside(after, '}');
    if (length == std::string_view::npos) continue;
    if (braces == 2 && !after.substr(length).starts_with("}}")) continue;
    Piece piece = read_inside(after.substr(0, length));
    piece.is_double = braces == 2;
    if (piece.is_literal()) continue;
    piece.length = length + 2 * braces;
    return piece;
  }
  return {};
}

/// Calls `visit` with each text between pieces and each piece, a literal brace among the texts.
template <typename Text, typename Visit>
void each_piece(std::string_view text, const Text& plain, const Visit& visit) {
  char before = '\0';
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('{'), text.size());
    plain(text.substr(0, length));
    if (length > 0) before = text[length - 1];
    text.remove_prefix(length);
    if (text.empty()) return;
    Piece piece = piece_at(text);
    // ${x/y} is a shell's, while ${dp} was filled from the beginning.
    if (before == '$' && !piece.yes && !is_placeholder_name(piece.condition)) piece = {};
    const std::string_view whole = text.substr(0, piece.length);
    if (piece.is_literal()) {
      plain(whole);
    } else {
      visit(piece, whole);
    }
    before = whole.back();
    text.remove_prefix(whole.size());
  }
}

/// Words of a computation outside of quotes, by small letters.
template <typename Visit>
void each_word(std::string_view text, const Visit& visit) {
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = is_quoted ? 0 : name_length(text.substr(at));
    const std::string_view part = text.substr(at, std::max<std::size_t>(1, length));
    if (part == "'") is_quoted = !is_quoted;
    visit(part, length > 0 && part != "and" && part != "or" && part != "not");
    at += part.size();
  }
}

std::vector<std::string_view> names_of(const Piece& piece) {
  if (is_placeholder_name(piece.condition)) return {piece.condition};
  if (const auto comparison = comparison_of(piece.condition)) return {comparison->name};
  std::vector<std::string_view> names;
  each_word(piece.condition, [&](std::string_view part, bool is_name) {
    if (is_name) names.push_back(part);
  });
  return names;
}

std::optional<std::string_view> value_in(const Placeholders& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  return found->second;
}

/// The value of what the piece computes. A fault: it can't be computed. Nothing: it waits for a
/// value.
Result<std::optional<std::string>> value_of(const Piece& piece, const Placeholders& values) {
  for (const auto name : names_of(piece)) {
    if (!values.contains(name) && name != "true" && name != "false") return std::nullopt;
  }
  if (is_placeholder_name(piece.condition)) return std::string(*value_in(values, piece.condition));
  if (const auto comparison = comparison_of(piece.condition); comparison && piece.yes)
    return *value_in(values, comparison->name) == comparison->word ? "1" : "0";
  return computed(piece.condition, [&](std::string_view name) { return value_in(values, name); });
}

bool holds(std::string_view value) {
  return value != "false" && value != "none" && value != "0" && !value.empty();
}

/// Fills in known values and leaves the rest to a later reader.
std::string with_known(std::string_view computation, const Placeholders& values) {
  std::string out;
  each_word(computation, [&](std::string_view part, bool is_name) {
    const auto value = is_name ? value_in(values, part) : std::nullopt;
    const bool is_plain = value &&
        (value->find_first_not_of("-0123456789") == std::string_view::npos || *value == "true" ||
            *value == "false");
    out += !value  ? std::string(part)
        : is_plain ? std::string(*value)
                   : fmt::format("'{}'", *value);
  });
  return out;
}

Result<void> check_name(std::string_view name, const std::vector<std::string_view>& names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  return fault(FaultKind::invalid_input,
      "unknown placeholder {{{}}}{} Write {{{{{}}}}} for the text itself.", name,
      nearest(name, names).empty() ? "." : did_you_mean(name, names), name);
}

Result<void> check_piece(
    const Piece& piece, std::string_view whole, const std::vector<std::string_view>& names) {
  if (is_placeholder_name(piece.condition)) return check_name(piece.condition, names);
  if (const auto comparison = comparison_of(piece.condition); comparison && piece.yes)
    return check_name(comparison->name, names);
  const auto there = names_of(piece);
  const auto is_ours = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end() ||
        !nearest(name, names).empty();
  };
  if (std::none_of(there.begin(), there.end(), is_ours)) return {};
  const auto refuse = [&](const std::string& what) {
    return fault(FaultKind::invalid_input, "placeholder {}: {} Write {{{}}} for the text itself.",
        whole, what.ends_with('?') ? what : what + ".", whole);
  };
  const auto read = names_of_expression(piece.condition);
  if (!read) return refuse(read.error().what);
  for (const auto name : *read) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return refuse(nearest(name, names).empty()
              ? fmt::format(
                    "unknown name '{0}'; if you mean the word, write it in quotes: '{0}'", name)
              : fmt::format("unknown name {}{}", in_quotes(name), did_you_mean(name, names)));
  }
  return {};
}

/// Refuses a placeholder in capitals, {NODE_RANK}: it would reach the program as it stands. ${RANK}
/// is a shell's.
Result<void> check_capitals(std::string_view text, const std::vector<std::string_view>& names) {
  for (auto at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::string_view name = text.substr(at + 1, text.find('}', at) - at - 1);
    std::string small(name);
    for (char& c : small)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const char before = at > 0 ? text[at - 1] : ' ';
    if (before == '$' || before == '{' || small == name ||
        std::find(names.begin(), names.end(), small) == names.end())
      continue;
    return fault(FaultKind::invalid_input,
        "placeholder {{{}}}: write {{{}}}; ${{{}}} is the shell's variable, in a script of 'sh "
        "-c'.",
        name, small, name);
  }
  return {};
}

constexpr auto no_text = [](std::string_view /*plain*/) {};

}  // namespace

Result<void> check_placeholders(std::string_view text, const std::vector<std::string_view>& names) {
  Result<void> checked = check_capitals(text, names);
  each_piece(text, no_text, [&](const Piece& piece, std::string_view whole) {
    if (piece.is_double) return;
    const auto also = [&](Result<void> more) {
      if (checked) checked = std::move(more);
    };
    also(check_piece(piece, whole, names));
    if (!piece.yes) return;
    also(check_placeholders(*piece.yes, names));
    also(check_placeholders(piece.no, names));
    if (find_outside(piece.no, ':') != std::string_view::npos)
      also(fault(FaultKind::invalid_input,
          "placeholder {} has more than one ':'; one separates the text for 'holds' from the text "
          "for 'does not'. For more texts write one placeholder beside the other: "
          "{{zero=2?grad}}{{zero=3?full}}.",
          whole));
  });
  return checked;
}

std::vector<std::string_view> placeholders_in(std::string_view text) {
  std::vector<std::string_view> names;
  each_piece(text, no_text, [&](const Piece& piece, std::string_view /*whole*/) {
    if (piece.is_double) return;
    for (const auto& more :
        {names_of(piece), placeholders_in(piece.yes.value_or("")), placeholders_in(piece.no)})
      names.insert(names.end(), more.begin(), more.end());
  });
  return names;
}

bool computes(std::string_view text) {
  bool found = false;
  each_piece(text, no_text, [&](const Piece& piece, std::string_view /*whole*/) {
    const bool is_plain = is_placeholder_name(piece.condition) || comparison_of(piece.condition);
    found = found ||
        (!piece.is_double && (!is_plain || computes(piece.yes.value_or("")) || computes(piece.no)));
  });
  return found;
}

Result<void> check_computed(std::string_view text, const Placeholders& values) {
  Result<void> checked;
  each_piece(text, no_text, [&](const Piece& piece, std::string_view whole) {
    if (piece.is_double || !checked) return;
    const auto value = value_of(piece, values);
    if (!value) {
      checked = fault(FaultKind::invalid_input, "placeholder {}: {}", whole, value.error().what);
    } else if (*value && piece.yes) {
      checked = check_computed(holds(**value) ? *piece.yes : piece.no, values);
    }
  });
  return checked;
}

std::string filled(std::string_view text, const Placeholders& values, DoubleBraces braces) {
  std::string out;
  each_piece(
      text, [&](std::string_view plain) { out += plain; },
      [&](const Piece& piece, std::string_view whole) {
        if (piece.is_double) {
          out += braces == DoubleBraces::make_single ? whole.substr(1, whole.size() - 2) : whole;
          return;
        }
        const auto value = value_of(piece, values);
        if (value && *value) {
          out +=
              piece.yes ? filled(holds(**value) ? *piece.yes : piece.no, values, braces) : **value;
          return;
        }
        out += "{" + (value ? with_known(piece.condition, values) : std::string(piece.condition));
        if (piece.yes) {
          out += "?" + filled(*piece.yes, values, braces);
          if (!piece.no.empty()) out += ":" + filled(piece.no, values, braces);
        }
        out += "}";
      });
  return out;
}

std::vector<std::string> filled_words(
    const std::vector<std::string>& words, const Placeholders& values, DoubleBraces braces) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const Piece piece = word.starts_with('{') ? piece_at(word) : Piece{};
    const bool is_whole = !piece.is_double && piece.yes && piece.length == word.size();
    const auto value = is_whole ? value_of(piece, values) : std::optional<std::string>{};
    const bool is_left_out = value && *value && !holds(**value) && piece.no.empty();
    if (!is_left_out) out.push_back(filled(word, values, braces));
  }
  return out;
}

}  // namespace shardsweep
