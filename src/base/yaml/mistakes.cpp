// SPDX-License-Identifier: Apache-2.0
#include "yaml/mistakes.hpp"

#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace shardsweep::config {

void Mistakes::add(const YamlNode& at, Fault fault) {
  add(*at.source, at.line, at.column, std::move(fault));
}

void Mistakes::add(const YamlNode& at, std::string_view what) {
  add(at, at.source->fault_at(at.line, at.column, what));
}

void Mistakes::add(const Source& source, int line, int column, Fault fault) {
  if (noted_.size() >= most_mistakes_kept || !words_.insert(fault.what).second) return;
  noted_.push_back({index_of(source), line, column, std::move(fault)});
}

std::size_t Mistakes::index_of(const Source& source) {
  const auto found = std::find(files_.begin(), files_.end(), &source);
  if (found != files_.end()) return static_cast<std::size_t>(found - files_.begin());
  files_.push_back(&source);
  return files_.size() - 1;
}

Result<void> Mistakes::verdict() const {
  if (noted_.empty()) return {};
  if (noted_.size() == 1) return tl::unexpected(noted_.front().fault);
  auto sorted = noted_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const LocatedFault& a, const LocatedFault& b) {
    return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
  });
  const auto shown = std::min(sorted.size(), most_mistakes_shown);
  std::string text;
  for (std::size_t at = 0; at < shown; ++at)
    text += sorted[at].fault.what + "\n";
  const bool one_file = std::all_of(sorted.begin(), sorted.end(),
      [&](const LocatedFault& each) { return each.file == sorted.front().file; });
  text += fmt::format("{}{} mistakes", sorted.size() == most_mistakes_kept ? "more than " : "",
      sorted.size() == most_mistakes_kept ? sorted.size() - 1 : sorted.size());
  if (one_file) {
    const auto& name = files_[sorted.front().file]->name();
    text += " in " + escaped(name, name.size());
  }
  if (shown < sorted.size()) text += fmt::format("; the first {} are shown", shown);
  return fault(sorted.front().fault.kind, std::move(text));
}

namespace {

struct Place {
  int line = 0;
  int column = 0;
};

/// How far the closing quote of `text` is, counted from its opening one.
std::optional<std::size_t> quote_end(std::string_view text) {
  const char quote = text.front();
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      const bool doubled = quote == '\'' && at + 1 < text.size() && text[at + 1] == quote;
      if (!doubled) return at;
      ++at;
    }
  }
  return std::nullopt;
}

/// A tab in the indentation of this line.
std::optional<Place> tab_in(const Source& source, int line) {
  const auto text = source.line(line);
  const auto end = std::min(text.find_first_not_of(" \t"), text.size());
  const auto tab = text.substr(0, end).find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  return Place{line, static_cast<int>(tab) + 1};
}

/// Walks over text as YAML reads it, as far as brackets go: past quotes and comments.
class BracketFinder {
 public:
  /// The last bracket of this kind that is open at the end of `text`.
  std::optional<Place> find(std::string_view text, char bracket) {
    for (std::size_t at = 0; at < text.size(); ++at)
      at = step(text, at);
    if (open_.empty() || open_.back().first != bracket) return std::nullopt;
    return open_.back().second;
  }

 private:
  std::size_t step(std::string_view text, std::size_t at) {
    const char c = text[at];
    const char before = at > 0 ? text[at - 1] : '\n';
    const bool starts = before == ' ' || before == '\n' || before == '[' || before == '{' ||
        before == ',' || before == '\t';
    if (c == '\n') {
      ++place_.line;
      line_start_ = at + 1;
    } else if ((c == '"' || c == '\'') && starts) {
      if (const auto end = quote_end(text.substr(at))) return skip_to(text, at, at + *end);
    } else if (c == '#' && (before == ' ' || before == '\n')) {
      return std::min(text.find('\n', at), text.size()) - 1;
    } else if ((c == '[' || c == '{') && (starts || !open_.empty())) {
      open_.emplace_back(c, Place{place_.line, static_cast<int>(at - line_start_) + 1});
    } else if ((c == ']' || c == '}') && !open_.empty()) {
      open_.pop_back();
    }
    return at;
  }
  std::size_t skip_to(std::string_view text, std::size_t at, std::size_t end) {
    for (; at < end; ++at) {
      if (text[at] != '\n') continue;
      ++place_.line;
      line_start_ = at + 1;
    }
    return end;
  }

  Place place_{1, 1};
  std::size_t line_start_ = 0;
  std::vector<std::pair<char, Place>> open_;
};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == std::string_view::npos;
}

/// The nearest line above with text in it.
std::string_view line_above(const Source& source, int line) {
  while (--line > 0) {
    if (!is_blank(source.line(line))) return source.line(line);
  }
  return {};
}

/// A colon where the parser expected none.
std::string stray_colon(const Source& source, int line, int column) {
  const auto text = source.line(line);
  const auto before = text.substr(0, static_cast<std::size_t>(std::max(column - 1, 0)));
  // The parser's mark is the second colon, or the first word after it.
  const auto colon = before.find(": ");
  if (colon != std::string_view::npos) return "a second ': ' on this line; put the value in quotes";
  const auto above = line_above(source, line);
  if (!above.empty() && above.find(':') == std::string_view::npos &&
      above.find('#') == std::string_view::npos && !above.starts_with("-"))
    return "the line before has no ':'; write 'key: value'";
  return std::string(wrong_indentation);
}

std::string beginning(const Source& source, int line, int column) {
  const auto rest = source.from(line, column);
  const auto character = rest.substr(0, std::max<std::size_t>(1, character_length(rest)));
  return fmt::format("a value cannot begin with {}; put it in quotes", in_quotes(character));
}

/// The message's beginning, and what it is called here. Those that need a look at the text
/// stand in syntax_mistake().
struct Phrase {
  std::string_view said;
  std::string_view means;
};
constexpr std::array<Phrase, 17> phrases{{
    {"end of sequence not found", wrong_indentation},
    {"illegal block entry", "a list item ('- ') begins on a line of its own"},
    {"illegal EOF in scalar", open_quote},
    {"illegal document indicator", open_quote},
    {"unknown escape character",
        "unknown escape in double quotes; write \\\\ for a backslash, or use single quotes"},
    {"bad character found while scanning hex",
        "\\x, \\u and \\U need hexadecimal digits; write \\\\ for a backslash"},
    {"invalid unicode", "this number is not the code of a character"},
    {"the referenced anchor is not defined",
        "no anchor with this name precedes; put the value in quotes if '*' is part of it"},
    {"alias not found", "a value cannot begin with '*'; put it in quotes"},
    {"illegal character found while scanning alias",
        "a value cannot begin with '*'; put it in quotes"},
    {"anchor not found", "a value cannot begin with '&'; put it in quotes"},
    {"illegal character found while scanning anchor",
        "a value cannot begin with '&'; put it in quotes"},
    {"YAML ", "directives ('%...') are not supported; remove this line"},
    {"bad YAML version", "directives ('%...') are not supported; remove this line"},
    {"repeated ", "directives ('%...') are not supported; remove this line"},
    {"unexpected character in block scalar", "text follows '|' or '>'; begin a new line"},
    {"cannot set zero indentation", "'|0' and '>0' are not allowed; remove the 0"},
}};

std::string plain_words(const Source& source, std::string_view message, int line, int column) {
  for (const Phrase& phrase : phrases) {
    if (message.starts_with(phrase.said)) return std::string(phrase.means);
  }
  if (message.starts_with("illegal map")) return stray_colon(source, line, column);
  if (message.starts_with("end of map not found")) {
    const auto text = source.line(line);
    const bool first = is_blank(text.substr(0, static_cast<std::size_t>(std::max(column - 1, 0))));
    return first ? std::string(wrong_indentation)
                 : "text follows the value; put all of it in quotes";
  }
  if (message.starts_with("unknown token")) return beginning(source, line, column);
  if (message.starts_with("illegal flow end"))
    return fmt::format(
        "{} closes nothing; remove it", in_quotes(source.from(line, column).substr(0, 1)));
  return "not valid YAML: " + escaped(message, 200);
}

std::string unclosed(char open) {
  return fmt::format(
      "'{}' is never closed; write '{}' behind its last value", open, open == '{' ? '}' : ']');
}

/// The innermost bracket that is open at `end`, if it is an `open`.
std::optional<SyntaxMistake> never_closed(const Source& source, char open, Place end) {
  const auto upto = source.text().size() - source.from(end.line, end.column).size();
  const auto found = BracketFinder().find(std::string_view(source.text()).substr(0, upto), open);
  if (!found) return std::nullopt;
  return SyntaxMistake{found->line, found->column, unclosed(open)};
}

}  // namespace

bool closing_quote(std::string_view text) {
  return quote_end(text).has_value();
}

SyntaxMistake syntax_mistake(const Source& source, std::string_view message, int line, int column) {
  if (const auto tab = tab_in(source, line))
    return {tab->line, tab->column, "tab used for indentation; use spaces"};
  const bool map = message.starts_with("end of map flow");
  if (map || message.starts_with("end of sequence flow"))
    return never_closed(source, map ? '{' : '[', {line, column})
        .value_or(SyntaxMistake{line, column, unclosed(map ? '{' : '[')});
  if (message.starts_with("illegal flow end")) {
    const bool closes_map = source.from(line, column).starts_with('}');
    const auto upto = source.line(line).substr(0, static_cast<std::size_t>(column));
    const auto open = never_closed(source, closes_map ? '[' : '{', {line, column});
    // A line with more closing than opening ones of this kind has one too many.
    if (open &&
        std::count(upto.begin(), upto.end(), closes_map ? '}' : ']') <=
            std::count(upto.begin(), upto.end(), closes_map ? '{' : '['))
      return *open;
  }
  return {line, column, plain_words(source, message, line, column)};
}

}  // namespace shardsweep::config
