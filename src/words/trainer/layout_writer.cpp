// SPDX-License-Identifier: Apache-2.0
#include "text/characters.hpp"
#include "text/expression.hpp"
#include "text/pieces.hpp"
#include "text/placeholders.hpp"
#include "trainer/configuration.hpp"
#include "trainer/point_words.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

namespace shardsweep {
namespace {

/// Axes that follow from others, or that a trainer's own code may hold: no word is no fault.
constexpr std::array<std::string_view, 3> said_elsewhere{"dp", "grad_accum", "seq_len"};
static_assert(names_axes(said_elsewhere));

tl::unexpected<Fault> no_words(std::string_view trainer, std::string_view what) {
  return fault(FaultKind::invalid_input, "{} has no setting for {}", trainer, what);
}

/// Values that texts and conditions of a trainer's file may name.
Placeholders values_of(const LayoutWords& words, const TrainerLayout& layout) {
  Placeholders values{{"experts", std::to_string(layout.experts)},
      {"layers", std::to_string(layout.layers)},
      {"global_batch", std::to_string(layout.global_batch())}, {"dtype", ""}};
  for (const AxisInfo& axis : axis_table)
    if (auto text = axis_text_of(layout, axis))
      values.insert_or_assign(std::string(axis.name), *text);
  for (const NamedText& one : words.values)
    values.insert_or_assign(one.name, filled(one.text, values, DoubleBraces::make_single));
  return values;
}

bool has_words(const LayoutWords& words, std::string_view axis) {
  return words.word_of(axis) != nullptr ||
      std::any_of(words.reads.begin(), words.reads.end(),
          [&](const LayoutReading& one) { return one.name == axis; });
}

/// Axes whose trainer has no word at all.
Result<void> check_axes(
    std::string_view trainer, const LayoutWords& words, const TrainerLayout& layout) {
  const TrainerLayout usual;
  for (const AxisInfo& axis : axis_table) {
    const auto value = axis_text_of(layout, axis);
    if (!value || value == axis_text_of(usual, axis) || has_words(words, axis.name)) continue;
    const bool is_elsewhere =
        std::find(said_elsewhere.begin(), said_elsewhere.end(), axis.name) != said_elsewhere.end();
    if (is_elsewhere || (axis.name == "schedule" && layout.pp == 1)) continue;
    return no_words(trainer, fmt::format("{} {}", axis.name, *value));
  }
  if (layout.vpp > 1 && layout.pp == 1)
    return no_words(trainer, fmt::format("vpp {} with pp 1", layout.vpp));
  return {};
}

/// Values that the trainer has no word for.
Result<void> check_values(
    std::string_view trainer, const LayoutWords& words, const Placeholders& values) {
  for (const NamedText& lacked : words.lacks) {
    SHARDSWEEP_ASSIGN(const std::string holds,
        computed(lacked.text, [&](std::string_view name) -> std::optional<std::string_view> {
          const auto found = values.find(name);
          if (found == values.end()) return std::nullopt;
          return found->second;
        }));
    if (holds == "0") continue;
    std::vector<std::string> said;
    for (const std::string_view word : split(lacked.name, ' ')) {
      const auto value = values.find(word);
      said.push_back(
          value == values.end() ? std::string(word) : fmt::format("{} {}", word, value->second));
    }
    return no_words(trainer, fmt::format("{}", fmt::join(said, " ")));
  }
  return {};
}

/// A flag takes its value as a word of its own, unless both depend on a condition.
void append_argv(const LayoutWord& one, WordsForm form, std::vector<std::string>& argv) {
  if (form == WordsForm::flags && one.condition.empty() && one.value) {
    argv.push_back(one.word);
    argv.push_back(*one.value);
  } else {
    argv.push_back(one.text);
  }
}

/// A value, and the names that it is nested in.
struct NestedWord {
  std::vector<std::string_view> path;
  std::string_view value;
};

std::string quoted(std::string_view value, WordsForm form) {
  const bool is_plain = form == WordsForm::yaml || value == "true" || value == "false" ||
      value.find_first_not_of("0123456789") == std::string_view::npos;
  return is_plain ? std::string(value) : fmt::format("\"{}\"", value);
}

/// Leaves of one section are consecutive.
std::string nested(std::span<const NestedWord> leaves, std::size_t depth, WordsForm form) {
  const bool is_json = form == WordsForm::json;
  const std::string indent(form == WordsForm::toml ? 0 : 2 * (depth + (is_json ? 1 : 0)), ' ');
  std::string text;
  for (std::size_t at = 0; at < leaves.size();) {
    const std::string_view name = leaves[at].path[depth];
    const bool is_section = leaves[at].path.size() > depth + 1;
    std::size_t end = at + 1;
    while (is_section && end < leaves.size() && leaves[end].path[depth] == name)
      ++end;
    const std::string inner = is_section ? nested(leaves.subspan(at, end - at), depth + 1, form)
                                         : quoted(leaves[at].value, form);
    if (form == WordsForm::toml)
      text +=
          is_section ? fmt::format("[{}]\n{}", name, inner) : fmt::format("{} = {}\n", name, inner);
    else if (is_json)
      text += fmt::format("{}{}\"{}\": {}", at == 0 ? "" : ",\n", indent, name,
          is_section ? fmt::format("{{\n{}\n{}}}", inner, indent) : inner);
    else
      text += fmt::format("{}{}:{}{}", indent, name, is_section ? "\n" : " ", inner) +
          (is_section ? "" : "\n");
    at = end;
  }
  return text;
}

std::string nested(const std::vector<std::string>& told, WordsForm form) {
  std::vector<NestedWord> leaves;
  for (const std::string_view one : told) {
    const auto equals = one.find('=');
    leaves.push_back({split(one.substr(0, equals), '.'), one.substr(equals + 1)});
  }
  const std::string text = nested(leaves, 0, form);
  return form == WordsForm::json ? fmt::format("{{\n{}\n}}\n", text) : text;
}

}  // namespace

Result<void> check_has_words(
    std::string_view trainer, const LayoutWords& words, const TrainerLayout& layout) {
  SHARDSWEEP_TRY(check_axes(trainer, words, layout));
  return check_values(trainer, words, values_of(words, layout));
}

Result<std::string> written_layout(
    std::string_view trainer, const LayoutWords& words, const TrainerLayout& layout) {
  SHARDSWEEP_TRY(check_has_words(trainer, words, layout));
  const Placeholders values = values_of(words, layout);
  std::vector<std::string> texts;
  for (const LayoutWord& one : words.words) {
    if (one.axis == "seq_len" && layout.seq_len == 0) continue;
    if (is_command_line(words.form))
      append_argv(one, words.form, texts);
    else
      texts.push_back(one.text);
  }
  std::vector<std::string> told = filled_words(texts, values, DoubleBraces::make_single);
  if (words.form == WordsForm::flags)
    for (std::string& word : told)
      if (const auto value = word.find('='); value != std::string::npos) word[value] = ' ';
  if (words.form == WordsForm::overrides)
    for (std::string& word : told)
      if (word.find(' ') != std::string::npos) word = shell_quoted(word);
  std::string text = is_command_line(words.form) ? fmt::format("{}\n", fmt::join(told, " "))
                                                 : nested(told, words.form);
  for (const std::string& line : filled_words(words.also, values, DoubleBraces::make_single))
    text += line + "\n";
  return text;
}

std::vector<std::string> words_of_argv(
    const LayoutWords& words, const std::vector<std::string_view>& axes) {
  std::vector<std::string> argv;
  for (const LayoutWord& one : words.words) {
    const bool is_asked =
        axes.empty() || std::find(axes.begin(), axes.end(), one.axis) != axes.end();
    if (is_asked && is_command_line(words.form)) append_argv(one, words.form, argv);
  }
  return argv;
}

}  // namespace shardsweep
