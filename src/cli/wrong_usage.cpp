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
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    missing += (missing.empty() ? "" : " and ") + name_of(*option);
  }
  return missing.empty() ? missing : missing + " is missing";
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
  return error.what();
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
