// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer_file.hpp"

#include "builtin/files.hpp"
#include "text/entries.hpp"
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

constexpr std::string_view folder = "sweeps/trainers/";
constexpr std::string_view ending = ".yaml";

TrainerFile read_built_in(std::string_view trainer) {
  const auto text = builtin::text_of(fmt::format("{}{}{}", folder, trainer, ending));
  return read_trainer_file(text.value_or(""));
}

template <class Item>
void append(std::vector<Item>& to, const std::vector<Item>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Fills a TrainerFile section by section.
class FileReader {
 public:
  TrainerFile read(std::string_view yaml) {
    for (const TableValue& value : read_table(yaml)) {
      number_ = value.line;
      section_ = value.section;
      if (!value.key.empty()) {
        set(value.key, value.text, value.fresh);
      } else if (!value.fresh) {
        begin(value.section, value.text);
      } else if (section_ == "log") {
        file_.patterns.push_back(value.text);
      } else {
        refuse_line(number_, "no 'key: value'");
      }
    }
    return std::move(file_);
  }

 private:
  void read_recipes() {
    for (const std::string_view line : split(recipes_, '\n')) {
      const auto colon = line.find(": ");
      if (colon != std::string_view::npos)
        file_.start.recipes.push_back(
            {std::string(line.substr(0, colon)), std::string(line.substr(colon + 2))});
    }
  }

  void begin(std::string_view key, std::string_view value) {
    if (key == "rules_of")
      append(file_.rules, read_built_in(value).rules);
    else if (key == "refuses_of")
      append(file_.refuses, read_built_in(value).refuses);
    else if (key == "copies_kv_heads")
      file_.copies_kv_heads = value == "true";
    else if (key != "rules" && key != "refuses" && key != "tested" && key != "start" &&
        key != "log")
      refuse_line(number_, "no such section");
  }

  void set(std::string_view key, std::string_view value, bool fresh) {
    if (fresh && section_ == "rules") file_.rules.emplace_back();
    if (fresh && section_ == "refuses") file_.refuses.emplace_back();
    if (fresh && section_ == "tested") file_.tested.emplace_back();
    if (section_ == "start" && set_flag(key, value)) return;
    std::string* field = field_of(key);
    if (field == nullptr) refuse_line(number_, "no such key");
    *field = value;
    if (field == &recipes_) read_recipes();
  }
  bool set_flag(std::string_view key, std::string_view value) {
    TrainerStart& start = file_.start;
    if (key == "spreads_experts") start.spreads_experts = value == "true";
    if (key == "without") {
      start.has_tp = value.find("tp") == std::string_view::npos;
      start.has_pp = value.find("pp") == std::string_view::npos;
    }
    return key == "spreads_experts" || key == "without";
  }
  std::string* field_of(std::string_view key) {
    using Fields = std::map<std::string_view, std::string*>;
    TrainerStart& start = file_.start;
    const Fields fields = section_ == "start"
        ? Fields{{"written_for", &start.written_for}, {"data", &start.data}, {"zero", &start.zero},
              {"recompute", &start.recompute}, {"constants", &start.constants},
              {"axes", &start.axes}, {"recipes", &recipes_}, {"text", &start.rest}}
        : section_ == "rules" && !file_.rules.empty()
        ? Fields{{"when", &file_.rules.back().when}, {"why", &file_.rules.back().why},
              {"source", &file_.rules.back().source}}
        : section_ == "refuses" && !file_.refuses.empty()
        ? Fields{{"word", &file_.refuses.back().word}, {"why", &file_.refuses.back().why}}
        : section_ == "tested" && !file_.tested.empty()
        ? Fields{{"commit", &file_.tested.back().commit}, {"date", &file_.tested.back().date},
              {"ran", &file_.tested.back().ran}, {"broken", &file_.tested.back().broken}}
        : Fields{};
    const auto found = fields.find(key);
    return found == fields.end() ? nullptr : found->second;
  }

  TrainerFile file_;
  std::string_view section_;
  std::string recipes_;
  int number_ = 0;
};

}  // namespace

TrainerFile read_trainer_file(std::string_view yaml) {
  return FileReader().read(yaml);
}

const TrainerFile& trainer_file(std::string_view trainer) {
  static const auto files = [] {
    std::map<std::string, TrainerFile, std::less<>> all;
    for (const builtin::File& file : builtin::files()) {
      std::string_view name = file.path;
      if (!name.starts_with(folder) || !name.ends_with(ending)) continue;
      name.remove_prefix(folder.size());
      name.remove_suffix(ending.size());
      TrainerFile& read = all[std::string(name)] = read_trainer_file(file.text);
      read.start.name = name;
    }
    return all;
  }();
  static const TrainerFile none;
  const auto found = files.find(trainer);
  return found == files.end() ? none : found->second;
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
