// SPDX-License-Identifier: Apache-2.0
#include "trainer/settings.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

std::string_view without_quotes(std::string_view text) {
  text = trimmed(text);
  const auto quote = [&] { return text.starts_with('"') || text.starts_with('\''); };
  if (text.size() >= 2 && quote() && text.back() == text.front())
    return text.substr(1, text.size() - 2);
  return text;
}

/// Place after the brace that closes the first one of `text`; npos: there is no such brace.
std::size_t behind_braces(std::string_view text) {
  int depth = 0;
  for (std::size_t at = text.find('{'); at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

/// End of the word that `text` begins with. A section that is given as a map, `a.b={c: 2, d: 3}`,
/// may hold blanks, with quotes before its brace or without.
std::size_t end_of_word(std::string_view text, std::string_view blanks) {
  std::size_t end = std::min(text.find_first_of(blanks), text.size());
  const auto equals = text.substr(0, end).find('=');
  if (equals == std::string_view::npos) return end;
  const auto begin = text.find_first_not_of("'\"", equals + 1);
  if (begin >= end || text[begin] != '{') return end;
  const auto length = behind_braces(text.substr(begin));
  if (length == std::string_view::npos) return end;
  return std::min(text.find_first_of(blanks, begin + length), text.size());
}

/// Splits words as a shell does: a word that begins with # begins a comment.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view blanks = " \t\r\n\\";
  for (;;) {
    const auto begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    if (text.front() == '#') {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
      continue;
    }
    const auto end = end_of_word(text, blanks);
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

/// A name with its value, and the names that it is nested in: "parallelism.tp".
struct Leaf {
  std::string path;
  std::string name;
  std::string value;
};

/// Reads values of YAML, TOML and JSON: pieces between braces and commas, each with a mark in it.
/// Lists are one value. Indentation nests, and so do braces.
class LeafReader {
 public:
  explicit LeafReader(std::string_view text) : text_(text) {}

  std::optional<Leaf> next() {
    while (at_ < text_.size()) {
      if (begins_line_) begin_line();
      const std::string_view piece = read_piece();
      if (auto leaf = take(piece)) return leaf;
    }
    return std::nullopt;
  }

 private:
  struct Section {
    std::string name;
    std::size_t indent = 0;
    bool by_brace = false;
    std::string items{};  ///< items of a list of lines, with blanks between
  };

  void begin_line() {
    const auto end = std::min(text_.find('\n', at_), text_.size());
    const auto line = text_.substr(at_, end - at_);
    indent_ = line.find_first_not_of(" \t\r");
    begins_line_ = false;
    if (indent_ == std::string_view::npos || line[indent_] == '#') return;
    // Items may stand as far to the left as the name of their list.
    const std::size_t item = line.substr(indent_).starts_with("- ") ? 1 : 0;
    while (!sections_.empty() && !sections_.back().by_brace &&
        sections_.back().indent >= indent_ + item)
      sections_.pop_back();
  }

  /// Reads up to the end of a piece, whose mark is passed over.
  std::string_view read_piece() {
    const std::size_t begin = at_;
    char quote = 0;
    int interpolation = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') break;
      if (quote != 0) {
        if (c == '\\') ++at_;
        if (c == quote) quote = 0;
      } else if (c == '#') {
        const auto piece = text_.substr(begin, at_ - begin);
        at_ = std::min(text_.find('\n', at_), text_.size());
        return end_piece(piece);
      } else if (c == '"' || (c == '\'' && !in_word(begin))) {
        quote = c;
      } else if (c == '$' && at_ + 1 < text_.size() && text_[at_ + 1] == '{') {
        ++interpolation;
        ++at_;
      } else if (interpolation > 0) {
        interpolation -= c == '}' ? 1 : 0;
      } else if (c == '[') {
        ++lists_;
      } else if (c == ']') {
        lists_ = std::max(0, lists_ - 1);
      } else if (lists_ == 0 && (c == '{' || c == '}' || c == ',')) {
        break;
      }
    }
    return end_piece(text_.substr(begin, std::min(at_, text_.size()) - begin));
  }
  /// An apostrophe, not a quote.
  [[nodiscard]] bool in_word(std::size_t begin) const {
    return at_ > begin &&
        std::string_view(" \t:=[,").find(text_[at_ - 1]) == std::string_view::npos;
  }
  std::string_view end_piece(std::string_view piece) {
    at_ = std::min(at_, text_.size());
    ended_by_ = at_ < text_.size() ? text_[at_] : '\n';
    ++at_;
    begins_line_ = ended_by_ == '\n';
    return piece;
  }

  std::optional<Leaf> take(std::string_view piece) {
    piece = trimmed(piece);
    const char ended_by = ended_by_;
    const auto mark = piece.find_first_of(":=");
    const bool is_list = piece.starts_with('[');
    std::optional<Leaf> leaf;
    if (mark != std::string_view::npos && !is_list) {
      const std::string name(without_quotes(piece.substr(0, mark)));
      auto value = trimmed(piece.substr(mark + 1));
      if (value.ends_with(',')) value = trimmed(value.substr(0, value.size() - 1));
      if (value.empty() || value == "[") {
        if (ended_by == '{' || ended_by == '\n')
          sections_.push_back({name, indent_, ended_by == '{'});
      } else {
        leaf = Leaf{path_of(name), name, std::string(without_quotes(value))};
        if (ended_by == '{') sections_.push_back({"", indent_, true});
      }
    } else if (ended_by == '{') {
      sections_.push_back({"", indent_, true});
    } else if (piece.starts_with("- ") && !sections_.empty() && !sections_.back().by_brace) {
      leaf = item_leaf(without_quotes(trimmed(piece.substr(2))));
    }
    if (ended_by == '}') {
      while (!sections_.empty() && !sections_.back().by_brace)
        sections_.pop_back();
      if (!sections_.empty()) sections_.pop_back();
    }
    return leaf;
  }

  /// The list that the section above is, with one more item.
  Leaf item_leaf(std::string_view item) {
    Section& list = sections_.back();
    list.items += fmt::format("{}{}", list.items.empty() ? "" : " ", item);
    std::string path = path_of("");
    path.pop_back();
    return {std::move(path), list.name, list.items};
  }

  [[nodiscard]] std::string path_of(const std::string& name) const {
    std::string path;
    for (const Section& section : sections_)
      if (!section.name.empty()) path += section.name + '.';
    return path + name;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t indent_ = 0;
  bool begins_line_ = true;
  char ended_by_ = '\n';
  int lists_ = 0;
  std::vector<Section> sections_;
};

bool is_below(std::string_view path, std::string_view section) {
  for (const std::string_view name : split(path, '.'))
    if (name == section) return true;
  return false;
}

/// The default of ${NAME:value}, of a shell's ${NAME:-value}, and of OmegaConf's
/// ${oc.env:NAME,value}; none if there is none.
std::optional<std::string_view> default_in(std::string_view braced) {
  constexpr std::string_view of_environment = "oc.env:";
  const bool is_omega = braced.starts_with(of_environment);
  if (is_omega) braced.remove_prefix(of_environment.size());
  const auto mark = braced.find(is_omega ? ',' : ':');
  const auto name = braced.substr(0, mark);
  const bool is_variable = std::all_of(name.begin(), name.end(),
      [](char c) { return (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; });
  if (mark == std::string_view::npos || name.empty() || !is_variable) return std::nullopt;
  std::string_view other = braced.substr(mark + 1);
  if (!is_omega && other.starts_with('-')) other.remove_prefix(1);
  return without_quotes(trimmed(other));
}

/// OmegaConf's ${variables.max_seq_len}: the value of that path. One that is not there stays, but
/// for a variable of the environment with a default.
std::string interpolated(
    std::string value, const std::map<std::string, std::string, std::less<>>& by_path) {
  constexpr int most_links = 8;
  for (int link = 0; link < most_links; ++link) {
    if (!value.starts_with("${") || value.find('}') != value.size() - 1) break;
    const auto braced = std::string_view(value).substr(2, value.size() - 3);
    const auto found = by_path.find(braced);
    if (const auto other = default_in(braced); found == by_path.end() && other)
      return std::string(*other);
    if (found == by_path.end()) break;
    value = found->second;
  }
  return value;
}

}  // namespace

bool says_true(std::string_view value) {
  return value.empty() || value == "true" || value == "True" || value == "on";
}

Settings Settings::of_flags(std::string_view text) {
  Settings settings;
  std::string last;
  for (const auto word : words_of(text)) {
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      last = word.substr(0, equals);
      auto& value = settings.values_[last];
      value = equals == std::string_view::npos ? "" : without_quotes(word.substr(equals + 1));
      settings.lists_[bare_name(last)] = value;
    } else if (!last.empty()) {
      auto& list = settings.lists_[bare_name(last)];
      if (list.empty()) settings.values_[last] = without_quotes(word);
      list += fmt::format("{}{}", list.empty() ? "" : " ", without_quotes(word));
    }
  }
  settings.add_plain_names();
  return settings;
}

Settings Settings::of_overrides(std::string_view text) {
  Settings settings;
  for (std::string_view word : words_of(text)) {
    word = without_quotes(word);
    word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
    const auto equals = word.find('=');
    std::string_view name = word.substr(0, equals);
    if (name.starts_with("--") && name.find('.') != std::string_view::npos) name.remove_prefix(2);
    if (equals == std::string_view::npos || name.starts_with('-')) continue;
    const std::string_view value = without_quotes(word.substr(equals + 1));
    settings.values_[std::string(name)] = value;
    if (!value.starts_with('{')) continue;
    const std::string section = fmt::format("{}: {}", name, value);
    LeafReader leaves(section);
    while (const auto leaf = leaves.next())
      settings.values_[leaf->path] = leaf->value;
  }
  settings.add_plain_names();
  return settings;
}

Settings Settings::of_nested_flags(std::string_view text) {
  Settings settings;
  settings.is_nested_ = true;
  std::string last;
  const auto set = [&](const std::string& path, std::string_view value) {
    settings.by_path_[path] = value;
    settings.values_[underscored(path.substr(path.rfind('.') + 1))] = value;
  };
  for (std::string_view word : words_of(text)) {
    if (word.starts_with("--")) {
      word.remove_prefix(2);
      const auto equals = word.find('=');
      last = word.substr(0, equals);
      set(last, equals == std::string_view::npos ? "" : without_quotes(word.substr(equals + 1)));
      if (equals != std::string_view::npos) last.clear();
    } else if (!last.empty()) {
      set(last, without_quotes(word));
      last.clear();
    }
  }
  settings.add_plain_names();
  return settings;
}

Settings Settings::of_lines(std::string_view text, std::string_view without) {
  Settings settings;
  settings.is_nested_ = true;
  settings.is_command_ = false;
  LeafReader reader(text);
  while (const auto leaf = reader.next()) {
    if (!without.empty() && is_below(leaf->path, without)) continue;
    settings.by_path_[leaf->path] = leaf->value;
    settings.values_[underscored(leaf->name)] = leaf->value;
  }
  const Texts paths = settings.by_path_;
  for (Texts* texts : {&settings.values_, &settings.by_path_})
    for (auto& [name, value] : *texts)
      value = interpolated(value, paths);
  settings.add_plain_names();
  return settings;
}

Settings Settings::of(const LayoutWords& words, std::string_view text) {
  const auto in_form = [&](WordsForm form) {
    if (form == WordsForm::flags && !is_command_line(words.form)) return of_nested_flags(text);
    if (form == WordsForm::flags) return of_flags(text);
    if (form == WordsForm::overrides) return of_overrides(text);
    return of_lines(text, words.ignores);
  };
  Settings settings = in_form(words.form);
  if (words.also_read == WordsForm::none) return settings;
  // A script's own variables may be called as words of a file are: its command counts.
  const bool prefers_other = is_command_line(words.also_read) && !is_command_line(words.form);
  if (!prefers_other && settings.has_any(words.deciding)) return settings;
  Settings others = in_form(words.also_read);
  return others.has_any(words.deciding) ? others : settings;
}

bool Settings::has_any(const std::set<std::string, std::less<>>& plain_names) const {
  return std::any_of(plain_names.begin(), plain_names.end(),
      [this](const std::string& name) { return plain(name) != nullptr; });
}

void Settings::add_plain_names() {
  for (const auto& [path, value] : by_path_) {
    for (std::string_view rest = path; rest.find('.') != std::string_view::npos;
         rest.remove_prefix(rest.find('.') + 1))
      by_plain_name_.insert_or_assign(bare_name(rest), Setting{std::string(rest), value});
  }
  for (const auto& [name, value] : values_)
    by_plain_name_.insert_or_assign(bare_name(name), Setting{name, value});
}

std::string_view Settings::text(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string_view() : found->second;
}

const Setting* Settings::plain(std::string_view name) const {
  const auto found = by_plain_name_.find(name);
  return found == by_plain_name_.end() ? nullptr : &found->second;
}

std::string_view Settings::list(std::string_view name) const {
  const auto found = lists_.find(name);
  if (found != lists_.end()) return found->second;
  const Setting* there = plain(name);
  return there == nullptr ? std::string_view() : there->value;
}

}  // namespace shardsweep
