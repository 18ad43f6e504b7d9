// SPDX-License-Identifier: Apache-2.0
// shardsweep.1 in roff's man macros, from the command line's description.
#include "cli/command_line.hpp"
#include "show/exit_code.hpp"

#include <fmt/format.h>

namespace shardsweep {
namespace {

constexpr std::string_view release_date = "2026-11-22";  // of the version that is documented

/// Text as roff prints it: no escapes, no requests, and hyphens that can be copied.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '.' && out.empty()) {
      out += "\\&.";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) {
  return fmt::format("\\fB{}\\fR", roff(text));
}
std::string italic(std::string_view text) {
  return fmt::format("\\fI{}\\fR", roff(text));
}

std::string option_entry(const OptionHelp& option) {
  std::string term;
  if (option.positional) {
    term = italic(option.name);
  } else {
    if (!option.brief.empty()) term = bold(option.brief) + ", ";
    term += bold(option.name);
    if (!option.value.empty()) term += " " + italic(option.value);
  }
  std::string help = roff(option.help);
  if (option.required && !option.positional) help += " Required.";
  if (!option.default_text.empty())
    help += fmt::format(" Default: {}.", roff(option.default_text));
  return fmt::format(".TP\n{}\n{}\n", term, help);
}

std::string command_section(const CommandLine& line, const CommandHelp& command) {
  std::string synopsis = fmt::format("{} {}", bold(line.program), bold(command.name));
  for (const OptionHelp& option : command.options) {
    if (!option.positional) continue;
    const auto name = italic(option.name) + (option.repeatable ? "..." : "");
    synopsis += option.required ? " " + name : fmt::format(" [{}]", name);
  }
  std::string out =
      fmt::format(".SS {}\n{}\n.PP\n{}\n", roff(command.name), synopsis, roff(command.help));
  for (const OptionHelp& option : command.options) {
    if (option.name != "--help") out += option_entry(option);
  }
  return out;
}

constexpr std::string_view environment =
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBSHARDSWEEP_DB\\fR\nDatabase file, where \\fB\\-\\-db\\fR is not given.\n"
    ".TP\n\\fBSHARDSWEEP_HOME\\fR\nFolder of the default database. Compute nodes must see it. "
    "Default: ~/.shardsweep.\n";
constexpr std::string_view files =
    ".SH FILES\n"
    ".TP\n\\fI~/.config/shardsweep/site.yaml\\fR\nSite file: how jobs are submitted on your "
    "cluster.\n"
    ".TP\n\\fI<database>.d\\fR\nRequests, allocations, attempts, lock and log of a database.\n";
std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const ExitCodeInfo& row : exit_code_table)
    text += fmt::format(".TP\n{}\n{}.\n", static_cast<int>(row.code), roff(row.meaning));
  return text;
}

}  // namespace

std::string man_page(const CommandLine& line) {
  std::string out = fmt::format(
      ".TH SHARDSWEEP 1 \"{}\" \"shardsweep {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n{} \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n{}\n",
      release_date, roff(line.version), roff(line.program),
      "find the fastest training layout for a model on your nodes", bold(line.program),
      "A sweep file names a model, a cluster and the layouts to try. shardsweep runs every "
      "feasible layout, survives interruptions, and shows the results as tables and heatmaps.");
  out += ".SH OPTIONS\n";
  for (const OptionHelp& option : line.options)
    out += option_entry(option);
  for (const std::string& group : line.groups) {
    std::string title;
    for (const char c : group)
      title += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    out += fmt::format(".SH {}\n", roff(title));
    for (const CommandHelp& command : line.commands) {
      if (command.group == group) out += command_section(line, command);
    }
  }
  return out + std::string(environment) + std::string(files) + exit_status();
}

}  // namespace shardsweep
