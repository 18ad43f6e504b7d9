// SPDX-License-Identifier: Apache-2.0
// What several commands' grammars have in common. For arguments.cpp alone: CLI11 is large.
#pragma once

#include "cli/command_groups.hpp"
#include "cli/options.hpp"
#include "cli/validators.hpp"
#include "text/nearest.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

class GrammarParts {
 protected:
  using Words = std::vector<std::string>;
  explicit GrammarParts(Options& options) : o_(options) {}

  /// CLI11 would only say that a subcommand is required.
  bool known_command(std::string_view word) {
    if (word.starts_with('-')) return true;
    std::vector<std::string> names;
    for (const CLI::App* sub : app_.get_subcommands({}))
      names.push_back(sub->get_name());
    if (std::find(names.begin(), names.end(), word) != names.end()) return true;
    std::cerr << "shardsweep: there is no command '" << word << "'"
              << did_you_mean(word, {names.begin(), names.end()})
              << "\n'shardsweep help' lists them.\n";
    return false;
  }
  CLI::App* command(const std::string& name, const std::string& help) {
    CLI::App* sub = bare_command(name, help);
    sub->add_option("--db", o_.db,
                    "Database file. Default: SHARDSWEEP_DB, else shardsweep.db under "
                    "SHARDSWEEP_HOME.")
        ->type_name("FILE");
    return sub;
  }
  /// A command that has no use for a database.
  CLI::App* bare_command(const std::string& name, const std::string& help) {
    CLI::App* sub = app_.add_subcommand(name, help);
    sub->group(group_of(name));
    sub->set_help_flag("-h,--help", "Print this help and exit.");
    return sub;
  }
  /// "table, csv or json"
  static std::string enumerated(const Words& words) {
    std::string list = words.front();
    for (std::size_t i = 1; i < words.size(); ++i)
      list += (i + 1 == words.size() ? " or " : ", ") + words[i];
    return list;
  }
  /// The words that `option` takes, for help and completion.
  void with_choices(CLI::Option* option, Words words) { choices_[option] = std::move(words); }
  void with_format(CLI::App* sub, const Words& pictures = {}) {
    Words words{"table", "csv", "json", "markdown"};
    words.insert(words.end(), pictures.begin(), pictures.end());
    const auto list = enumerated(words);
    const auto take = [this, words, list](const std::string& given) {
      const auto word = CLI::detail::to_lower(given);
      if (std::find(words.begin(), words.end(), word) == words.end() || !o_.set_form(word))
        throw CLI::ValidationError("--format",
                                   "'" + given + "' is not a format; write " + list);
      o_.format_given = true;
    };
    with_choices(
        sub->add_option_function<std::string>("--format", take, "Output form: " + list + ".")
            ->type_name("FORMAT"),
        words);
    sub->add_flag("--wide", o_.wide, "Print all columns, whatever the terminal's width.");
  }
  void with_output(CLI::App* sub) {
    sub->add_option("-o,--output", o_.out,
                    "File to write. Its ending chooses the form where --format does not.")
        ->type_name("FILE");
  }
  void with_names(CLI::App* sub, const std::string& help) {
    sub->add_option("names", o_.names, help)->type_name("NAME");
  }
  void with_where(CLI::App* sub) {
    sub->add_option("--where", o_.where,
                    "Only trials for which this expression holds. It may use axes, vars, "
                    "outcome, state and metrics: \"tp > 1 and outcome = 'oom'\".")
        ->type_name("EXPR");
  }
  void with_sweep_file(CLI::App* sub, bool required) {
    auto* file = sub->add_option("sweep", o_.file, "Sweep file; - reads standard input.")
                     ->type_name("FILE");
    if (required) file->required();
    sub->add_option("--set", o_.set,
                    "Override a value of the file, such as axes.tp=2,4. Repeatable.")
        ->type_name("KEY=VALUE");
  }
  void with_site(CLI::App* sub, const std::string& help) {
    sub->add_option("--site", o_.site, help)->type_name("FILE");
  }
  void with_backend(CLI::App* sub) {
    with_site(sub, "Site file. Default: ~/.config/shardsweep/site.yaml.");
    const auto take = [this](const std::string& word) {
      o_.backend = from_word<Backend>(word).value_or(Backend::none);
    };
    with_choices(
        sub->add_option_function<std::string>(
               "--backend", take, "Where to run: local or slurm. Overrides the site file.")
            ->type_name("BACKEND")
            ->check(CLI::IsMember({"local", "slurm"})),
        {"local", "slurm"});
    sub->add_flag("--here", o_.here,
                  "Allow more than 4 slots of this machine, or a sweep for another cluster.");
  }
  void with_selection(CLI::App* sub) {
    with_names(sub, "Sweeps or trials. Default: all.");
    with_where(sub);
    sub->add_flag("--hidden", o_.results.hidden,
                  "Include trials that were removed from their sweep file.");
  }

  Options& o_;
  CLI::App app_{"Find the fastest training layout for a model on your nodes."};
  std::map<const CLI::Option*, Words> choices_;
};

}  // namespace shardsweep
