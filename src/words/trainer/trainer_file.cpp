// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer_file.hpp"

#include "builtin/files.hpp"
#include "text/entries.hpp"
#include "text/expression.hpp"
#include "text/pieces.hpp"

#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

namespace shardsweep {
namespace {

[[noreturn]] void refuse_line(int line, std::string_view what) {
  throw std::invalid_argument(fmt::format("line {}: {}", line, what));
}

constexpr std::string_view folder = "sweeps/trainers/";
constexpr std::string_view ending = ".yaml";
constexpr std::array<std::string_view, 11> sections{"rules", "refuses", "tested", "log", "layout",
    "values", "words", "lacks", "reads", "also", "start"};

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
      if (section_ == "words" && value.fresh) {
        add_word(value.key, value.text);
      } else if ((section_ == "values" || section_ == "lacks") && value.fresh) {
        auto& list = section_ == "values" ? file_.layout.values : file_.layout.lacks;
        list.push_back({std::string(value.key), value.text});
      } else if (section_ == "reads" && value.fresh && value.key != "when") {
        file_.layout.reads.push_back({.name = std::string(value.key), .text = value.text});
      } else if (!value.key.empty()) {
        set(value.key, value.text, value.fresh);
      } else if (!value.fresh) {
        begin(value.section, value.text);
      } else if (section_ == "log" || section_ == "also") {
        (section_ == "log" ? file_.patterns : file_.layout.also).push_back(value.text);
      } else {
        refuse_line(number_, "no 'key: value'");
      }
    }
    file_.layout.deciding = deciding_words(file_.layout);
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
    else if (std::find(sections.begin(), sections.end(), key) == sections.end())
      refuse_line(number_, "no such section");
  }

  void add_word(std::string_view key, const std::string& text) {
    LayoutWord word = layout_word(key, text);
    if (find_axis(word.axis) == nullptr && word.axis != batch_name)
      refuse_line(number_, "no such axis");
    file_.layout.words.push_back(std::move(word));
  }

  void set(std::string_view key, std::string_view value, bool fresh) {
    if (fresh && section_ == "rules") file_.rules.emplace_back();
    if (fresh && section_ == "refuses") file_.refuses.emplace_back();
    if (fresh && section_ == "tested") file_.tested.emplace_back();
    if (fresh && section_ == "reads") file_.layout.reads.emplace_back();
    if (section_ == "start" && set_flag(key, value)) return;
    if (section_ == "layout" && key == "form") {
      const auto form = form_of_words(value);
      if (!form) refuse_line(number_, fmt::format("the forms are {}", forms_of_words));
      file_.layout.form = *form;
      return;
    }
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
        : section_ == "reads" && !file_.layout.reads.empty()
        ? Fields{{"when", &file_.layout.reads.back().when}, {"why", &file_.layout.reads.back().why},
              {"of", &file_.layout.reads.back().of},
              {"without", &file_.layout.reads.back().without}}
        : section_ == "layout" ? Fields{{"ignores", &file_.layout.ignores}}
                               : Fields{};
    const auto found = fields.find(key);
    return found == fields.end() ? nullptr : found->second;
  }

  TrainerFile file_;
  std::string_view section_;
  std::string recipes_;
  int number_ = 0;
};

using Files = std::map<std::string, TrainerFile, std::less<>>;
const Files& all_files() {
  static const Files files = [] {
    Files all;
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
  return files;
}

}  // namespace

TrainerFile read_trainer_file(std::string_view yaml) {
  return FileReader().read(yaml);
}

std::span<const std::string_view> trainers_with_files() {
  static const auto names = [] {
    std::vector<std::string_view> all;
    for (const auto& [name, file] : all_files())
      all.push_back(name);
    return all;
  }();
  return names;
}

const TrainerFile& trainer_file(std::string_view trainer) {
  static const TrainerFile none;
  const auto found = all_files().find(trainer);
  return found == all_files().end() ? none : found->second;
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
