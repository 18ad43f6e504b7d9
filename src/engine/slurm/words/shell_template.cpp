// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/shell_template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace shardsweep {
namespace {

constexpr std::string_view plain_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

struct Tag {
  std::size_t begin = 0;
  std::size_t end = 0;
  char kind = ' ';  ///< ' ', '?' or '*'
  std::string key;
};

class Renderer {
 public:
  Renderer(std::string_view name, const TemplateValues& values)
      : name_(name), values_(values) {}

  Result<std::string> run(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      SHARDSWEEP_TRY(add_line(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    SHARDSWEEP_TRY(check_all_used());
    return std::move(out_);
  }

 private:
  [[nodiscard]] tl::unexpected<Fault> error(const std::string& what) const {
    return fault(FaultKind::invalid_input, fmt::format("{}:{}: {}", name_, line_, what));
  }

  Result<std::optional<Tag>> next_tag(std::string_view line, std::size_t from) const {
    Tag tag;
    tag.begin = line.find("{{", from);
    if (tag.begin == std::string_view::npos) return std::nullopt;
    const std::size_t close = line.find("}}", tag.begin);
    if (close == std::string_view::npos) return error("'{{' without '}}'");
    tag.end = close + 2;
    std::string_view inner = line.substr(tag.begin + 2, close - tag.begin - 2);
    if (!inner.empty() && (inner.front() == '?' || inner.front() == '*')) {
      tag.kind = inner.front();
      inner.remove_prefix(1);
    }
    tag.key = inner;
    if (!known(tag.key)) return error(fmt::format("unknown key '{}'", tag.key));
    return tag;
  }

  [[nodiscard]] bool known(const std::string& key) const {
    return values_.values.count(key) != 0 || values_.lists.count(key) != 0 ||
           std::find(values_.optional.begin(), values_.optional.end(), key) !=
               values_.optional.end();
  }

  /// The line with its tags replaced; nothing where an optional key has no value. `element`
  /// stands for the list's.
  Result<std::optional<std::string>> fill(std::string_view line, const std::string* element) {
    std::string filled;
    std::size_t at = 0;
    for (;;) {
      SHARDSWEEP_ASSIGN(const auto tag, next_tag(line, at));
      if (!tag) break;
      filled += line.substr(at, tag->begin - at);
      at = tag->end;
      used_.insert(tag->key);
      const auto value = values_.values.find(tag->key);
      if (tag->kind == '?') {
        if (value == values_.values.end()) return std::nullopt;
      } else if (tag->kind == '*') {
        filled += *element;
      } else if (value == values_.values.end()) {
        return error(fmt::format("key '{}' has no value", tag->key));
      } else {
        filled += value->second;
      }
    }
    filled += line.substr(at);
    return filled;
  }

  Result<void> add_line(std::string_view line) {
    std::size_t at = 0;
    for (;;) {
      SHARDSWEEP_ASSIGN(const auto tag, next_tag(line, at));
      if (!tag) break;
      if (tag->kind == '*') return add_repeated(line, tag->key);
      at = tag->end;
    }
    return add(fill(line, nullptr));
  }

  Result<void> add_repeated(std::string_view line, const std::string& key) {
    used_.insert(key);
    const auto list = values_.lists.find(key);
    if (list == values_.lists.end()) return {};
    for (const std::string& element : list->second)
      SHARDSWEEP_TRY(add(fill(line, &element)));
    return {};
  }

  Result<void> add(Result<std::optional<std::string>> filled) {
    SHARDSWEEP_TRY(filled);
    if (*filled) out_ += **filled + '\n';
    return {};
  }

  Result<void> check_all_used() const {
    const auto unused = [this](const std::string& key) {
      return used_.count(key) == 0 &&
             std::find(values_.optional.begin(), values_.optional.end(), key) ==
                 values_.optional.end();
    };
    for (const auto& [key, value] : values_.values) {
      if (unused(key)) return error(fmt::format("no line uses the key '{}'", key));
    }
    for (const auto& [key, list] : values_.lists) {
      if (unused(key)) return error(fmt::format("no line uses the list '{}'", key));
    }
    return {};
  }

  std::string_view name_;
  const TemplateValues& values_;
  std::string out_;
  std::set<std::string, std::less<>> used_;
  int line_ = 0;
};

}  // namespace

Result<std::string> render_template(std::string_view text, std::string_view name,
                                    const TemplateValues& values) {
  return Renderer(name, values).run(text);
}

std::string shell_quote(std::string_view word) {
  if (!word.empty() && word.find_first_not_of(plain_characters) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_command(const std::vector<std::string>& argv) {
  std::string command;
  for (const std::string& word : argv) {
    if (!command.empty()) command += ' ';
    command += shell_quote(word);
  }
  return command;
}

}  // namespace shardsweep
