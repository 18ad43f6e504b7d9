// SPDX-License-Identifier: Apache-2.0
#include "cli/wrong_usage.hpp"

#include "text/nearest.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

std::string name_of(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));  // behind a colon stand the checks of the value
}

/// CLI11 lists unknown words backwards: the first one is the mistake.
std::string not_taken(const std::string& word, const CLI::App& command) {
  if (!word.starts_with('-')) return "'" + word + "' is one argument too many";
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_lnames().empty()) names.push_back(name_of(*option));
  }
  if (std::find(names.begin(), names.end(), flag) != names.end())
    return "write '" + flag + "' behind the command";
  return "there is no option '" + flag + "'" + did_you_mean(flag, {names.begin(), names.end()});
}

std::string missing_from(const CLI::App& command) {
  std::string missing;
  int count = 0;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    missing += (missing.empty() ? "" : " and ") + name_of(*option);
    ++count;
  }
  return missing.empty() ? missing : missing + (count == 1 ? " is missing" : " are missing");
}

/// CLI11's "--backend: slurn not in {local,slurm}" as a sentence; other texts as they are.
std::string none_of_words(const std::string& text) {
  constexpr std::string_view middle = " not in {";
  const auto at = text.find(middle);
  const auto colon = text.find(": ");
  if (at == std::string::npos || colon >= at || !text.ends_with('}')) return text;
  const std::string word = text.substr(colon + 2, at - colon - 2);
  std::vector<std::string> words{""};
  for (std::size_t i = at + middle.size(); i + 1 < text.size(); ++i) {
    if (text[i] == ',') {
      words.emplace_back();
    } else {
      words.back() += text[i];
    }
  }
  std::string list;
  for (const auto& one : words)
    list += (list.empty() ? "" : ", ") + one;
  const auto hint = did_you_mean(word, {words.begin(), words.end()});
  return text.substr(0, colon) + ": '" + word + "' is none of " + list + hint;
}

std::string mistake(const CLI::App& app, const CLI::App& command,
                    const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> words = app.remaining(true);
    if (!words.empty()) return not_taken(words.front(), command);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (std::string missing = missing_from(command); !missing.empty()) return missing;
  }
  return none_of_words(error.what());
}

}  // namespace

std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  const auto parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::string name = parsed.empty() ? "" : " " + command.get_name();
  return "shardsweep" + name + ": " + mistake(app, command, error) + "\n'shardsweep help" +
         name + "' explains " + (parsed.empty() ? "the commands" : "it") + ".\n";
}

}  // namespace shardsweep
