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

// What one command asks for, or a few that are alike. Numbers with units are texts: they are
// read as a sweep file's are.

struct PlanOptions {
  bool explain = false;  ///< also of replay
  bool all = false;
  bool order = false;  ///< launch by launch
};

struct ResultOptions {
  std::vector<std::string> columns;
  std::string sort;
  std::int64_t limit = 0;  ///< 0: all
  bool hidden = false;
  bool measured = false;
  std::string sql;
};

struct HeatmapOptions {
  std::string rows = "model";
  std::string cols;  ///< empty: nodes, or gpus where worlds are counted by them
  std::string value = "tokens_per_s_per_gpu";
  bool long_form = false;
  std::string aggregate = "best";  ///< best, median, p90, count
  std::string facet;               ///< column with a heatmap for each of its values
};

struct ReportOptions {
  std::string note;   ///< what stands at its top
  bool live = false;  ///< written again while its sweeps run
  std::string every = "60s";
};

struct CompareOptions {
  std::string by = "sweep";  ///< column whose values the sides are
  std::string resolve = "1%";
  std::string fail_on;  ///< slower=2%
  bool winners = false;
};

/// Tables of runs, and searches over them.
struct RecordedSweepOptions {
  std::string from = "csv";  ///< whose columns: csv, nanotron
  std::string policy = "best_first";
  std::string until;
  std::vector<std::string> without_rules;
  bool cells_alone = false;
  bool cross_validate = false;
  std::string name;  ///< of the sweep that an import makes
  std::string start_cost = "60s";
  std::string oom_cost;
  std::string cut_short;  ///< a factor or off; empty: the default
};

/// A model, a cluster and sizes, where there is no sweep file.
struct AskedOptions {
  std::string model;
  std::string cluster;  ///< preset
  std::string family;   ///< of trainers
  std::string nodes;
  std::string gpus;
  std::string seq_len = "4096";
  std::string batch_tokens = "4Mi";
  std::int64_t top = 5;
};

struct CalibrateOptions {
  std::string dtype;
  std::string seq_len;
  std::string micro_batch = "4";
};

struct DaemonOptions {
  bool until_idle = false;
  bool take_over = false;
  bool in_slurm = false;
  std::vector<std::string> job_options;  ///< of the daemon's job: OPTION=VALUE
  int as_job = 0;                        ///< number in the chain of jobs; 0: not one of them
};

struct LogOptions {
  std::string rank;         ///< a number, or all
  std::int64_t lines = -1;  ///< the last ones; -1: all
  bool follow = false;
  bool list = false;
};

/// A trainer's log, command line or words; a number is empty where it is not known.
struct TrainerOptions {
  std::string log;        ///< whose: a trainer, or empty to find out; also of --from-args
  std::string from_args;  ///< plan, best: a present configuration, or @FILE
  std::string emit;       ///< plan, best: in whose words layouts are printed
  std::string point;      ///< plan, render: which points; empty: all
  std::vector<std::string> patterns;
  std::string gpus;
  std::string seq_len;
  std::string batch_tokens;
  std::string vocab;
};

struct HelpOptions {
  bool markdown = false;
  bool man = false;
  std::string shell;  ///< whose completion: bash, zsh, fish
  std::string kind;   ///< of names: sweeps, presets, models, clusters
};

/// Files that may be removed.
struct GarbageOptions {
  std::string older_than = "30d";
  bool remove = false;
  bool verbose = false;
};

struct Options {
  std::string command;

  // in which form
  Format format = Format::table;
  PictureForm picture = PictureForm::none;  ///< in place of `format`
  bool format_given = false;
  bool wide = false;  ///< a table's columns whatever the width
  std::string out;    ///< file to write

  /// False: there is no form of this name.
  [[nodiscard]] bool set_form(std::string_view word);

  // what is meant
  std::string db;
  std::vector<std::string> names;  ///< sweeps, slugs, attempts, job ids
  std::string file;                ///< sweep file, or the file to write
  std::string where;
  bool every_sweep = false;  ///< --all of a verb: in place of names
  bool cancelled = false;    ///< resume: also what was cancelled by name
  bool dry_run = false;

  // how a cluster is reached, and what is set over a file
  std::vector<std::string> set;
  std::string site;                 ///< site file
  Backend backend = Backend::none;  ///< none: not said
  bool here = false;

  // one value of one command
  std::string by = "memory";  ///< frontier: memory, nodes
  std::string clear;          ///< nodes: the one to be trusted again
  bool on_a_node = false;     ///< doctor, init
  bool watch = false;         ///< status

  PlanOptions plan{};
  ResultOptions results{};
  HeatmapOptions heatmap{};
  ReportOptions report{};
  CompareOptions compare{};
  RecordedSweepOptions recorded{};
  AskedOptions asked{};
  CalibrateOptions calibrate{};
  DaemonOptions daemon{};
  LogOptions logs{};
  TrainerOptions trainer{};
  HelpOptions help{};
  GarbageOptions garbage{};

  /// True where `help` is about commands, and not about what command_help() explains.
  [[nodiscard]] bool topic_is_command() const {
    if (help.man || !help.shell.empty()) return false;
    return names.empty() ||
           std::find(help_topics.begin(), help_topics.end(), names[0]) == help_topics.end();
  }
};

}  // namespace shardsweep
