// SPDX-License-Identifier: Apache-2.0
// help: what it tells beside a command's --help, which the parser answers itself.
#include "cli/arguments.hpp"
#include "cli/session.hpp"

#include <shardsweep/reference.hpp>

namespace shardsweep {

Result<ExitCode> command_help(const Session& session) {
  const Options& options = session.options;
  const CommandLine line = describe_command_line();
  std::string text;
  if (options.man) text = man_page(line);
  if (options.shell == "bash") text = bash_completion(line);
  if (options.shell == "zsh") text = zsh_completion(line);
  if (options.shell == "fish") text = fish_completion(line);
  if (text.empty() && options.names.front() == "schema") text = sweep_schema();
  if (text.empty()) {
    const auto tables = reference_of(options.names.front());
    text = options.markdown ? reference_markdown(tables) : reference_text(tables);
  }
  SHARDSWEEP_TRY(print_result(text));
  return ExitCode::done;
}

}  // namespace shardsweep
