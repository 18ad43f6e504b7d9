// SPDX-License-Identifier: Apache-2.0
// What of a command line is refused, and how.
#include "cli/command_line.hpp"
#include "cli/commands/table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace shardsweep::test {
namespace {

/// Parses, and keeps what was said on stderr.
struct Said {
  ParsedArguments parsed;
  std::string text;
  std::string out;
};

Said parse(std::vector<std::string> words) {
  words.insert(words.begin(), "shardsweep");
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words)
    argv.push_back(word.data());
  std::ostringstream said;
  std::ostringstream out;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  std::streambuf* const out_before = std::cout.rdbuf(out.rdbuf());
  ParsedArguments parsed =
      parse_arguments(all_commands(), static_cast<int>(argv.size()), argv.data());
  std::cerr.rdbuf(before);
  std::cout.rdbuf(out_before);
  return {std::move(parsed), said.str(), out.str()};
}

/// The words behind `shardsweep`, as a shell parts them: by blanks, and quotes keep them
/// together.
std::vector<std::string> words_of_shell(const std::string& line) {
  std::vector<std::string> words;
  char quote = '\0';
  bool inside = false;
  for (const char c : line) {
    if (quote == '\0' && c == ' ') {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  REQUIRE(!words.empty());
  REQUIRE(words.front() == "shardsweep");
  words.erase(words.begin());
  return words;
}

}  // namespace

TEST_CASE("a command that is none is named, with the nearest one") {
  const Said near = parse({"statsu"});
  CHECK(near.parsed.exit_code == 2);
  CHECK(near.text ==
      "shardsweep: there is no command 'statsu', did you mean 'status'?\n"
      "'shardsweep help --all' lists them.\n");
  const Said far = parse({"frobnicate"});
  CHECK(far.parsed.exit_code == 2);
  CHECK(far.text.starts_with("shardsweep: there is no command 'frobnicate'\n"));
}

TEST_CASE("a format is a word, in capitals too, and nothing else") {
  const Said json = parse({"status", "--format", "JSON"});
  CHECK_FALSE(json.parsed.exit_code);
  CHECK(json.parsed.options.format == Format::json);
  const Said xml = parse({"status", "--format", "xml"});
  CHECK(xml.parsed.exit_code == 2);
  CHECK(xml.text.find("'xml' is not a format; write table, csv, json or markdown") !=
      std::string::npos);
}

TEST_CASE("no command at all says how to find one") {
  const Said nothing = parse({});
  CHECK(nothing.parsed.exit_code == 2);
  CHECK(nothing.text == "shardsweep: give a command; 'shardsweep help' lists them.\n");
}

TEST_CASE("'help COMMAND' says what 'COMMAND --help' says, for every command") {
  const CommandLine line = describe(all_commands());
  CHECK(line.commands.size() > 25);
  for (const CommandHelp& command : line.commands) {
    const Said by_help = parse({"help", command.name});
    const Said by_flag = parse({command.name, "--help"});
    CHECK(by_help.parsed.exit_code == 0);
    CHECK(by_flag.parsed.exit_code == 0);
    CHECK(by_help.out == by_flag.out);
    CHECK(by_help.out.find("Usage: shardsweep " + command.name) != std::string::npos);
  }
  CHECK(parse({"help"}).out == parse({"--help"}).out);
}

TEST_CASE("help fits a screen of 24 lines, and 'help --all' has every command") {
  const CommandLine line = describe(all_commands());
  const auto brief = short_help(line, 80);
  CHECK(std::count(brief.begin(), brief.end(), '\n') <= 23);
  CHECK(short_help(line, 400).find(std::to_string(line.commands.size()) + " commands") !=
      std::string::npos);
  const auto all = help_text(line, "", 80);
  for (const CommandHelp& command : line.commands)
    CHECK(all.find("\n  " + command.name + " ") != std::string::npos);
  CHECK(parse({"help", "--all"}).out.find("Exit codes:") != std::string::npos);
  CHECK(parse({"help"}).out.find("Exit codes:") == std::string::npos);
}

TEST_CASE("help about nothing that exists names the nearest command") {
  const Said said = parse({"help", "plna"});
  CHECK(said.parsed.exit_code == 2);
  CHECK(said.text ==
      "shardsweep: there is no help about 'plna', did you mean 'plan'?\n"
      "'shardsweep help --all' lists the commands.\n");
}

TEST_CASE("each command has a help sentence that fits a line of the list") {
  const CommandLine line = describe(all_commands());
  for (const CommandHelp& command : line.commands) {
    INFO(command.name);
    CHECK(command.help.ends_with('.'));
    CHECK(command.help.size() <= 62);
    for (const OptionHelp& option : command.options) {
      INFO(option.name);
      CHECK(option.help.ends_with('.'));
    }
  }
}

TEST_CASE("each command has an example at least, and each example is a command line of its own") {
  for (const CommandHelp& command : describe(all_commands()).commands) {
    INFO(command.name);
    CHECK_FALSE(command.examples.empty());
    for (const std::string& example : command.examples) {
      INFO(example);
      // It is not folded, so that it can be pasted, and help fits 60 columns.
      CHECK(example.size() <= 58);
      const Said said = parse(words_of_shell(example));
      CHECK(said.text == "");
      // `help COMMAND` has printed what was asked for.
      const bool asks_help = command.name == "help" && said.parsed.exit_code == 0;
      CHECK((asks_help || said.parsed.options.command == command.name));
    }
  }
}

TEST_CASE("help fits 80 columns") {
  const CommandLine line = describe(all_commands());
  std::vector<std::string> texts{help_text(line, "", 80)};
  for (const CommandHelp& command : line.commands)
    texts.push_back(help_text(line, command.name, 80));
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    for (std::string each; std::getline(lines, each);)
      CHECK_MESSAGE(each.size() <= 80, each);
  }
}

TEST_CASE("man page and completions know every command and option") {
  const CommandLine line = describe(all_commands());
  const std::string man = man_page(line);
  const std::string bash = bash_completion(line);
  const std::string zsh = zsh_completion(line);
  const std::string fish = fish_completion(line);
  for (const CommandHelp& command : line.commands) {
    INFO(command.name);
    CHECK(bash.find("    " + command.name + ")") != std::string::npos);
    CHECK(zsh.find("    " + command.name + ")") != std::string::npos);
    CHECK(fish.find("-a " + command.name + " ") != std::string::npos);
    for (const OptionHelp& option : command.options) {
      if (option.positional) continue;
      INFO(option.name);
      CHECK(bash.find(option.name) != std::string::npos);
      CHECK(zsh.find(option.name + "[") != std::string::npos);
      CHECK(fish.find("-l " + option.name.substr(2)) != std::string::npos);
      std::string shown;
      for (const char c : option.name)
        shown += c == '-' ? std::string("\\-") : std::string(1, c);
      CHECK(man.find(shown) != std::string::npos);
    }
  }
}

}  // namespace shardsweep::test
