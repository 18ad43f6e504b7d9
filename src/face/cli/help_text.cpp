// SPDX-License-Identifier: Apache-2.0
// `--help` and `help`: the command line's description as text of a given width; the manual page
// is the same texts, as they stand, for roff.

#include "cli/command_line.hpp"
#include "cli/terminal.hpp"
#include "show/cell_text.hpp"
#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::size_t command_width = 18;
constexpr std::size_t option_width = 26;

/// Commands that help lists on its one screen.
constexpr std::array<std::string_view, 14> usual_commands{"new", "plan", "run", "status", "show",
    "cancel", "best", "heatmap", "report", "ui", "compare", "suggest", "init", "doctor"};

constexpr std::array<std::string_view, 2> epilog{
    "A name may be a sweep, a trial's slug, an attempt (SLUG.2) or a Slurm job id.",
    "'shardsweep help COMMAND' explains a command, 'help keys' the sweep file."};

/// `text` at column `indent`, in lines of at most `width`. The first line has its indent
/// already.
void append_wrapped(
    std::string& out, std::string_view text, std::size_t indent, std::size_t width) {
  std::size_t column = indent;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

/// A name and what it means, in two columns; a long name has a line of its own.
void append_entry(std::string& out, std::string_view name, std::string_view help,
    std::size_t name_width, std::size_t width) {
  out += fmt::format("  {}", name);
  if (name.size() + 4 > name_width) {
    out += '\n' + std::string(name_width, ' ');
  } else {
    out += std::string(name_width - 2 - name.size(), ' ');
  }
  append_wrapped(out, help, name_width, width);
}

std::string option_name(const OptionHelp& option) {
  std::string name = option.brief.empty() || option.positional ? "" : option.brief + ", ";
  name += option.name;
  if (!option.value.empty() && !option.positional) name += " " + option.value;
  return name;
}

std::string option_help(const OptionHelp& option) {
  std::string help = option.help;
  if (option.required && !option.positional) help += " Required.";
  if (!option.default_text.empty()) help += fmt::format(" Default: {}.", option.default_text);
  return help;
}

std::string usage_of(const CommandHelp& command) {
  std::string usage;
  const bool flags = std::any_of(command.options.begin(), command.options.end(),
      [](const OptionHelp& option) { return !option.positional; });
  if (flags) usage += " [OPTIONS]";
  for (const OptionHelp& option : command.options) {
    if (!option.positional) continue;
    const auto name = option.name + (option.repeatable ? "..." : "");
    usage += option.required ? " " + name : " [" + name + "]";
  }
  return usage;
}

void append_options(
    std::string& out, const std::vector<OptionHelp>& options, bool positional, std::size_t width) {
  bool any = false;
  for (const OptionHelp& option : options) {
    if (option.positional != positional) continue;
    if (!any) out += positional ? "\nArguments:\n" : "\nOptions:\n";
    any = true;
    append_entry(out, option_name(option), option_help(option), option_width, width);
  }
}

std::string command_text(const CommandLine& line, const CommandHelp& command, std::size_t width) {
  std::string out;
  append_wrapped(out, command.help, 0, width);
  out += fmt::format("\nUsage: {} {}{}\n", line.program, command.name, usage_of(command));
  append_options(out, command.options, true, width);
  append_options(out, command.options, false, width);
  out += command.examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : command.examples)
    out += fmt::format("  {}\n", example);
  return out;
}

const CommandHelp* find_command_help(const CommandLine& line, std::string_view name) {
  const auto found = std::find_if(line.commands.begin(), line.commands.end(),
      [&](const auto& command) { return command.name == name; });
  return found == line.commands.end() ? nullptr : &*found;
}

std::string head_text(const CommandLine& line, std::size_t width) {
  std::string out;
  append_wrapped(out, line.about, 0, width);
  return out + fmt::format("\nUsage: {} COMMAND [OPTIONS]\n", line.program);
}

/// Text as it stands, in a fixed font: signs that roff would read as requests are escaped.
std::string roff_verbatim(std::string_view text) {
  std::string out = ".nf\n";
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':  // a minus, which can be copied into a shell
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      default:
        out += c;
    }
  }
  return out + ".fi\n";
}

}  // namespace

std::string help_text(const CommandLine& line, std::string_view command, std::size_t width) {
  const CommandHelp* one = find_command_help(line, command);
  if (one != nullptr) return command_text(line, *one, width);
  auto out = head_text(line, width);
  for (std::size_t i = 0; i < heading_words.size(); ++i) {
    out += fmt::format("\n{}:\n", heading_words.at(i));
    for (const CommandHelp& each : line.commands) {
      if (each.heading == static_cast<Heading>(i))
        append_entry(out, each.name, each.help, command_width, width);
    }
  }
  append_options(out, line.options, false, width);
  out += '\n';
  for (const std::string_view sentence : epilog)
    append_wrapped(out, sentence, 0, width);
  out += "\nExit codes:\n";
  constexpr std::size_t code_width = 7;
  for (const ExitCodeInfo& row : exit_code_table)
    append_entry(out, std::to_string(static_cast<int>(row.code)), row.meaning, code_width, width);
  return out;
}

std::string short_help(const CommandLine& line, std::size_t width) {
  auto out = head_text(line, width) + '\n';
  for (const std::string_view name : usual_commands) {
    // The programs of the laboratory have few commands of other names.
    const CommandHelp* one = find_command_help(line, name);
    if (one == nullptr) return help_text(line, "", width);
    append_entry(out, name, one->help, command_width, width);
  }
  out += '\n';
  append_wrapped(out,
      fmt::format("'{0}' alone says what to do next here. '{0} help --all' lists all {1} commands, "
                  "'{0} help COMMAND' explains one, '{0} help keys' the sweep file.",
          line.program, line.commands.size()),
      0, width);
  return out;
}

std::string topic_text(std::string_view topic) {
  // Each line folds below its own beginning.
  const std::string text = reference_text(reference_of(topic));
  const std::size_t width = text_width(terminal_of(STDOUT_FILENO));
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    for (const std::string& part : folded(line.substr(indent), width - std::min(indent, width / 2)))
      out += line.substr(0, indent) + part + '\n';
    if (line.empty()) out += '\n';
  }
  return out;
}

int print_help(const CommandLine& line, const std::string& command, bool all) {
  if (command.empty() || find_command_help(line, command) != nullptr) {
    const auto width = text_width(terminal_of(STDOUT_FILENO));
    std::cout << (command.empty() && !all ? short_help(line, width)
                                          : help_text(line, command, width));
    return static_cast<int>(ExitCode::done);
  }
  if (const std::string text = topic_text(command); !text.empty()) {
    std::cout << text;
    return static_cast<int>(ExitCode::done);
  }
  std::vector<std::string_view> topics(help_topics.begin(), help_topics.end());
  for (const CommandHelp& each : line.commands)
    topics.push_back(each.name);
  const auto tables = reference_of("keys");
  for (const ReferenceTable& table : tables) {
    topics.push_back(table.title);
    for (const auto& row : table.rows)
      topics.push_back(row.front());
  }
  for (const AxisInfo& axis : axes())
    topics.push_back(axis.name);
  std::string hint = did_you_mean(command, {topics.begin(), topics.end()});
  for (const CommandHelp& each : line.commands) {
    const bool has = std::any_of(each.options.begin(), each.options.end(),
        [&](const OptionHelp& option) { return option.name == "--" + command; });
    if (hint.empty() && has)
      hint = fmt::format("; 'shardsweep help {}' has the option --{}", each.name, command);
  }
  std::cerr << "shardsweep: there is no help about '" << command << "'" << hint
            << "\n'shardsweep help --all' lists the commands.\n";
  return static_cast<int>(ExitCode::wrong);
}

std::string man_page(const CommandLine& line) {
  constexpr std::size_t width = 78;
  constexpr std::string_view release_date = "2026-11-22";  // release of the documented version
  std::string out = fmt::format(
      ".TH SHARDSWEEP 1 \"{}\" \"shardsweep {}\" \"User Commands\"\n.SH NAME\nshardsweep \\- find "
      "the fastest training layout for a model on your nodes\n.SH DESCRIPTION\n",
      release_date, line.version);
  out += roff_verbatim(help_text(line, "", width));
  out += ".SH COMMANDS\n";
  for (const CommandHelp& command : line.commands)
    out += fmt::format(
        ".SS {}\n{}", command.name, roff_verbatim(help_text(line, command.name, width)));
  return out;
}

// Completion scripts of bash, zsh and fish. Names of sweeps and presets are asked of the
// program itself when they are needed.

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
  return join_texts(line.commands, " ", &CommandHelp::name);
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
