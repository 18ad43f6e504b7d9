// SPDX-License-Identifier: Apache-2.0
// CLI11 lives here and nowhere else. A command is parsed by its own grammar alone: the others
// are not even declared, so that options of two commands can never touch.
#include "cli/grammar.hpp"

#include "cli/command_line.hpp"
#include "cli/version.hpp"
#include "predict/family.hpp"
#include "show/table_view.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"
#include "text/units.hpp"

#include <shardsweep/database_format.hpp>
#include <shardsweep/load.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

constexpr int usage_error = 2;

// ---- wrong usage ----------------------------------------------------------------------------

std::string name_of(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));  // the checks of the value follow a colon
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

std::string mistake(const CLI::App& app, const CLI::App& command, const CLI::ParseError& error) {
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      (is_missing && &app == &command)) {
    const std::vector<std::string> words = app.remaining(true);
    if (!words.empty()) return not_taken(words.front(), command);
  }
  if (is_missing) {
    if (std::string missing = missing_from(command); !missing.empty()) return missing;
  }
  return none_of_words(error.what());
}

/// Two lines: the mistake by the names that the help shows, and which help lists what is right.
std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  const auto parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::string name = parsed.empty() ? "" : " " + command.get_name();
  return fmt::format("{0}{1}: {2}\n'{0} help{1}' explains {3}.\n", app.get_name(), name,
      mistake(app, command, error), parsed.empty() ? "the commands" : "it");
}

// ---- described ------------------------------------------------------------------------------

OptionHelp described(const CLI::Option& option, const Choices& choices) {
  OptionHelp help;
  help.positional = option.get_positional();
  if (!option.get_lnames().empty()) help.name = "--" + option.get_lnames().front();
  if (!option.get_snames().empty()) help.brief = "-" + option.get_snames().front();
  // The checks of the value stand behind a colon.
  const std::string type = option.get_type_name();
  if (option.get_type_size() != 0) help.value = type.substr(0, type.find(':'));
  if (help.positional) help.name = help.value;
  help.help = option.get_description();
  help.default_text = option.get_default_str();
  help.required = option.get_required();
  help.repeatable = option.get_items_expected_max() > 1;
  const auto known = choices.find(&option);
  if (known != choices.end()) help.choices = known->second;
  return help;
}

std::vector<OptionHelp> options_of(const CLI::App& app, const Choices& choices) {
  std::vector<OptionHelp> positionals;
  std::vector<OptionHelp> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    OptionHelp help = described(*option, choices);
    (help.positional ? positionals : flags).push_back(std::move(help));
  }
  positionals.insert(positionals.end(), flags.begin(), flags.end());
  return positionals;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// `shardsweep 0.1.0 (commit 68cc9937a1b2, database format 30)`.
std::string version_text() {
  return fmt::format(
      "shardsweep {} (commit {}, database format {})", version, commit, database_format());
}

/// The program's own options, and one command's; nullptr: no command's.
class Parser {
 public:
  Parser(const Command* command, std::string_view program) : command_(command) {
    app_.name(std::string(program));
    app_.set_version_flag("--version", version_text(), "Print the version and exit.");
    app_.set_help_flag("-h,--help", "Print this help and exit.");
    app_.require_subcommand(1);
    if (command == nullptr) return;
    CLI::App* sub = app_.add_subcommand(std::string(command->name), std::string(command->help));
    sub->set_help_flag("-h,--help", "Print this help and exit.");
    Grammar grammar(*sub, options_, choices_, program_);
    if (command->database)
      grammar.option("--db", options_.db, "FILE",
          "Database file. Default: SHARDSWEEP_DB, else shardsweep.db under SHARDSWEEP_HOME.");
    if (command->declare != nullptr) command->declare(grammar);
  }

  ParsedArguments parse(std::span<const Command* const> commands, int argc, char** argv) {
    const auto end = std::find(argv, argv + argc, std::string_view("--"));
    if (program_ != nullptr && end != argv + argc) {
      program_->assign(end + 1, argv + argc);
      argc = static_cast<int>(end - argv);
    }
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      return {
          {}, print_help(shardsweep::describe(commands, app_.get_name()), parsed_command(), false)};
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return {{}, app_.exit(error)};
      std::cerr << wrong_usage(app_, error);
      return {{}, usage_error};
    }
    options_.command = parsed_command();
    if (options_.command == "help" && options_.topic_is_command())
      return {{},
          print_help(shardsweep::describe(commands, app_.get_name()),
              options_.names.empty() ? "" : options_.names.front(), options_.help.all)};
    return {options_, std::nullopt};
  }

  void describe_program(CommandLine& line) const {
    line.program = app_.get_name();
    line.version = version;
    line.about = app_.get_description();
    line.options = options_of(app_, choices_);
  }
  [[nodiscard]] CommandHelp describe_command() const {
    const CLI::App& sub = *app_.get_subcommand(std::string(command_->name));
    return {std::string(command_->name), command_->heading, std::string(command_->help),
        lines_of(command_->examples), options_of(sub, choices_)};
  }

 private:
  [[nodiscard]] std::string parsed_command() const {
    const auto parsed = app_.get_subcommands();
    return parsed.empty() ? "" : parsed.front()->get_name();
  }

  const Command* command_;
  CLI::App app_{"Find the fastest training layout for a model on your nodes."};
  Options options_;
  Choices choices_;
  Words* program_ = nullptr;  ///< words of the program, if the command takes one
};

/// CLI11 would only say that a subcommand is required.
int no_such_command(
    std::span<const Command* const> commands, std::string_view word, std::string_view program) {
  std::vector<std::string_view> names;
  for (const Command* command : commands)
    names.push_back(command->name);
  std::cerr << fmt::format("{0}: there is no command '{1}'{2}\n'{0} help --all' lists them.\n",
      program, word, did_you_mean(word, names));
  return usage_error;
}

}  // namespace

const Command* find_command(std::span<const Command* const> commands, std::string_view name) {
  const auto found = std::find_if(
      commands.begin(), commands.end(), [&](const Command* one) { return one->name == name; });
  return found == commands.end() ? nullptr : *found;
}

CommandLine describe(std::span<const Command* const> commands, std::string_view program) {
  CommandLine line;
  Parser(nullptr, program).describe_program(line);
  for (const Command* command : commands)
    line.commands.push_back(Parser(command, program).describe_command());
  return line;
}

ParsedArguments parse_arguments(
    std::span<const Command* const> commands, int argc, char** argv, std::string_view program) {
  if (argc < 2) {
    std::cerr << fmt::format("{0}: give a command; '{0} help' lists them.\n", program);
    return {{}, usage_error};
  }
  const std::string_view first = argv[1];
  const Command* command = find_command(commands, first);
  if (command == nullptr && !first.starts_with('-'))
    return {{}, no_such_command(commands, first, program)};
  // An option before the command is a mistake that is told by the command's grammar.
  for (int i = 2; command == nullptr && i < argc; ++i)
    command = find_command(commands, argv[i]);
  return Parser(command, program).parse(commands, argc, argv);
}

// ---- options --------------------------------------------------------------------------------

bool Options::set_form(std::string_view word) {
  constexpr std::array<std::string_view, 4> pictures{"", "svg", "png", "html"};
  const auto found = std::find(pictures.begin() + 1, pictures.end(), word);
  if (found != pictures.end()) {
    picture = static_cast<PictureForm>(found - pictures.begin());
    return true;
  }
  const auto text_form = format_from(word);
  if (text_form) format = *text_form;
  return text_form.has_value();
}

// ---- declaring ------------------------------------------------------------------------------

const OptionDeclaration& OptionDeclaration::required() const {
  option_->required();
  return *this;
}
const OptionDeclaration& OptionDeclaration::one_of(Words words) const {
  option_->check(CLI::IsMember(words));
  return offers(std::move(words));
}
const OptionDeclaration& OptionDeclaration::one_of_or_own_trainer(const Words& words) const {
  option_->check([known = CLI::IsMember(words)](const std::string& text) {
    return own_trainer_file(text).empty() ? known(text) : std::string();
  });
  return offers(words);
}
const OptionDeclaration& OptionDeclaration::offers(Words words) const {
  choices_[option_] = std::move(words);
  return *this;
}
const OptionDeclaration& OptionDeclaration::whole_number(
    std::int64_t first, std::int64_t last) const {
  return check([first, last](const std::string& text) {
    const auto number = number_from<std::int64_t>(text);
    return number && *number >= first && *number <= last ? std::string()
                                                         : "'" + text +
            "' is not a whole number from " + std::to_string(first) + " to " + std::to_string(last);
  });
}
const OptionDeclaration& OptionDeclaration::check(
    std::function<std::string(const std::string&)> wrong) const {
  option_->check(
      CLI::Validator([wrong = std::move(wrong)](std::string& text) { return wrong(text); }, ""));
  return *this;
}
const OptionDeclaration& OptionDeclaration::times(int least, int most) const {
  option_->expected(least, most);
  return *this;
}
const OptionDeclaration& OptionDeclaration::one_at_a_time() const {
  option_->expected(1)->take_all()->allow_extra_args(false);
  return *this;
}
const OptionDeclaration& OptionDeclaration::split_at_commas() const {
  option_->delimiter(',');
  return *this;
}
const OptionDeclaration& OptionDeclaration::not_with(const char* option) const {
  option_->excludes(command_.get_option(option));
  return *this;
}
const OptionDeclaration& OptionDeclaration::only_with(const char* option) const {
  option_->needs(command_.get_option(option));
  return *this;
}
const OptionDeclaration& OptionDeclaration::hidden() const {
  option_->group("");
  return *this;
}

OptionDeclaration Grammar::declared(CLI::Option* option, const char* value, bool has_default) {
  option->type_name(value);
  if (has_default) option->capture_default_str();
  return {command_, option, choices_};
}
OptionDeclaration Grammar::option(
    const char* name, std::string& target, const char* value, const std::string& help) {
  return declared(command_.add_option(name, target, help), value, !target.empty());
}
OptionDeclaration Grammar::option(
    const char* name, Words& target, const char* value, const std::string& help) {
  return declared(command_.add_option(name, target, help), value, false);
}
OptionDeclaration Grammar::option(
    const char* name, std::int64_t& target, const char* value, const std::string& help) {
  return declared(command_.add_option(name, target, help), value, target > 0);
}
void Grammar::program(const char* name, Words& target, const char* value, const std::string& help) {
  option(name, target, value, help);
  program_ = &target;
}
void Grammar::flag(const char* name, bool& target, const std::string& help) {
  command_.add_flag(name, target, help);
}

namespace {

/// "a, b or c"
std::string one_of_these(const Words& words) {
  std::string list = words.front();
  for (std::size_t i = 1; i < words.size(); ++i)
    list += (i + 1 == words.size() ? " or " : ", ") + words[i];
  return list;
}

}  // namespace

void Grammar::format(const Words& pictures) {
  Words words{"table", "csv", "json", "markdown"};
  words.insert(words.end(), pictures.begin(), pictures.end());
  const std::string list = one_of_these(words);
  const auto take = [&options = options_, words, list](const std::string& given) {
    const auto word = CLI::detail::to_lower(given);
    if (std::find(words.begin(), words.end(), word) == words.end() || !options.set_form(word))
      throw CLI::ValidationError("--format", "'" + given + "' is not a format; write " + list);
    options.format_given = true;
  };
  choices_[command_
               .add_option_function<std::string>("--format", take, "Output form: " + list + ".")
               ->type_name("FORMAT")] = words;
  flag("--wide", options_.wide, "Print all columns, whatever the terminal's width.");
  if (std::find(pictures.begin(), pictures.end(), "png") == pictures.end()) return;
  constexpr int most_pixels = 16'000;
  option("--width", options_.png_width, "PIXELS",
      "Width of a PNG. Default: that of 300 dots per inch.")
      .whole_number(1, most_pixels);
}
void Grammar::form(const std::string& help, const Words& words) {
  const auto take = [&options = options_](
                        const std::string& word) { options.format_given = options.set_form(word); };
  OptionDeclaration(command_,
      command_.add_option_function<std::string>("--format", take, help)->type_name("FORMAT"),
      choices_)
      .one_of(words);
}
void Grammar::output() {
  option("-o,--output", options_.out, "FILE",
      "File to write. Its ending chooses the form where --format does not.");
}
void Grammar::names(const std::string& help) {
  option("names", options_.names, "NAME", help);
}
OptionDeclaration Grammar::where(const std::string& help) {
  return option("--where", options_.where, "EXPR",
      help.empty() ? "Only trials for which this expression holds. It may use axes, vars, outcome, "
                     "state and metrics: \"tp > 1 and outcome = 'oom'\"."
                   : help);
}
void Grammar::sweep_file() {
  option("sweep", options_.file, "FILE", "Sweep file; - reads standard input.").required();
  option("--set", options_.set, "KEY=VALUE",
      "Override a value of the file, such as axes.tp=2,4. Repeatable.");
}
void Grammar::site(const std::string& help) {
  option("--site", options_.site, "FILE", help);
}
void Grammar::backend(const Words& more) {
  site();
  Words words{"local", "slurm"};
  words.insert(words.end(), more.begin(), more.end());
  const auto take = [&options = options_](const std::string& word) {
    options.backend = from_word<Backend>(word).value_or(Backend::none);
  };
  OptionDeclaration(command_,
      command_
          .add_option_function<std::string>("--backend", take,
              "Where to run: " + one_of_these(words) + ". Overrides the site file.")
          ->type_name("BACKEND"),
      choices_)
      .one_of(words);
  flag("--here", options_.here,
      "Allow more than 4 slots of this machine, or a sweep for another cluster.");
}
void Grammar::selection() {
  names("Sweeps or trials. Default: the last sweep; with --where all.");
  where();
  flag("--all-sweeps", options_.all_sweeps, "Show all sweeps, not the last one alone.");
  flag("--hidden", options_.hidden, "Include trials that were removed from their sweep file.");
}
void Grammar::versions() {
  flag("--all-versions", options_.all_versions,
      "Rank runs of all runners, versions and programs, not those of the newest alone.");
  option("--at", options_.at, "WHEN",
      "Rank the runs of the sweep itself (`sweep`), or the layouts that were measured again since, "
      "by their newest runs (`now`).")
      .one_of({"sweep", "now"});
}
void Grammar::family(const std::string& help) {
  Words names;
  for (const Family& family : families())
    names.push_back(family.name);
  option("--family", options_.asked.family, "FAMILY", help).offers(std::move(names));
}

Result<double> share_in_option(std::string_view text, std::string_view option) {
  const auto share = config::parse_share(text);
  if (!share) return fault(FaultKind::invalid_input, "{}: {}", option, share.error());
  return *share;
}

}  // namespace shardsweep
