// SPDX-License-Identifier: Apache-2.0
// What a command line says, as values. Parsing (arguments.cpp) and doing (commands_*.cpp) meet
// here and nowhere else.
#pragma once

#include "show/format.hpp"

#include <shardsweep/backend.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// What `help` explains beside the commands.
inline constexpr std::array<std::string_view, 8> help_topics{
    "keys", "axes", "units", "placeholders", "trainers", "site", "schema", "columns"};

/// The forms that are looked at.
enum class PictureForm : std::uint8_t { none, svg, png, html };

struct Options {
  // every command
  std::string db;
  Format format = Format::table;
  PictureForm picture = PictureForm::none;  ///< in place of `format`
  bool format_given = false;
  bool wide = false;  ///< a table's columns whatever the width
  std::string command;

  /// False: there is no form of this name.
  [[nodiscard]] bool set_form(std::string_view word);

  // what is meant
  std::vector<std::string> names;  ///< sweeps, slugs, attempts, job ids
  std::string file;                ///< sweep file, or the file to write
  std::string where;
  bool every_sweep = false;  ///< --all of a verb: in place of names
  bool cancelled = false;    ///< resume: also what was cancelled by name
  bool dry_run = false;

  // sweep files
  std::vector<std::string> set;
  std::string site;                 ///< site file
  Backend backend = Backend::none;  ///< none: not said
  bool here = false;
  bool explain = false;
  bool all = false;
  bool order = false;  ///< plan: launch by launch

  // results
  std::vector<std::string> columns;
  std::string sort;
  std::int64_t limit = 0;  ///< 0: all
  bool hidden = false;
  bool measured = false;
  std::string sql;
  std::string rows = "model";
  std::string cols;  ///< empty: nodes, or gpus where worlds are counted by them
  std::string value = "tokens_per_s_per_gpu";
  bool long_form = false;
  std::string aggregate = "best";  ///< best, median, p90, count
  std::string note;                ///< report: what stands at its top
  bool live = false;               ///< report: write it again while its sweeps run
  std::string every = "60s";
  std::string facet;          ///< column with a heatmap for each of its values
  std::string by = "memory";  ///< frontier: memory, nodes

  // compare
  std::string compare_by = "sweep";  ///< column whose values the sides are
  std::string resolve = "1%";
  std::string fail_on;  ///< slower=2%
  bool winners = false;

  // recorded sweeps
  std::string from = "csv";  ///< whose columns: csv, nanotron
  std::string cluster;       ///< preset
  std::string family;        ///< of trainers
  std::string policy = "best_first";
  std::string until;
  std::vector<std::string> without_rules;
  bool cells_alone = false;
  bool cross_validate = false;
  std::string name;   ///< of the sweep that an import makes
  std::string clear;  ///< nodes: the one to be trusted again

  // suggest, calibrate; numbers with units, read as a sweep file's
  std::string model;
  std::string nodes;
  std::string gpus;
  std::string seq_len = "4096";
  std::string batch_tokens = "4Mi";
  std::int64_t top = 5;
  std::string dtype;
  std::string calibrate_seq_len;
  std::string micro_batch = "4";
  std::string out;  ///< file to write

  // daemon
  bool until_idle = false;
  bool take_over = false;
  bool in_slurm = false;
  std::vector<std::string> job_options;  ///< of the daemon's job: OPTION=VALUE
  int as_job = 0;                        ///< number in the chain of jobs; 0: not one of them

  // doctor
  bool on_a_node = false;

  // help, names
  bool markdown = false;
  bool man = false;
  std::string shell;  ///< whose completion: bash, zsh, fish
  std::string kind;   ///< of names: sweeps, presets, models, clusters
  /// True where `help` is about commands, and not about what command_help() explains.
  [[nodiscard]] bool topic_is_command() const {
    if (man || !shell.empty()) return false;
    return names.empty() ||
           std::find(help_topics.begin(), help_topics.end(), names[0]) == help_topics.end();
  }

  // logs
  std::string rank;         ///< a number, or all
  std::int64_t lines = -1;  ///< the last ones; -1: all
  bool follow = false;
  bool list = false;

  // read-log; numbers with units, empty: not known
  std::string log;        ///< whose: a trainer, or empty to find out; also of --from-args
  std::string from_args;  ///< plan, best: a present configuration, or @FILE
  std::string emit;       ///< plan, best: in whose words layouts are printed
  std::string point;      ///< plan, render: which points; empty: all
  std::vector<std::string> patterns;
  std::string run_gpus;
  std::string run_seq_len;
  std::string run_batch_tokens;
  std::string run_vocab;

  // status
  bool watch = false;

  // gc
  std::string start_cost = "60s";
  std::string oom_cost;
  std::string cut_short;  ///< a factor or off; empty: the default
  std::string older_than = "30d";
  bool remove = false;
  bool verbose = false;
};

}  // namespace shardsweep
