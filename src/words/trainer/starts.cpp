// SPDX-License-Identifier: Apache-2.0
#include "trainer/starts.hpp"

#include "text/characters.hpp"
#include "trainer/configuration.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::string_view layout_mark = "@LAYOUT@";

/// Formats words as lines of the list `argv`.
std::string lines_of(const std::vector<std::string>& words) {
  constexpr std::size_t width = 105;
  constexpr std::string_view indent = "     ";
  std::string text;
  std::size_t used = indent.size();
  for (const std::string& word : words) {
    const std::string_view quote = word.find('{') != std::string::npos ? "\"" : "";
    const std::string item = fmt::format("{0}{1}{0},", quote, word);
    if (!text.empty() && used + 1 + item.size() > width) {
      text += fmt::format("\n{}", indent);
      used = indent.size();
    } else if (!text.empty()) {
      text += ' ';
      ++used;
    }
    text += item;
    used += item.size();
  }
  return text;
}

}  // namespace

bool TrainerStart::tells(std::string_view degree) const {
  if (degree == "pp" && !has_pp) return false;
  return rest.find(layout_mark) != std::string::npos ||
      rest.find(fmt::format("{{{}}}", degree)) != std::string::npos;
}

std::span<const TrainerStart> trainer_starts() {
  static const std::vector<TrainerStart> starts = [] {
    std::vector<TrainerStart> all;
    for (const std::string_view trainer : configurable_trainers())
      if (!trainer_file(trainer).start.rest.empty()) all.push_back(trainer_file(trainer).start);
    return all;
  }();
  return starts;
}

Result<const TrainerStart*> find_trainer_start(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TrainerStart& start : trainer_starts()) {
    if (start.name == name) return &start;
    names.push_back(start.name);
  }
  if (find_trainer(name) != nullptr)
    return fault(FaultKind::invalid_input,
        "{0} is started by a script of your own: write 'runner: {{argv: [...], log: {0}}}' into a "
        "sweep file ('shardsweep new' without --trainer writes the rest). --trainer knows {1}.",
        name, fmt::join(names, ", "));
  return fault(FaultKind::invalid_input, "--trainer knows {}; got {}.", fmt::join(names, ", "),
      in_quotes(name));
}

std::vector<std::string_view> models_of(const TrainerStart& start) {
  std::vector<std::string_view> models;
  for (const StartRecipe& one : start.recipes)
    models.push_back(one.model);
  return models;
}

Result<std::string> rest_of(const TrainerStart& start, std::string_view model) {
  std::string text(start.rest);
  if (const auto layout = text.find(layout_mark); layout != std::string::npos)
    text.replace(layout, layout_mark.size(), lines_of(words_of_argv(layout_words_of(start.name))));
  if (!start.has_recipes()) return text;
  const auto found = std::find_if(start.recipes.begin(), start.recipes.end(),
      [&](const StartRecipe& one) { return one.model == model; });
  if (found == start.recipes.end()) {
    return fault(FaultKind::invalid_input,
        "{} is started by a recipe for one model. Begin with --model {}, then name your recipe and "
        "model in the file",
        start.name, fmt::join(models_of(start), " or "));
  }
  constexpr std::string_view mark = "@RECIPE@";
  return text.replace(text.find(mark), mark.size(), found->name);
}

}  // namespace shardsweep
