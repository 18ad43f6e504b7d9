// SPDX-License-Identifier: Apache-2.0
// Decision: No shell is run, because a launch script trains. Of the shell's language this knows
// what launch scripts are made of: assignments, arrays, defaults (${X:-2}), whole numbers
// ($((A*B))), here documents, and where a branch begins and ends. Anything else leaves a $ behind.
#include "trainer/shell_script.hpp"

#include "text/expression.hpp"
#include "text/pieces.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

constexpr int deepest_default = 8;  // ${A:-${B:-2}}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool goes_on_name(char c) {
  return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 3> opening_branch{"if", "case", "select"};
constexpr std::array<std::string_view, 3> opening_loop{"for", "while", "until"};
constexpr std::array<std::string_view, 3> closing{"fi", "esac", "done"};
constexpr std::array<std::string_view, 9> passing{
    "then", "else", "elif", "do", "!", "{", "}", "time", "exec"};
constexpr std::array<std::string_view, 6> declaring{
    "export", "local", "declare", "readonly", "typeset", "let"};
constexpr std::array<std::string_view, 3> testing{"[", "[[", "test"};
constexpr std::array<std::string_view, 4> settings_endings{".json", ".yaml", ".yml", ".toml"};
constexpr std::array<std::string_view, 7> harmless{":", "echo", "printf", "[", "[[", "test", "set"};

/// `<<WORD`, `<<-WORD`, `<< 'WORD'`: what a here document ends with. YAML's `<<: *anchor` is none.
struct HereDocument {
  std::string end;
  bool cuts_tabs = false;
  bool is_literal = false;  ///< the word is quoted, so no variable is filled in
  std::size_t length = 0;   ///< bytes of the mark
};
std::optional<HereDocument> here_document(std::string_view text) {
  if (!text.starts_with("<<") || text.starts_with("<<<")) return std::nullopt;
  std::size_t at = 2;
  HereDocument here;
  here.cuts_tabs = text.substr(at).starts_with('-');
  at += here.cuts_tabs ? 1 : 0;
  while (at < text.size() && is_blank(text[at]))
    ++at;
  const auto is_quote = [&] {
    return at < text.size() && std::string_view("'\"\\").find(text[at]) != std::string_view::npos;
  };
  here.is_literal = is_quote();
  here.length = std::min(text.find_first_of(" \t\r\n;&|<>()", at), text.size());
  for (; at < here.length; ++at)
    if (!is_quote()) here.end += text[at];
  if (here.end.empty() || !begins_name(here.end.front())) return std::nullopt;
  return here;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<Script> read() {
    read_all();
    if (open_quote_)
      return fault(FaultKind::invalid_input, "the script has a quote without its other");
    return std::move(script_);
  }

 private:
  using Words = std::vector<ScriptWord>;

  [[nodiscard]] char now() const { return text_[at_]; }
  [[nodiscard]] bool is_next(char c) const { return at_ + 1 < text_.size() && text_[at_ + 1] == c; }

  void read_all() {
    while (at_ < text_.size())
      step();
    end_statement();
  }

  void step() {
    const char c = now();
    if (is_blank(c)) {
      ++at_;
    } else if (c == '\\' && is_next('\n')) {
      at_ += 2;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '&' || c == '|') {
      const bool depends = is_next(c);  // && and ||
      at_ += depends ? 2 : 1;
      end_statement();
      after_condition_ = depends && tested_ != (c == '&');
    } else if (c == '\n' || c == ';' || c == '(' || c == ')') {
      ++at_;
      end_statement();
      if (c == '\n') read_documents(std::exchange(written_, {}));
    } else if (auto here = here_document(text_.substr(at_))) {
      at_ += here->length;
      here_.push_back(*std::move(here));
    } else if (c == '<' || c == '>') {
      while (at_ < text_.size() && (now() == '<' || now() == '>' || now() == '&'))
        ++at_;
      writes_ = c == '>';
    } else {
      statement_.push_back(read_word());
      if (std::exchange(writes_, statement_.back().back().text == "tee") &&
          names_settings(statement_.back().back().text))
        written_ = statement_.back().back().text;
    }
  }

  // ---- here documents

  static bool names_settings(std::string_view file) {
    return std::any_of(settings_endings.begin(), settings_endings.end(),
        [file](std::string_view ending) { return file.ends_with(ending); });
  }

  /// Reads those that the line before has announced. One that is no file of settings is a script.
  void read_documents(const std::string& file) {
    for (const HereDocument& here : std::exchange(here_, {})) {
      std::string body;
      for (bool goes_on = at_ < text_.size(); goes_on;) {
        const auto end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        if (here.cuts_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        at_ = std::min(end + 1, text_.size());
        const bool is_end = trimmed(line) == here.end;
        goes_on = !is_end && at_ < text_.size();
        if (!is_end) body += std::string(line) + '\n';
      }
      if (!file.empty()) {
        const bool unsure = branches_ > 0 || loops_ > 0;
        script_.documents.push_back({file, here.is_literal ? body : document_of(body), unsure});
        continue;
      }
      if (!here.is_literal) {  // \$NAME is for the shell that reads it
        for (auto at = body.find("\\$"); at != std::string::npos; at = body.find("\\$", at))
          body.erase(at, 1);
      }
      // A note is no script: it may have an apostrophe, or begin a line with "for".
      const std::tuple before(open_quote_, branches_, loops_);
      within(body, [&] { read_all(); });
      std::tie(open_quote_, branches_, loops_) = before;
    }
  }

  /// A body with the script's variables filled in.
  std::string document_of(std::string_view body) {
    std::string out;
    within(body, [&] {
      while (at_ < text_.size()) {
        if (now() == '\\' && at_ + 1 < text_.size() &&
            std::string_view("$`\\").find(text_[at_ + 1]) != std::string_view::npos) {
          out += text_[at_ + 1];
          at_ += 2;
        } else if (now() == '$') {
          std::string_view blank;
          for (const ScriptWord& word : read_dollar(0)) {
            out += std::string(blank) + (word.unsure ? "$?" : word.text);
            blank = " ";
          }
        } else {
          out += now();
          ++at_;
        }
      }
    });
    return out;
  }

  /// Does something with another text in place of the script's.
  template <typename Do>
  void within(std::string_view text, const Do& act) {
    const auto outer_text = std::exchange(text_, text);
    const auto outer_at = std::exchange(at_, 0);
    act();
    text_ = outer_text;
    at_ = outer_at;
  }

  // ---- words

  /// One word of the shell's, as its own words between blanks; at least one, it may be empty.
  Words read_word() {
    Words words(1);
    while (at_ < text_.size()) {
      const char c = now();
      if (is_blank(c) || std::string_view("\n;&|()<>").find(c) != std::string_view::npos) break;
      if (c == '\'' || c == '"') {
        ++at_;
        read_quoted(c, words);
      } else {
        read_one(words);
      }
      if (begins_array(words)) read_array(words);
    }
    return words;
  }

  void read_quoted(char quote, Words& words) {
    while (at_ < text_.size() && now() != quote) {
      if (std::isspace(static_cast<unsigned char>(now())) != 0) {
        words.emplace_back();
        ++at_;
      } else {
        read_one(words);
      }
    }
    open_quote_ = open_quote_ || at_ == text_.size();
    ++at_;
  }

  /// A character, or what a $ stands for.
  void read_one(Words& words) {
    if (now() == '\\' && at_ + 1 < text_.size()) {
      if (is_next('\n')) {
        words.emplace_back();
      } else {
        words.back().text += text_[at_ + 1];
      }
      at_ += 2;
    } else if (now() == '$') {
      append(words, read_dollar(0));
    } else {
      words.back().text += now();
      ++at_;
    }
  }

  /// The first of them goes on the word before.
  static void append(Words& words, const Words& more) {
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (i > 0) words.emplace_back();
      words.back().text += more[i].text;
      words.back().unsure = words.back().unsure || more[i].unsure;
    }
  }

  [[nodiscard]] bool begins_array(const Words& words) const {
    return words.size() == 1 && words.front().text.ends_with('=') && at_ < text_.size() &&
        now() == '(';
  }
  void read_array(Words& words) {
    ++at_;
    while (at_ < text_.size() && now() != ')') {
      if (std::isspace(static_cast<unsigned char>(now())) != 0) {
        ++at_;
      } else if (now() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (now() == '\\' && is_next('\n')) {
        at_ += 2;
      } else {
        const std::size_t before = at_;
        const Words one = read_word();
        if (at_ == before) ++at_;  // skip characters that no array has
        words.emplace_back();
        append(words, one);
      }
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  // ---- variables

  /// Text up to the bracket that closes the one at `at_`; passes over it too.
  std::string_view bracketed(char open, char close) {
    const std::size_t begin = at_ + 1;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (now() == open) ++depth;
      if (now() == close && --depth == 0) break;
    }
    const auto inside = text_.substr(std::min(begin, text_.size()), at_ - begin);
    open_quote_ = open_quote_ || at_ == text_.size();
    at_ = std::min(at_ + 1, text_.size());
    return inside;
  }

  static Words unknown(std::string_view name) { return {{"$" + std::string(name), false}}; }

  Words read_dollar(int depth) {
    ++at_;
    if (at_ == text_.size()) return {{"$", false}};
    if (now() == '{') return braced(bracketed('{', '}'), depth);
    if (text_.substr(at_).starts_with("((")) return counted_value(bracketed('(', ')'));
    if (now() == '(') {
      bracketed('(', ')');
      return unknown("(...)");
    }
    std::size_t end = at_;
    while (end < text_.size() && goes_on_name(text_[end]))
      ++end;
    if (end == at_) return unknown(text_.substr(at_++, 1));
    const auto name = text_.substr(at_, end - at_);
    at_ = end;
    return value_of(name);
  }

  Words value_of(std::string_view name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return unknown(name);
    const Words& words = found->second;
    // A number that depends on a branch is none.
    const bool plain = words.size() == 1 && !words.front().text.starts_with('-');
    return plain && words.front().unsure ? unknown(name) : words;
  }

  /// `NAME`, `NAME[@]`, `NAME:-default` and its likes.
  Words braced(std::string_view inside, int depth) {
    std::size_t end = 0;
    while (end < inside.size() && goes_on_name(inside[end]))
      ++end;
    const auto name = inside.substr(0, end);
    const auto rest = inside.substr(end);
    if (name.empty()) return unknown(inside);
    if (rest.empty() || rest == "[@]" || rest == "[*]") return value_of(name);
    for (const std::string_view mark : {":-", ":=", "-", "="}) {
      if (!rest.starts_with(mark)) continue;
      if (const auto known = variables_.find(name); known != variables_.end())
        return value_of(name);
      Words words = filled(rest.substr(mark.size()), depth + 1);
      if (mark.ends_with('=')) keep(std::string(name), words);
      return words;
    }
    return unknown(name);
  }
  /// Sets the variable of a default with :=.
  void keep(const std::string& name, Words words) {
    for (ScriptWord& word : words)
      word.unsure = word.unsure || branches_ > 0 || loops_ > 0 || after_condition_;
    variables_.insert_or_assign(name, std::move(words));
  }

  /// A default, which may name variables itself.
  Words filled(std::string_view text, int depth) {
    if (depth > deepest_default) return unknown("{...}");
    Words words(1);
    within(text, [&] {
      while (at_ < text_.size()) {
        if (now() == '"' || now() == '\'') {
          ++at_;
        } else if (std::isspace(static_cast<unsigned char>(now())) != 0) {
          words.emplace_back();
          ++at_;
        } else if (now() == '$') {
          append(words, read_dollar(depth));
        } else {
          words.back().text += now();
          ++at_;
        }
      }
    });
    return words;
  }

  /// $((A * $B)).
  Words counted_value(std::string_view inside) {
    if (inside.size() < 2) return unknown("((...))");
    inside = inside.substr(1, inside.size() - 2);
    std::string expression;
    for (const ScriptWord& word : filled(inside, 1))
      expression += word.text + ' ';
    const auto value = computed(expression, [&](std::string_view name) {
      const auto found = variables_.find(name);
      const bool plain =
          found != variables_.end() && found->second.size() == 1 && !found->second.front().unsure;
      return plain ? std::optional<std::string_view>(found->second.front().text) : std::nullopt;
    });
    return value ? Words{{*value, false}} : unknown("((...))");
  }

  // ---- statements

  /// NAME= or NAME+= at its beginning; none: it is no assignment.
  static std::optional<std::pair<std::string, bool>> assigned(std::string_view word) {
    std::size_t end = 0;
    while (end < word.size() && goes_on_name(word[end]))
      ++end;
    if (end == 0 || !begins_name(word.front()) || end == word.size()) return std::nullopt;
    const bool adds = word.substr(end).starts_with("+=");
    if (!adds && word[end] != '=') return std::nullopt;
    return std::pair(std::string(word.substr(0, end)), adds);
  }

  void assign(const std::string& name, bool adds, Words words) {
    words.front().text.erase(0, name.size() + (adds ? 2 : 1));
    std::erase_if(words, [](const ScriptWord& word) { return word.text.empty(); });
    const auto known = variables_.find(name);
    Words before = known == variables_.end() ? Words() : known->second;
    if (adds) words.insert(words.begin(), before.begin(), before.end());
    if (branches_ > 0 || loops_ > 0 || after_condition_) {
      const auto same = std::mismatch(before.begin(), before.end(), words.begin(), words.end());
      const auto kept = static_cast<std::size_t>(same.first - before.begin());
      // Words that a branch has removed may still be there.
      words.insert(words.end(), same.first, before.end());
      for (std::size_t i = kept; i < words.size(); ++i)
        words[i].unsure = true;
    }
    if (words.empty()) words.emplace_back();
    variables_.insert_or_assign(name, std::move(words));
  }

  void begin_loop(const std::vector<Words>& words) {
    ++loops_;
    if (words.size() < 4 || words[2].front().text != "in") return;
    Words values;
    for (std::size_t i = 3; i < words.size(); ++i)
      values.insert(values.end(), words[i].begin(), words[i].end());
    if (values.size() > 1) values = {{values.front().text, true}};
    variables_.insert_or_assign(words[1].front().text, std::move(values));
  }

  void end_statement() {
    std::vector<Words> words = std::exchange(statement_, {});
    std::size_t first = 0;
    for (; first < words.size(); ++first) {
      const std::string& word = words[first].front().text;
      if (is_one_of(word, opening_branch)) {
        ++branches_;
      } else if (is_one_of(word, opening_loop)) {
        begin_loop({words.begin() + static_cast<std::ptrdiff_t>(first), words.end()});
        if (word == "for") first = words.size();
      } else if (is_one_of(word, closing)) {
        int& open = word == "done" ? loops_ : branches_;
        open = std::max(0, open - 1);
      } else if (!is_one_of(word, passing)) {
        break;
      }
    }
    tested_ = after_condition_ ? std::nullopt : test_of(words, first);
    run(std::move(words), first);
    after_condition_ = false;
  }
  /// `[ -z "$NAME" ]` and `[ -n "$NAME" ]` ask, as ${NAME:-…} does, for a variable that the script
  /// may be given. The answer for one that is not; none: it is another statement.
  [[nodiscard]] std::optional<bool> test_of(
      const std::vector<Words>& words, std::size_t first) const {
    if (words.size() < first + 3 || !is_one_of(words[first].front().text, testing))
      return std::nullopt;
    const std::size_t asked = words.size() - first - (words[first].front().text == "test" ? 0 : 1);
    const std::string& question = words[first + 1].front().text;
    std::string_view name = words[first + 2].front().text;
    if (asked != 3 || !name.starts_with('$') || (question != "-z" && question != "-n"))
      return std::nullopt;
    name.remove_prefix(1);
    if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
    const bool is_unset = !name.empty() && begins_name(name.front()) &&
        std::all_of(name.begin(), name.end(), goes_on_name) && !variables_.contains(name);
    return is_unset ? std::optional(question == "-z") : std::nullopt;
  }

  void run(std::vector<Words> words, std::size_t first) {
    const bool declares = first < words.size() && is_one_of(words[first].front().text, declaring);
    if (declares) ++first;
    for (; first < words.size(); ++first) {
      const auto name = assigned(words[first].front().text);
      const bool option = declares && words[first].front().text.starts_with('-');
      if (!name && !option) break;
      if (name) assign(name->first, name->second, std::move(words[first]));
    }
    if (first >= words.size() || is_one_of(words[first].front().text, harmless)) return;
    ScriptCommand command;
    for (; first < words.size(); ++first) {
      for (ScriptWord& word : words[first]) {
        if (!word.text.empty() && word.text.front() != '#') command.push_back(std::move(word));
      }
    }
    const bool tells = std::any_of(command.begin(), command.end(), [](const ScriptWord& word) {
      return word.text.starts_with("--") || word.text.find('=') != std::string::npos;
    });
    if (tells) script_.commands.push_back(std::move(command));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Words> statement_;
  std::map<std::string, Words, std::less<>> variables_;
  std::vector<HereDocument> here_;  // announced, to be read behind this line
  std::string written_;             // file of settings that this line writes
  bool writes_ = false;             // the next word is such a file, if it is named as one
  Script script_;
  int branches_ = 0;
  int loops_ = 0;
  bool after_condition_ = false;
  std::optional<bool> tested_;  // answer of the last statement, if it was such a question
  bool open_quote_ = false;
};

}  // namespace

Result<Script> read_script(std::string_view text) {
  return Reader(text).read();
}

bool has_here_document(std::string_view text) {
  for (auto at = text.find("<<"); at != std::string_view::npos;) {
    if (here_document(text.substr(at))) return true;
    at = text.find("<<", text.substr(at).starts_with("<<<") ? at + 3 : at + 1);
  }
  return false;
}

}  // namespace shardsweep
