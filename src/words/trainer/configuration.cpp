// SPDX-License-Identifier: Apache-2.0
#include "trainer/configuration.hpp"

#include "text/characters.hpp"
#include "trainer/settings.hpp"
#include "trainer/shell_script.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/point.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace shardsweep {
namespace {

Result<const LayoutWords*> find_words(std::string_view trainer) {
  const LayoutWords& words = layout_words_of(trainer);
  if (words.form != WordsForm::none) return &words;
  return fault(FaultKind::invalid_input,
      "no configuration of {} can be written; the trainers are {}", in_quotes(trainer),
      fmt::join(configurable_trainers(), ", "));
}

constexpr std::array<std::string_view, 5> degrees{"dp", "tp", "pp", "cp", "ep"};
static_assert(names_axes(degrees));

/// A text of another trainer is none of this one: what it says would be taken for the default.
Result<void> check_whose(
    std::string_view trainer, const LayoutWords& words, const Settings& settings) {
  if (std::none_of(words.deciding.begin(), words.deciding.end(),
          [&](const std::string& word) { return settings.plain(word) != nullptr; }))
    return fault(FaultKind::invalid_input,
        "the configuration has none of {}'s settings for a layout ('shardsweep {}' lists them)",
        trainer,
        find_trainer(trainer) == nullptr ? fmt::format("trainers check {}", trainer)
                                         : "help words");
  for (const std::string_view axis : degrees) {
    for (const std::string_view other : configurable_trainers()) {
      const std::string_view word = word_of_axis(other, axis);
      if (word.empty() || words.deciding.contains(bare_name(word)) || !settings.has(word) ||
          settings.plain(std::string(of_command) + bare_name(word)) != nullptr ||
          settings.text(word) == "1")
        continue;
      return fault(FaultKind::invalid_input, "{} {} is a word of {}, and {} has no such word", word,
          settings.text(word), other, trainer);
    }
  }
  return {};
}

/// Refuses words that no axis stands for: the layout would differ from the one that is read.
Result<void> check_unread(std::string_view trainer, const Settings& settings) {
  constexpr std::array<std::string_view, 9> off{
      "false", "False", "none", "None", "null", "0", "1", "[]", "-1"};
  for (const RefusedWord& one : trainer_file(trainer).refuses) {
    const Setting* there = settings.is_nested() ? settings.plain(bare_name(one.word)) : nullptr;
    if (there == nullptr && !settings.has(one.word)) continue;
    const std::string_view value = there != nullptr ? there->value : settings.text(one.word);
    if (std::find(off.begin(), off.end(), value) != off.end()) continue;
    return fault(FaultKind::invalid_input,
        "{}{}{}: it {}, which no axis can express, and without this setting it would be another "
        "layout",
        one.word, value.empty() ? "" : " ", value, one.why);
  }
  return {};
}

/// Words of a nested form are known by their last part: parallelism.tp as tp.
bool decides(const LayoutWords& words, std::string_view name) {
  if (words.deciding.contains(bare_name(name)) ||
      words.deciding.contains(std::string(of_command) + bare_name(name)))
    return true;
  return !is_command_line(words.form) &&
      words.deciding.contains(bare_name(name.substr(name.rfind('.') + 1)));
}

/// Words of a command that decide a layout, with their values.
Result<std::map<std::string, std::string>> deciding(
    const LayoutWords& layout_words, const ScriptCommand& command) {
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < command.size(); ++i) {
    std::string_view word = command[i].text;
    word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
    const auto equals = word.find('=');
    const std::string name(word.substr(0, equals));
    if (!decides(layout_words, name)) continue;
    std::string value;
    bool unsure = command[i].unsure;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < command.size() && !command[i + 1].text.starts_with("--")) {
      value = command[i + 1].text;
      unsure = unsure || command[i + 1].unsure;
    }
    if (unsure || value.find('$') != std::string::npos)
      return fault(FaultKind::invalid_input,
          "{}: its value depends on a branch, an argument or the environment of the script; write "
          "the value itself",
          name);
    found.insert_or_assign(name, value);
  }
  return found;
}

/// The same of all commands of a script.
Result<std::map<std::string, std::string>> deciding(
    const LayoutWords& layout_words, const Script& script) {
  std::map<std::string, std::string> said;
  for (const ScriptCommand& command : script.commands) {
    SHARDSWEEP_ASSIGN(const auto words, deciding(layout_words, command));
    for (const auto& [name, value] : words) {
      const auto [before, fresh] = said.emplace(name, value);
      if (!fresh && before->second != value)
        return fault(FaultKind::invalid_input,
            "{} is {} in one command of the script but {} in another", name, before->second, value);
    }
  }
  return said;
}

/// The file of settings that the script writes and that has words of a layout; null: none. Of
/// several the one that a command names.
Result<const ScriptDocument*> document_of(const LayoutWords& words, const Script& script) {
  std::vector<const ScriptDocument*> found;
  for (const ScriptDocument& one : script.documents)
    if (Settings::of(words, one.text).has_any(words.deciding)) found.push_back(&one);
  const auto is_named = [&](const ScriptDocument* one) {
    const std::string_view name = std::string_view(one->name).substr(one->name.rfind('/') + 1);
    return std::any_of(
        script.commands.begin(), script.commands.end(), [&](const ScriptCommand& command) {
          return std::any_of(command.begin(), command.end(),
              [&](const ScriptWord& word) { return word.text.ends_with(name); });
        });
  };
  if (found.size() > 1 && std::any_of(found.begin(), found.end(), is_named))
    std::erase_if(found, [&](const ScriptDocument* one) { return !is_named(one); });
  if (found.size() > 1)
    return fault(FaultKind::invalid_input,
        "the script writes {} and {}, which both have words of a layout; give one of them alone",
        found.front()->name, found.back()->name);
  if (!found.empty() && found.front()->unsure)
    return fault(FaultKind::invalid_input,
        "{}: the script writes it in a branch; give its text alone", found.front()->name);
  return found.empty() ? nullptr : found.front();
}

/// The words of the commands that decide, as lines, and then the document.
Result<std::string> script_as_lines(
    const LayoutWords& layout_words, const Script& script, const ScriptDocument& document) {
  SHARDSWEEP_ASSIGN(const auto said, deciding(layout_words, script));
  std::string text(of_command.substr(0, of_command.size() - 1));
  text += ":\n";
  for (const auto& [name, value] : said)
    text += fmt::format("  {}: {}\n", std::string_view(name).substr(name.find_first_not_of('-')),
        value.empty() ? "true" : value);
  return text + document.text;
}

Result<std::string> script_as_flags(const LayoutWords& layout_words, const Script& script) {
  SHARDSWEEP_TRY(deciding(layout_words, script));
  std::string text;
  for (const ScriptCommand& command : script.commands) {
    for (const ScriptWord& word : command) {
      // A value that is not known is no number; a flag that may be there decides nothing here.
      if (!word.unsure) text += word.text + ' ';
      if (word.unsure && !word.text.starts_with("--")) text += "$? ";
    }
    text += '\n';
  }
  return text;
}

}  // namespace

const LayoutWords& layout_words_of(std::string_view trainer) {
  return trainer_file(trainer).layout;
}

std::span<const std::string_view> configurable_trainers() {
  static const auto names = [] {
    std::vector<std::string_view> all;
    for (const std::string_view trainer : trainers_with_files())
      if (layout_words_of(trainer).form != WordsForm::none) all.push_back(trainer);
    return all;
  }();
  return names;
}

std::string_view word_of_axis(std::string_view trainer, std::string_view axis) {
  const LayoutWords& words = layout_words_of(trainer);
  if (axis != stage_1) {
    const LayoutWord* word = words.word_of(axis);
    return word == nullptr ? std::string_view() : words.name_of(*word);
  }
  for (const LayoutWord& word : words.words)
    if (word.is_stage_1) return words.name_of(word);
  const bool is_written = written_layout(trainer, words, {.zero = 1}).has_value();
  return is_written ? word_of_axis(trainer, "zero") : std::string_view();
}

std::span<const AxisNames> axis_names() {
  static const auto table = [] {
    std::vector<AxisNames> rows;
    const auto add = [&](std::string_view axis) {
      AxisNames row{axis, {}};
      for (const std::string_view trainer : configurable_trainers())
        row.names.push_back(word_of_axis(trainer, axis));
      const bool is_named = std::any_of(
          row.names.begin(), row.names.end(), [](std::string_view word) { return !word.empty(); });
      if (is_named) rows.push_back(std::move(row));
    };
    for (const AxisInfo& axis : axis_table) {
      add(axis.name);
      if (axis.name == "grad_accum") add("global_batch");
      if (axis.name == "zero") add(stage_1);
    }
    return rows;
  }();
  return table;
}

Result<std::string> configuration_of(std::string_view trainer, const TrainerLayout& layout) {
  SHARDSWEEP_ASSIGN(const LayoutWords* words, find_words(trainer));
  return written_layout(trainer, *words, layout);
}

Result<TrainerLayout> layout_of(
    std::string_view trainer, std::string_view text, std::int64_t gpus) {
  SHARDSWEEP_ASSIGN(const LayoutWords* words, find_words(trainer));
  const Settings settings = Settings::of(*words, text);
  SHARDSWEEP_TRY(check_whose(trainer, *words, settings));
  SHARDSWEEP_TRY(check_unread(trainer, settings));
  return read_layout(*words, settings, gpus);
}

Result<TrainerLayout> layout_of_file(
    std::string_view trainer, std::string_view text, std::int64_t gpus) {
  SHARDSWEEP_ASSIGN(const LayoutWords* words, find_words(trainer));
  const bool has_document = has_here_document(text);
  const bool is_command = Settings::of(*words, text).is_command();
  if (!has_document && (text.find('$') == std::string_view::npos || !is_command))
    return layout_of(trainer, text, gpus);
  SHARDSWEEP_ASSIGN(const Script script, read_script(text));
  SHARDSWEEP_ASSIGN(const ScriptDocument* document, document_of(*words, script));
  if (document == nullptr && !is_command) return layout_of(trainer, text, gpus);
  SHARDSWEEP_ASSIGN(const std::string said,
      document == nullptr ? script_as_flags(*words, script)
                          : script_as_lines(*words, script, *document));
  return layout_of(trainer, said, gpus);
}

}  // namespace shardsweep
