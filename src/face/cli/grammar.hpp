// SPDX-License-Identifier: Apache-2.0
// How a command declares its options. CLI11 is large to compile and its messages differ from
// version to version, so grammar.cpp alone knows it: forty files of commands do not.
#pragma once

#include "cli/options.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
class Option;
}  // namespace CLI

namespace shardsweep {

using Words = std::vector<std::string>;
/// The words that options take, for help and completion.
using Choices = std::map<const CLI::Option*, Words>;

/// An option, or an argument, while it is being declared.
class OptionDeclaration {
 public:
  OptionDeclaration(CLI::App& command, CLI::Option* option, Choices& choices)
      : command_(command), option_(option), choices_(choices) {}

  const OptionDeclaration& required() const;
  /// Any other word is wrong usage.
  const OptionDeclaration& one_of(Words words) const;
  /// Limits the words as one_of() does, but takes a trainer's file of the user
  /// (own_trainer_file()), too.
  const OptionDeclaration& one_of_or_own_trainer(const Words& words) const;
  /// Completion offers these words; the command itself judges what it is given.
  const OptionDeclaration& offers(Words words) const;
  const OptionDeclaration& whole_number(std::int64_t first, std::int64_t last) const;
  /// `wrong` says what is wrong with a value, in words that follow the option's name; empty:
  /// nothing.
  const OptionDeclaration& check(std::function<std::string(const std::string&)> wrong) const;
  const OptionDeclaration& times(int least, int most) const;
  /// Each value needs the option anew; without this a list goes on to the next option.
  const OptionDeclaration& one_at_a_time() const;
  const OptionDeclaration& split_at_commas() const;
  const OptionDeclaration& not_with(const char* option) const;
  const OptionDeclaration& only_with(const char* option) const;
  /// Leaves the option out of help and completion: it is for our own scripts.
  const OptionDeclaration& hidden() const;

 private:
  CLI::App& command_;
  CLI::Option* option_;
  Choices& choices_;
};

/// The options of one command. Values go into `options`, which outlives the parsing.
class Grammar {
 public:
  Grammar(CLI::App& command, Options& options, Choices& choices, Words*& program)
      : command_(command), options_(options), choices_(choices), program_(program) {}

  Options& options() { return options_; }
  /// Makes the struct of the options that this command alone has; Options::of() reads it.
  template <class Own>
  Own& own() {
    return options_.own.emplace<Own>();
  }

  /// `name`: "--name", "-n,--name", or "name" of an argument. `value`: its value in help, which
  /// shows what stands in the target now as the default.
  OptionDeclaration option(
      const char* name, std::string& target, const char* value, const std::string& help);
  OptionDeclaration option(
      const char* name, Words& target, const char* value, const std::string& help);
  OptionDeclaration option(
      const char* name, std::int64_t& target, const char* value, const std::string& help);
  void flag(const char* name, bool& target, const std::string& help);
  /// A program and its words. All that stands behind `--` is theirs, whatever it looks like.
  void program(const char* name, Words& target, const char* value, const std::string& help);

  // Options that several commands have.
  /// Declares --format for tables and for `pictures`, and --wide.
  void format(const Words& pictures = {});
  /// --format of these words alone.
  void form(const std::string& help, const Words& words);
  void output();
  void names(const std::string& help);
  OptionDeclaration where(const std::string& help = {});
  void sweep_file();
  void site(const std::string& help = "Site file. Default: ~/.config/shardsweep/site.yaml.");
  /// How to reach a cluster: --site, --backend, --here. `more`: backends that this command has
  /// beside those that run something.
  void backend(const Words& more = {});
  /// Sweeps or trials, --where and --hidden.
  void selection();
  /// --all-versions, of what ranks.
  void versions();
  void family(const std::string& help);

 private:
  CLI::App& command_;
  Options& options_;
  Choices& choices_;
  [[nodiscard]] OptionDeclaration declared(
      CLI::Option* option, const char* value, bool has_default);

  Words*& program_;
};

/// 1% or 0.01, the value of an option; the fault names the option.
[[nodiscard]] Result<double> share_in_option(std::string_view text, std::string_view option);

}  // namespace shardsweep
