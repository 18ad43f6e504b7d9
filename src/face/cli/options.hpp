// SPDX-License-Identifier: Apache-2.0
// What a command line says, as values: what several commands ask. What one command alone asks
// is a struct of its file. Numbers with units are texts: they are read as a sweep file's are.
#pragma once

#include "show/format.hpp"

#include <shardsweep/backend.hpp>

#include <algorithm>
#include <any>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Topics that `help` explains beside the commands.
inline constexpr std::array<std::string_view, 10> help_topics{"keys", "axes", "units",
    "placeholders", "patterns", "words", "site", "schema", "trainer-schema", "columns"};

/// The forms that are looked at.
enum class PictureForm : std::uint8_t { none, svg, png, html };

/// A model, a cluster and sizes, if there is no sweep file.
struct AskedOptions {
  std::string model;
  std::string cluster;  ///< preset
  std::string family;   ///< family of trainers
  std::string trainer;  ///< new: whose sweep
  std::string nodes;
  std::string nodelist;  ///< preflight: these nodes, as Slurm writes a list
  std::string gpus;
  std::string seq_len = "4096";
  std::string batch_tokens = "4Mi";
  std::int64_t top = 5;
};

/// Layouts in the words of trainers.
struct TrainerOptions {
  std::string emit;       ///< plan, best: in whose words layouts are printed
  std::string from_args;  ///< plan, best: a present configuration, or @FILE
  std::string log;        ///< trainer whose words --from-args has; empty: the sweep's
  std::string gpus;       ///< GPUs of the run with --from-args
  std::string point;      ///< plan, render: which points; empty: all
};

struct HelpOptions {
  bool all = false;
  bool markdown = false;
  bool man = false;
  std::string shell;  ///< shell that is completed: bash, zsh, fish
};

struct Options {
  std::string command;

  // form of the output
  Format format = Format::table;
  PictureForm picture = PictureForm::none;  ///< picture in place of `format`
  std::int64_t png_width = 0;               ///< pixels; 0: for print
  bool format_given = false;
  bool wide = false;  ///< a table's columns whatever the width
  std::string out;    ///< file to write

  /// False: there is no form of this name.
  [[nodiscard]] bool set_form(std::string_view word);

  // sweeps, trials and files that are meant
  std::string db;
  std::vector<std::string> names;  ///< sweeps, slugs, attempts, job ids
  std::string file;                ///< sweep file, or the file to write
  std::string where;
  bool all_sweeps = false;    ///< no names mean all sweeps, not the last one
  bool hidden = false;        ///< also trials that were removed from their sweep file
  bool all_versions = false;  ///< rank other runners, versions and programs, too
  std::string at = "sweep";   ///< RankedAt

  // how a cluster is reached, and what is set over a file
  std::vector<std::string> set;
  std::string site;                 ///< site file
  Backend backend = Backend::none;  ///< stated backend; `none`: not said
  bool here = false;

  AskedOptions asked{};
  TrainerOptions trainer{};
  HelpOptions help{};

  /// Options that the command alone has: the struct that its grammar has made by Grammar::own().
  std::any own;
  template <class Own>
  [[nodiscard]] const Own& of() const {
    return std::any_cast<const Own&>(own);
  }

  /// True if `help` is about commands, and not about what its run() explains.
  [[nodiscard]] bool topic_is_command() const {
    if (help.man || !help.shell.empty()) return false;
    return names.empty() ||
        std::find(help_topics.begin(), help_topics.end(), names[0]) == help_topics.end();
  }
};

}  // namespace shardsweep
