// SPDX-License-Identifier: Apache-2.0
// help: what it tells beside a command's --help, which the parser answers itself.
#include "cli/arguments.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "show/cell_text.hpp"
#include "text/nearest.hpp"

#include <shardsweep/reference.hpp>

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

namespace {

/// Each line folds below its own beginning.
std::string fitted(const std::string& text, std::size_t width) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    for (const std::string& part :
         folded(line.substr(indent), width - std::min(indent, width / 2)))
      out += line.substr(0, indent) + part + '\n';
    if (line.empty()) out += '\n';
  }
  return out;
}

}  // namespace

int print_help(const CommandLine& line, const std::string& command) {
  if (command.empty() || find_command_help(line, command) != nullptr) {
    std::cout << help_text(line, command, text_width(terminal_of(STDOUT_FILENO)));
    return static_cast<int>(ExitCode::done);
  }
  std::vector<std::string_view> topics(help_topics.begin(), help_topics.end());
  for (const CommandHelp& each : line.commands)
    topics.push_back(each.name);
  std::cerr << "shardsweep: there is no help about '" << command << "'"
            << did_you_mean(command, {topics.begin(), topics.end()})
            << "\n'shardsweep help' lists the commands.\n";
  return static_cast<int>(ExitCode::wrong);
}

Result<ExitCode> command_help(const Session& session) {
  const Options& options = session.options;
  const CommandLine line = describe_command_line();
  std::string text;
  if (options.help.man) text = man_page(line);
  if (options.help.shell == "bash") text = bash_completion(line);
  if (options.help.shell == "zsh") text = zsh_completion(line);
  if (options.help.shell == "fish") text = fish_completion(line);
  if (text.empty() && options.names.front() == "schema") text = sweep_schema();
  if (text.empty()) {
    const auto tables = reference_of(options.names.front());
    text = options.help.markdown
               ? reference_markdown(tables)
               : fitted(reference_text(tables), text_width(terminal_of(STDOUT_FILENO)));
  }
  SHARDSWEEP_TRY(print_result(text));
  return ExitCode::done;
}

}  // namespace shardsweep
