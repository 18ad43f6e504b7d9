// SPDX-License-Identifier: Apache-2.0
// CLI11 lives here alone.
#include "cli/arguments.hpp"

#include "cli/table_view.hpp"
#include "cli/version.hpp"
#include "domain/nearest.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

constexpr int usage_error = 2;

class Grammar {
 public:
  explicit Grammar(Options& options) : o_(options) {
    app_.set_version_flag("--version", std::string("shardsweep ") + version);
    app_.require_subcommand(1);
    app_.get_formatter()->column_width(34);
    app_.footer(
        "Daily: plan submit run status follow pause resume cancel rerun show\n"
        "Results: results query best heatmap export\n"
        "Before anything runs: suggest calibrate\n"
        "Tables of others: import replay evaluate-memory\n"
        "Other: nodes doctor daemon tick render gc\n"
        "A sweep's name, a trial's slug, an attempt (slug.2) or a job id is understood "
        "wherever a "
        "thing is named.\n"
        "Exit codes: 0 every trial has a final verdict, 1 failed, 2 wrong usage or input, 3 "
        "some "
        "are undecided, 130 interrupted.");
    add_sweep_commands();
    add_control_commands();
    add_result_commands();
    add_recorded_commands();
    add_other_commands();
  }

  Parsed parse(int argc, char** argv) {
    if (argc > 1 && !known_command(argv[1])) return {{}, usage_error};
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      const int code = app_.exit(error);
      return {{}, code == 0 ? 0 : usage_error};
    }
    o_.command = app_.get_subcommands().front()->get_name();
    return {o_, std::nullopt};
  }

 private:
  /// CLI11 would only say that a subcommand is required.
  bool known_command(std::string_view word) {
    if (word.starts_with('-')) return true;
    std::vector<std::string> names;
    for (const CLI::App* sub : app_.get_subcommands({}))
      names.push_back(sub->get_name());
    if (std::find(names.begin(), names.end(), word) != names.end()) return true;
    std::cerr << "shardsweep: there is no command '" << word << "'"
              << did_you_mean(word, {names.begin(), names.end()})
              << "\n'shardsweep --help' lists them.\n";
    return false;
  }
  CLI::App* command(const std::string& name, const std::string& help) {
    CLI::App* sub = app_.add_subcommand(name, help);
    sub->add_option(
           "--db", o_.db,
           "database file (SHARDSWEEP_DB; default: shardsweep.db under SHARDSWEEP_HOME)")
        ->type_name("FILE");
    return sub;
  }
  void with_format(CLI::App* sub) {
    const auto take = [this](const std::string& word) {
      const auto format = format_from(CLI::detail::to_lower(word));
      if (!format)
        throw CLI::ValidationError("--format", "'" + word + "' is none of table, csv, json");
      o_.format = *format;
    };
    sub->add_option_function<std::string>("--format", take, "table, csv or json")
        ->type_name("FORMAT");
  }
  void with_names(CLI::App* sub, const std::string& help) {
    sub->add_option("names", o_.names, help)->type_name("NAME");
  }
  void with_where(CLI::App* sub) {
    sub->add_option(
           "--where", o_.where,
           "expression over axes, vars, outcome, state and metrics: \"tp > 1 and outcome "
           "= 'oom'\"")
        ->type_name("EXPR");
  }
  void with_sweep_file(CLI::App* sub, bool required) {
    auto* file = sub->add_option("sweep", o_.file, "sweep file")->type_name("FILE");
    if (required) file->required();
    sub->add_option("--set", o_.set, "overrides a value of the file: axes.tp=2,4 (repeatable)")
        ->type_name("KEY=VALUE");
  }
  void with_backend(CLI::App* sub) {
    sub->add_option("--site", o_.site, "site file (default: ~/.config/shardsweep/site.yaml)")
        ->type_name("FILE");
    sub->add_option("--backend", o_.backend, "local or slurm, in place of the site file's")
        ->check(CLI::IsMember({"local", "slurm"}));
    sub->add_flag("--here", o_.here,
                  "allow more than 4 slots of this machine, or another cluster's sweep on it");
  }
  void with_selection(CLI::App* sub) {
    with_names(sub, "sweeps or trials; none: all");
    with_where(sub);
    sub->add_flag("--hidden", o_.hidden, "also trials that an edited sweep file no longer has");
  }

  void add_sweep_commands() {
    CLI::App* plan = command("plan", "What would run, in which order, what not, and why");
    with_sweep_file(plan, true);
    with_format(plan);
    plan->add_flag("--explain", o_.explain, "print the sweep with every default in force");
    plan->add_flag("--all", o_.all, "list every trial, also on a terminal");

    add_suggest();
    add_calibrate();

    CLI::App* submit = command("submit", "Hand a sweep to the daemon; edited, it is a diff");
    with_sweep_file(submit, true);
    with_backend(submit);
    with_format(submit);

    CLI::App* run = command("run", "Submit, then follow to the end");
    with_sweep_file(run, true);
    with_backend(run);

    CLI::App* render = command("render", "Print the job script that would be submitted");
    with_sweep_file(render, true);
    with_backend(render);
  }

  void add_suggest() {
    CLI::App* suggest =
        command("suggest",
                "The fastest layouts by prediction, step by step: memory, batch, throughput");
    suggest->add_option("--model", o_.model, "preset of the model")
        ->required()
        ->type_name("MODEL");
    suggest->add_option("--cluster", o_.cluster, "preset of the cluster")
        ->required()
        ->type_name("PRESET");
    suggest->add_option("--nodes", o_.nodes, "whole nodes")->type_name("N");
    suggest->add_option("--gpus", o_.gpus, "GPUs of one node, in place of --nodes")
        ->type_name("N");
    suggest->add_option("--seq-len", o_.seq_len, "tokens per sample")
        ->capture_default_str()
        ->type_name("TOKENS");
    suggest->add_option("--batch-tokens", o_.batch_tokens, "tokens per train step: 4Mi")
        ->capture_default_str()
        ->type_name("TOKENS");
    suggest
        ->add_option("--family", o_.family,
                     "family of the trainer: shardbench, nanotron, megatron, fsdp (default: "
                     "shardbench)")
        ->type_name("FAMILY");
    suggest->add_option("--top", o_.top, "layouts, of different dp x tp x pp")
        ->capture_default_str()
        ->check(CLI::Range(1, 100));
    with_format(suggest);
  }

  void add_calibrate() {
    CLI::App* calibrate = command(
        "calibrate", "Measure a cluster's building blocks and write them down for the planner");
    calibrate->add_option("cluster", o_.cluster, "preset of the cluster, or a cluster file")
        ->required()
        ->type_name("PRESET");
    calibrate
        ->add_option("--out", o_.out,
                     "file to write, for a sweep's `cluster:` (default: "
                     "NAME.calibrated.yaml here)")
        ->type_name("FILE");
    calibrate
        ->add_option("--model", o_.model,
                     "preset of the model whose shapes are timed (default: llama-1b on GPUs, "
                     "mini without)")
        ->type_name("MODEL");
    calibrate->add_option("--seq-len", o_.calibrate_seq_len, "tokens per sample (4096, 256)")
        ->type_name("TOKENS");
    calibrate->add_option("--micro-batch", o_.micro_batch, "samples that are timed at once")
        ->capture_default_str()
        ->type_name("N");
    calibrate->add_option("--dtype", o_.dtype, "bf16 on GPUs, fp32 without")
        ->type_name("DTYPE");
    calibrate
        ->add_option("--nodes", o_.nodes,
                     "also a run on so many nodes, for what links between them carry")
        ->type_name("N");
    with_backend(calibrate);
    with_format(calibrate);
  }

  void add_control_commands() {
    CLI::App* status = command("status", "How far sweeps are, and who runs them");
    with_names(status, "sweeps; none: all");
    with_format(status);
    with_names(command("follow", "Follow a sweep to its end"), "sweeps; none: all");
    with_names(command("pause", "Start nothing more; what runs ends by itself"),
               "sweeps; none: all");
    with_names(command("resume", "Go on, and try again what was interrupted"),
               "sweeps; none: all");
    CLI::App* cancel = command("cancel", "End sweeps, or the trials that --where names");
    with_names(cancel, "sweeps or trials");
    with_where(cancel);
    CLI::App* rerun = command("rerun", "Measure ended trials again");
    with_names(rerun, "sweeps or trials");
    with_where(rerun);
  }

  void add_result_commands() {
    CLI::App* show = command("show", "All about one trial: attempts, causes, files");
    show->add_option("name", o_.names, "slug, attempt or job id")
        ->required()
        ->type_name("TRIAL");
    with_format(show);

    CLI::App* results = command("results", "One row per trial");
    with_selection(results);
    with_format(results);
    results->add_option("--columns", o_.columns, "columns to show")->delimiter(',');
    results->add_option("--sort", o_.sort, "column to sort by; -column: descending");
    results->add_option("--limit", o_.limit, "rows at most")->check(CLI::NonNegativeNumber);
    results->add_flag("--measured", o_.measured, "completed trials alone");

    CLI::App* query =
        command("query", "One SELECT over the database (see: results, trials, …)");
    query->add_option("sql", o_.sql, "the statement")->required()->type_name("SQL");
    with_format(query);

    CLI::App* best =
        command("best", "The fastest layout of each model, sequence length and size");
    with_selection(best);
    with_format(best);

    CLI::App* heatmap = command("heatmap", "A pivot over two axes, each cell with a status");
    with_selection(heatmap);
    with_format(heatmap);
    heatmap->add_option("--rows", o_.rows, "axis of the rows")->capture_default_str();
    heatmap->add_option("--cols", o_.cols, "axis of the columns")->capture_default_str();
    heatmap->add_option("--value", o_.value, "metric, or outcome")->capture_default_str();
    heatmap->add_flag("--long", o_.long_form, "csv: one line per cell, with layout and status");

    CLI::App* save = command("export", "A copy of the database that a colleague can open");
    save->add_option("file", o_.file, "file to write; *.csv: the results as CSV")
        ->required()
        ->type_name("FILE");
    with_where(save);
  }

  void with_recorded_file(CLI::App* sub) {
    sub->add_option("file", o_.file, "table of runs (CSV)")->required()->type_name("FILE");
    sub->add_option("--from", o_.from, "whose columns it has: csv (our names) or nanotron")
        ->capture_default_str()
        ->type_name("KIND");
    sub->add_option("--cluster", o_.cluster,
                    "preset of the cluster that it is of (nanotron: h100-8x)")
        ->type_name("PRESET");
    sub->add_option("--family", o_.family,
                    "family of its trainer: shardbench, nanotron, megatron, fsdp (nanotron: "
                    "nanotron)")
        ->type_name("FAMILY");
    sub->add_option(
           "--where", o_.where,
           "rows: an expression over axes, shape, outcome, metrics, software_version and "
           "the table's other columns")
        ->type_name("EXPR");
    with_format(sub);
  }

  void add_recorded_commands() {
    CLI::App* replay = command(
        "replay", "Search a recorded sweep as if it were the cluster, and score the search");
    with_recorded_file(replay);
    replay->add_option("--policy", o_.policy, "best_first or exhaustive")
        ->capture_default_str();
    replay
        ->add_option("--until", o_.until,
                     "end of a cell's search: regret=1%,confidence=95% or runs=N or "
                     "gpu_hours=H (default: its last point)")
        ->type_name("LIMITS");
    replay
        ->add_option("--without-rule", o_.without_rules,
                     "named rule to switch off: micro_batch, grad_accum, memory (repeatable)")
        ->type_name("RULE");
    replay->add_flag("--learn-across", o_.learn_across,
                     "cells learn from smaller models and fewer nodes");
    replay->add_flag("--cross-validate", o_.cross_validate,
                     "also with the time model refitted to the other models' rows, and to all");
    CLI::App* import_table = command(
        "import", "Take somebody's table of runs into the database: results, best, heatmap");
    with_recorded_file(import_table);
    import_table
        ->add_option("--name", o_.name,
                     "of the sweep that it becomes (default: the file's, without its ending)")
        ->type_name("NAME");
    CLI::App* evaluate = command("evaluate-memory",
                                 "Predicted memory against what a recorded sweep reports, and "
                                 "its OOM rows against the verdict");
    with_recorded_file(evaluate);
    evaluate->add_flag("--cross-validate", o_.cross_validate,
                       "each model by constants that were fitted to the other models' rows");
  }

  void add_other_commands() {
    CLI::App* daemon = command("daemon", "Be the daemon, in the foreground");
    daemon->add_flag("--until-idle", o_.until_idle, "end when nothing is left to do");
    daemon->add_flag("--take-over", o_.take_over,
                     "replace a daemon that is stopped or out of reach");
    daemon->add_flag(
        "--in-slurm", o_.in_slurm,
        "be a job of one core, which hands over to the next one before its time is "
        "up");
    daemon->add_option("--site", o_.site,
                       "site file of that job (default: ~/.config/shardsweep/site.yaml)");
    daemon
        ->add_option("--job-option", o_.job_options,
                     "an sbatch option of that job: time=12:00:00, partition=cpu (repeatable)")
        ->type_name("OPTION=VALUE");
    daemon->add_option("--as-job", o_.as_job)->group("");  // what that job's script says
    daemon->add_option("--set", o_.set,
                       "an interval of the daemon: daemon.tick=2s (repeatable)");
    command("tick", "One pass of the daemon, then exit (for cron)");
    CLI::App* doctor = command("doctor", "Check this installation, its home and its backends");
    with_format(doctor);
    doctor->add_option("--site", o_.site,
                       "site file (default: ~/.config/shardsweep/site.yaml)");
    doctor->add_flag(
        "--on-a-node", o_.on_a_node,
        "submit a small job, to see that a node sees the home and runs shardbench");
    CLI::App* nodes = command(
        "nodes", "The nodes that have run something: what speaks against them, who is out");
    with_format(nodes);
    nodes
        ->add_option("--clear", o_.clear,
                     "trust this node again: what spoke against it is over")
        ->type_name("NODE");
    CLI::App* gc = command("gc", "Say which files of ended attempts could go");
    gc->add_option_function<std::string>(
          "--older-than", [this](const std::string& text) { set_age(text); },
          "keep what is younger: 30d, 12h, 0s (default 30d)")
        ->type_name("AGE");
    gc->add_flag("--remove", o_.remove, "remove them");
    o_.older_than_s = 30 * 86400.0;
  }

  void set_age(const std::string& text) {
    const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    std::size_t end = 0;
    double number = -1;
    try {
      number = std::stod(text, &end);
    } catch (const std::exception&) {
      end = 0;
    }
    if (end == 0 || number < 0 || end + 1 != text.size() || units.count(text[end]) == 0) {
      throw CLI::ValidationError("--older-than", "'" + text + "' is no age such as 30d or 12h");
    }
    o_.older_than_s = number * units.at(text[end]);
  }

  Options& o_;
  CLI::App app_{"Find the fastest training layout for a model on your nodes."};
};

}  // namespace

Parsed parse_arguments(int argc, char** argv) {
  Options options;
  return Grammar(options).parse(argc, argv);
}

}  // namespace shardsweep
