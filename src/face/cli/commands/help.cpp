// SPDX-License-Identifier: Apache-2.0
// help: what it tells beside a command's --help, which the parser answers itself.
#include "cli/command_line.hpp"
#include "cli/commands/table.hpp"
#include "cli/grammar.hpp"
#include "cli/session.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace shardsweep {

namespace {

Result<ExitCode> run_help(const Session& session) {
  const Options& options = session.options;
  const CommandLine line = describe(all_commands());
  std::string text;
  if (options.help.man) text = man_page(line);
  if (options.help.shell == "bash") text = bash_completion(line);
  if (options.help.shell == "zsh") text = zsh_completion(line);
  if (options.help.shell == "fish") text = fish_completion(line);
  if (text.empty() && options.names.front() == "schema") text = sweep_schema();
  if (text.empty() && options.names.front() == "trainer-schema") text = trainer_schema();
  if (text.empty()) {
    const std::string& topic = options.names.front();
    text = options.help.markdown ? reference_markdown(reference_of(topic)) : topic_text(topic);
  }
  return deliver(text);
}

}  // namespace

extern const Command command_help{
    .name = "help",
    .help = "Explain a command, or the keys of a sweep file.",
    .examples =
        "shardsweep help plan\n"
        "shardsweep help keys\n"
        "shardsweep help --completion bash",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          grammar
              .option("topic", options.names, "TOPIC",
                  fmt::format("A command, a key or section of a sweep file, or {}. Default: the "
                              "usual commands.",
                      fmt::join(help_topics, ", ")))
              .times(0, 1);
          grammar.flag("--all", options.help.all, "List all commands, and the exit codes.");
          grammar.flag("--markdown", options.help.markdown,
              "Print keys, axes, units, site or columns as Markdown.");
          grammar.flag("--man", options.help.man, "Print the manual page (roff).");
          grammar
              .option("--completion", options.help.shell, "SHELL",
                  "Print the completion script of a shell: bash, zsh, fish.")
              .one_of({"bash", "zsh", "fish"});
        },
    .run = run_help,
    .database = false,
};

}  // namespace shardsweep
