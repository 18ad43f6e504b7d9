// SPDX-License-Identifier: Apache-2.0
// Completion scripts of bash, zsh and fish. Names of sweeps and presets are asked of the
// program itself when they are needed.
#include "cli/command_line.hpp"
#include "text/shell.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

namespace shardsweep {
namespace {

/// Kind of names that complete such a value, as `names KIND` lists them; empty: none.
std::string_view names_kind(std::string_view value) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kinds{
      {{"NAME", "sweeps"}, {"TRIAL", "sweeps"}, {"MODEL", "models"}, {"PRESET", "presets"}}};
  for (const auto& [word, kind] : kinds) {
    if (word == value) return kind;
  }
  return {};
}

std::string names_call(const CommandLine& line, std::string_view kind) {
  return fmt::format("{} names {} 2>/dev/null", line.program, kind);
}

/// `help` takes commands and topics.
bool takes_command(const CommandHelp& command) {
  return command.name == "help";
}

// ---- bash -----------------------------------------------------------------------------------

std::string bash_values(const CommandLine& line, const OptionHelp& option) {
  if (!option.choices.empty())
    return fmt::format("_shardsweep_words \"{}\"", fmt::join(option.choices, " "));
  const auto kind = names_kind(option.value);
  if (!kind.empty()) {
    return fmt::format("_shardsweep_words \"$({})\"", names_call(line, kind));
  }
  return option.value == "FILE" ? "_shardsweep_files" : ":";
}

std::string bash_command(const CommandLine& line, const CommandHelp& command) {
  std::string flags;
  std::string values;
  std::string positional = takes_command(command) ? "_shardsweep_words \"$commands\"" : ":";
  for (const OptionHelp& option : command.options) {
    if (option.positional) {
      if (!takes_command(command)) positional = bash_values(line, option);
      continue;
    }
    flags += (flags.empty() ? "" : " ") + option.name;
    if (!option.value.empty())
      values += fmt::format("        {}) {}; return ;;\n", option.name, bash_values(line, option));
  }
  std::string out = fmt::format("    {})\n", command.name);
  if (!values.empty()) out += "      case \"$previous\" in\n" + values + "      esac\n";
  return out +
      fmt::format(
          "      if [[ $current == -* ]]; then _shardsweep_words \"{}\"\n"
          "      else {}; fi ;;\n",
          flags, positional);
}

std::string joined_commands(const CommandLine& line) {
  std::string names;
  for (const CommandHelp& command : line.commands)
    names += (names.empty() ? "" : " ") + command.name;
  return names;
}

constexpr std::string_view bash_start = R"(# bash completion for shardsweep
_shardsweep_words() {
  local IFS=$' \t\n'
  COMPREPLY=($(compgen -W "$1" -- "$current"))
}
_shardsweep_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -- "$current"))
}
)";

// ---- zsh ------------------------------------------------------------------------------------

/// Escapes a description for _arguments, where brackets and colons part the fields.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const CommandLine& line, const OptionHelp& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  const auto kind = names_kind(option.value);
  if (!kind.empty()) return fmt::format("{{compadd -- ${{(f)\"$({})\"}}}}", names_call(line, kind));
  return option.value == "FILE" ? "_files" : "";
}

std::string zsh_argument(
    const CommandLine& line, const CommandHelp& command, const OptionHelp& option) {
  if (option.positional) {
    const auto action = takes_command(command) ? fmt::format("({})", joined_commands(line))
                                               : zsh_action(line, option);
    return fmt::format("{}:{}:{}", option.repeatable ? "*" : "", zsh_text(option.name), action);
  }
  std::string spec = fmt::format("*{}[{}]", option.name, zsh_text(option.help));
  if (!option.value.empty())
    spec += fmt::format(":{}:{}", zsh_text(option.value), zsh_action(line, option));
  return spec;
}

// ---- fish -----------------------------------------------------------------------------------

std::string fish_option(
    const CommandLine& line, const CommandHelp& command, const OptionHelp& option) {
  std::string out =
      fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", line.program, command.name);
  if (!option.positional) {
    out += fmt::format(" -l {}", option.name.substr(2));
    if (!option.brief.empty()) out += fmt::format(" -s {}", option.brief.substr(1));
    if (!option.value.empty()) out += " -r";
  }
  const auto kind = names_kind(option.value);
  if (option.positional && takes_command(command)) {
    out += fmt::format(" -a '{}'", joined_commands(line));
  } else if (!option.choices.empty()) {
    out += fmt::format(" -a '{}'", fmt::join(option.choices, " "));
  } else if (!kind.empty()) {
    out += fmt::format(" -a '({})'", names_call(line, kind));
  } else if (option.value == "FILE") {
    out += " -F";
  }
  return out + fmt::format(" -d {}\n", shell_quoted(option.help));
}

}  // namespace

std::string bash_completion(const CommandLine& line) {
  std::string out(bash_start);
  out +=
      "_shardsweep() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n";
  out += fmt::format("  local commands=\"{}\"\n", joined_commands(line));
  out +=
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    _shardsweep_words \"$commands --help --version\"\n"
      "    return\n"
      "  fi\n"
      "  case \"${COMP_WORDS[1]}\" in\n";
  for (const CommandHelp& command : line.commands)
    out += bash_command(line, command);
  return out + fmt::format("  esac\n}}\ncomplete -F _shardsweep {}\n", line.program);
}

std::string zsh_completion(const CommandLine& line) {
  std::string out =
      fmt::format("#compdef {}\n_shardsweep() {{\n  local -a commands=(\n", line.program);
  for (const CommandHelp& command : line.commands)
    out += fmt::format("    {}\n", shell_quoted(command.name + ":" + zsh_text(command.help)));
  out +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe -t commands command commands\n"
      "    return\n"
      "  fi\n"
      "  local chosen=${words[2]}\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $chosen in\n";
  for (const CommandHelp& command : line.commands) {
    out += fmt::format("    {})\n      _arguments", command.name);
    for (const OptionHelp& option : command.options)
      out += fmt::format(" \\\n        {}", shell_quoted(zsh_argument(line, command, option)));
    out += " ;;\n";
  }
  return out +
      "  esac\n}\nif [[ $funcstack[1] == _shardsweep ]]; then\n  _shardsweep \"$@\"\n"
      "else\n  compdef _shardsweep shardsweep\nfi\n";
}

std::string fish_completion(const CommandLine& line) {
  std::string out = fmt::format("# fish completion for {0}\ncomplete -c {0} -f\n", line.program);
  for (const CommandHelp& command : line.commands) {
    out += fmt::format("complete -c {} -n '__fish_use_subcommand' -a {} -d {}\n", line.program,
        command.name, shell_quoted(command.help));
  }
  for (const CommandHelp& command : line.commands) {
    for (const OptionHelp& option : command.options)
      out += fish_option(line, command, option);
  }
  return out;
}

}  // namespace shardsweep
