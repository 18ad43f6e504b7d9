// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer_file.hpp"

#include "builtin/files.hpp"
#include "text/expression.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace shardsweep {
namespace {

[[noreturn]] void refuse_line(int line, std::string_view what) {
  throw std::invalid_argument(fmt::format("line {}: {}", line, what));
}

template <class Item>
void append(std::vector<Item>& to, const std::vector<Item>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// One entry of a section's list: `- key: value`, and further keys below it.
class FileReader {
 public:
  TrainerFile read(std::string_view yaml) {
    for (const std::string_view line : split(yaml, '\n')) {
      ++number_;
      if (line.empty() || line.front() == '#') continue;
      const auto colon = line.find(':');
      if (colon == std::string_view::npos) refuse_line(number_, "no 'key: value'");
      const auto value = trimmed(line.substr(colon + 1));
      if (line.starts_with("- ") || line.starts_with("  "))
        set(line.substr(2, colon - 2), value, line.front() == '-');
      else
        begin(line.substr(0, colon), value);
    }
    return std::move(file_);
  }

 private:
  void begin(std::string_view key, std::string_view value) {
    section_ = key;
    if (key == "rules_of")
      append(file_.rules, trainer_file(value).rules);
    else if (key == "refuses_of")
      append(file_.refuses, trainer_file(value).refuses);
    else if (key == "copies_kv_heads")
      file_.copies_kv_heads = value == "true";
    else if (key != "rules" && key != "refuses")
      refuse_line(number_, "no such section");
  }

  void set(std::string_view key, std::string_view value, bool fresh) {
    const bool is_rule = section_ == "rules";
    if (fresh && is_rule) file_.rules.emplace_back();
    if (fresh && !is_rule) file_.refuses.emplace_back();
    std::string* field =
        is_rule ? field_of(file_.rules.back(), key) : field_of(file_.refuses.back(), key);
    if (field == nullptr) refuse_line(number_, "no such key");
    *field = value;
  }
  static std::string* field_of(TrainerRule& rule, std::string_view key) {
    return key == "when"  ? &rule.when
        : key == "why"    ? &rule.why
        : key == "source" ? &rule.source
                          : nullptr;
  }
  static std::string* field_of(RefusedWord& word, std::string_view key) {
    return key == "word" ? &word.word : key == "why" ? &word.why : nullptr;
  }

  TrainerFile file_;
  std::string section_;
  int number_ = 0;
};

}  // namespace

TrainerFile read_trainer_file(std::string_view yaml) {
  return FileReader().read(yaml);
}

const TrainerFile& trainer_file(std::string_view trainer) {
  thread_local std::map<std::string, TrainerFile, std::less<>> files;
  if (const auto known = files.find(trainer); known != files.end()) return known->second;
  const auto text = builtin::text_of(fmt::format("sweeps/trainers/{}.yaml", trainer));
  TrainerFile file = read_trainer_file(text.value_or(""));
  return files.emplace(std::string(trainer), std::move(file)).first->second;
}

std::string_view rule_against(std::string_view trainer, const Placeholders& values) {
  const TextOfName text_of = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional<std::string_view>(found->second);
  };
  for (const TrainerRule& rule : trainer_file(trainer).rules) {
    const auto holds = computed(rule.when, text_of);
    if (holds && *holds == "1") return rule.why;
  }
  return {};
}

}  // namespace shardsweep
