// SPDX-License-Identifier: Apache-2.0
// CLI11 lives here, in grammar_parts.hpp and in wrong_usage.cpp.
#include "cli/arguments.hpp"

#include "cli/arguments_compare.hpp"
#include "cli/arguments_predict.hpp"
#include "cli/arguments_site.hpp"
#include "cli/arguments_trainers.hpp"
#include "cli/command_groups.hpp"
#include "cli/grammar_parts.hpp"
#include "cli/version.hpp"
#include "cli/wrong_usage.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

constexpr int usage_error = 2;

class Grammar : private GrammarParts {
 public:
  explicit Grammar(Options& options) : GrammarParts(options) {
    app_.set_version_flag("--version", std::string("shardsweep ") + version,
                          "Print the version and exit.");
    app_.set_help_flag("-h,--help", "Print this help and exit.");
    app_.require_subcommand(1);
    add_sweep_commands();
    add_control_commands();
    add_result_commands();
    add_recorded_commands();
    add_other_commands();
  }

  Parsed parse(int argc, char** argv) {
    if (argc < 2) {
      std::cerr << "shardsweep: give a command; 'shardsweep help' lists them.\n";
      return {{}, usage_error};
    }
    if (!known_command(argv[1])) return {{}, usage_error};
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      return {{}, print_help(describe(), parsed_command())};
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return {{}, app_.exit(error)};
      std::cerr << wrong_usage(app_, error);
      return {{}, usage_error};
    }
    o_.command = parsed_command();
    if (o_.command == "help" && o_.topic_is_command())
      return {{}, print_help(describe(), o_.names.empty() ? "" : o_.names.front())};
    return {o_, std::nullopt};
  }

  [[nodiscard]] CommandLine describe() const {
    CommandLine line{.program = "shardsweep",
                     .version = version,
                     .about = app_.get_description(),
                     .options = options_of(app_)};
    for (const CommandGroup& group : command_groups)
      line.groups.emplace_back(group.name);
    for (const CLI::App* sub : app_.get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->get_group().empty()) continue;
      line.commands.push_back(
          {sub->get_name(), sub->get_group(), sub->get_description(), options_of(*sub)});
    }
    return line;
  }

 private:
  [[nodiscard]] std::string parsed_command() const {
    const auto parsed = app_.get_subcommands();
    return parsed.empty() ? "" : parsed.front()->get_name();
  }
  [[nodiscard]] std::vector<OptionHelp> options_of(const CLI::App& app) const {
    std::vector<OptionHelp> positionals;
    std::vector<OptionHelp> flags;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group().empty()) continue;
      OptionHelp help = described(*option);
      (help.positional ? positionals : flags).push_back(std::move(help));
    }
    positionals.insert(positionals.end(), flags.begin(), flags.end());
    return positionals;
  }
  [[nodiscard]] OptionHelp described(const CLI::Option& option) const {
    OptionHelp help;
    help.positional = option.get_positional();
    if (!option.get_lnames().empty()) help.name = "--" + option.get_lnames().front();
    if (!option.get_snames().empty()) help.brief = "-" + option.get_snames().front();
    // Behind a colon stand the checks of the value.
    const std::string type = option.get_type_name();
    if (option.get_type_size() != 0) help.value = type.substr(0, type.find(':'));
    if (help.positional) help.name = help.value;
    help.help = option.get_description();
    help.default_text = option.get_default_str();
    help.required = option.get_required();
    help.repeatable = option.get_items_expected_max() > 1;
    const auto choices = choices_.find(&option);
    if (choices != choices_.end()) help.choices = choices->second;
    return help;
  }

  void add_sweep_commands() {
    add_new();

    CLI::App* plan = command("plan", "Show what would run, what would not, and why.");
    with_sweep_file(plan, true);
    with_format(plan);
    plan->add_flag("--explain", o_.plan.explain, "Print the whole sweep with every default.");
    plan->add_flag("--all", o_.plan.all, "List every trial, also on a terminal.");
    plan->add_flag("--order", o_.plan.order, plan_order_help);
    with_emit(plan, o_);
    with_point(plan, o_, "--point", "With --emit: trials to print, ");
    CLI::App* submit =
        command("submit", "Submit a sweep; an edited file runs only its new points.");
    with_sweep_file(submit, true);
    with_backend(submit);
    with_format(submit);

    CLI::App* run = command("run", "Submit a sweep and follow it to its end.");
    with_sweep_file(run, true);
    with_backend(run);

    add_suggest();
    add_calibrate();

    CLI::App* render = command("render", render_help);
    with_sweep_file(render, true);
    with_point(render, o_, "point",
               "Print command line, files and environment of these trials, ");
    with_backend(render);
  }

  void add_new() {
    CLI::App* make = bare_command("new", "Write a commented sweep file to start from.");
    make->add_option(
            "sweep", o_.file,
            "File to write, such as SWEEP.yaml; - prints it. An existing file is kept.")
        ->type_name("FILE");
    make->add_option("--model", o_.asked.model, "Preset of the model. Default: tiny and mini.")
        ->type_name("MODEL");
    make->add_option("--cluster", o_.asked.cluster,
                     "Preset of the cluster. Default: this-machine.")
        ->type_name("PRESET");
    make->add_option("--nodes", o_.asked.nodes, "Number of nodes, or several: 1,2,4.")
        ->type_name("N");
    make->add_option("--gpus", o_.asked.gpus,
                     "GPUs of one node, or several, in place of --nodes.")
        ->type_name("N");
  }

  void add_suggest() {
    CLI::App* suggest = with_suggest(command("suggest", suggest_help), o_);
    with_family(suggest, "Family of the trainer. Default: shardbench.");
    with_format(suggest);
  }

  void with_family(CLI::App* sub, const std::string& help) {
    with_choices(sub->add_option("--family", o_.asked.family, help)->type_name("FAMILY"),
                 {"shardbench", "nanotron", "megatron", "fsdp"});
  }

  void add_calibrate() {
    CLI::App* calibrate =
        command("calibrate", "Measure a cluster's speed and write it down for predictions.");
    calibrate
        ->add_option("cluster", o_.asked.cluster, "Preset of the cluster, or a cluster file.")
        ->required()
        ->type_name("PRESET");
    calibrate
        ->add_option("--out", o_.out,
                     "File to write, for a sweep's 'cluster:'. Default: "
                     "NAME.calibrated.yaml here.")
        ->type_name("FILE");
    calibrate
        ->add_option("--model", o_.asked.model,
                     "Preset of the model whose shapes are timed. Default: llama-1b on "
                     "GPUs, mini without.")
        ->type_name("MODEL");
    calibrate
        ->add_option("--seq-len", o_.calibrate.seq_len,
                     "Tokens per sample. Default: 4096 on GPUs, 256 without.")
        ->type_name("TOKENS");
    calibrate->add_option("--micro-batch", o_.calibrate.micro_batch, "Samples per timed block.")
        ->capture_default_str()
        ->type_name("N");
    with_choices(calibrate
                     ->add_option("--dtype", o_.calibrate.dtype,
                                  "Number format. Default: bf16 on GPUs, fp32 without.")
                     ->type_name("DTYPE"),
                 {"bf16", "fp32", "fp64"});
    calibrate
        ->add_option("--nodes", o_.asked.nodes,
                     "Also run on so many nodes, to measure the links between them.")
        ->type_name("N");
    with_backend(calibrate);
    with_format(calibrate);
  }

  void add_control_commands() {
    CLI::App* status = command("status", "Show the progress of sweeps, and who runs them.");
    with_names(status, "Sweeps. Default: all.");
    with_format(status);
    status->add_flag("--watch", o_.watch, "Refresh in place every second, until Ctrl-C.");
    with_names(command("follow", "Follow sweeps to their end."),
               "Sweeps. Default: those that have not ended.");
    add_logs();
    CLI::App* pause = command("pause", "Start nothing more; running trials end by themselves.");
    with_names(pause, "Sweeps. Default: all.");
    with_dry_run(pause);
    CLI::App* resume = command("resume", "Continue, and try interrupted trials again.");
    with_names(resume, "Sweeps or trials. Default: all sweeps that are not cancelled.");
    with_scope(resume);
    resume->add_flag("--cancelled", o_.cancelled,
                     "Also resume trials that were cancelled by name or by --where.");
    CLI::App* cancel =
        command("cancel", "Cancel sweeps or trials; ended trials stay as they are.");
    with_names(cancel, "Sweeps or trials.");
    with_scope(cancel);
    CLI::App* rerun =
        command("rerun", "Measure ended trials again; old results stay until then.");
    with_names(rerun, "Sweeps or trials.");
    with_scope(rerun);
    CLI::App* remove =
        command("delete", "Delete sweeps that have ended: trials, measurements and files.");
    with_names(remove, "Sweeps.");
    with_dry_run(remove);
  }
  void with_dry_run(CLI::App* sub) {
    sub->add_flag("--dry-run", o_.dry_run, "Say what would happen, and change nothing.");
  }
  void with_scope(CLI::App* sub) {
    with_where(sub);
    // A shell variable that is empty must not mean everything.
    sub->get_option("--where")->check([](const std::string& text) {
      const bool blank = text.find_first_not_of(" \t\n\r") == std::string::npos;
      return blank ? std::string("is blank. Write an expression, or leave --where out") : "";
    });
    sub->add_flag("--all", o_.every_sweep, "Every sweep of the database, in place of names.");
    with_dry_run(sub);
  }

  void add_logs() {
    CLI::App* logs = command("logs", "Print what the ranks of an attempt have printed.");
    logs->add_option("name", o_.names,
                     "Trial or attempt (SLUG.2). A trial means its last attempt. A terminal "
                     "gets control characters as \\xNN, a pipe or a file the raw bytes.")
        ->required()
        ->expected(1)
        ->type_name("TRIAL");
    logs->add_option("--rank", o_.logs.rank,
                     "Rank to print, or all with a prefix. Default: 0, or the first rank that "
                     "has printed anything.")
        ->type_name("N");
    logs->add_option("--lines", o_.logs.lines, "Only the last N lines of each log.")
        ->check(whole_number(0, 1'000'000'000))
        ->type_name("N");
    logs->add_flag("--follow", o_.logs.follow, "Print new lines until the attempt ends.");
    logs->add_flag("--list", o_.logs.list, "List the attempt's files instead.");
    logs->add_option("--file", o_.file, "Print this file of the attempt instead of a log.")
        ->type_name("FILE");
    with_format(logs);
  }

  void add_result_commands() {
    CLI::App* show = command("show", "Show trials or sweeps: attempts, causes, files.");
    show->add_option("names", o_.names, "Sweeps, slugs, attempts or job ids.")
        ->required()
        ->type_name("NAME");
    with_format(show);

    CLI::App* results = command("results", "Print one row per trial.");
    with_selection(results);
    with_format(results);
    results
        ->add_option("--columns", o_.results.columns,
                     "Columns to show, separated by commas, or all. csv and json have all.")
        ->delimiter(',')
        ->type_name("COLUMN");
    results
        ->add_option("--sort", o_.results.sort, "Column to sort by; -COLUMN sorts downwards.")
        ->type_name("COLUMN");
    results
        ->add_option_function<std::string>(
            "--limit", [this](const std::string& text) { set_limit(text); },
            "Most rows to print.")
        ->type_name("N");
    results->add_flag("--measured", o_.results.measured, "Only completed trials.");

    CLI::App* query = command("query", "Run one SELECT over the database, read-only.");
    query
        ->add_option(
            "sql", o_.results.sql,
            "The statement. `shardsweep help columns` lists the views and their columns.")
        ->required()
        ->type_name("SQL");
    with_format(query);

    CLI::App* best =
        command("best", "Show the fastest layout per model, sequence length and size.");
    with_selection(best);
    with_format(best);
    with_emit(best, o_);

    CLI::App* explain =
        command("explain", "Show where a trial's step and memory go, beside the plan.");
    explain->add_option("names", o_.names, "Trials: slugs, attempts or job ids.")
        ->required()
        ->type_name("TRIAL");
    with_format(explain);

    add_compare_command();
    with_format(with_extrapolate(command("extrapolate", extrapolate_help), o_));
    add_frontier_command();
    add_picture_commands();
  }

  void add_compare_command() {
    CLI::App* compare = with_compare(command("compare", compare_help), o_);
    with_where(compare);
    with_format(compare);
    with_output(compare);
  }

  void add_frontier_command() {
    CLI::App* frontier =
        command("frontier", "Show which layouts no other one beats in speed and cost.");
    with_selection(frontier);
    with_format(frontier, {"svg", "png"});
    with_output(frontier);
    with_choices(frontier
                     ->add_option("--by", o_.by,
                                  "Cost that speed is held against: memory of a GPU within a "
                                  "cell, or nodes.")
                     ->capture_default_str()
                     ->type_name("COST")
                     ->check(CLI::IsMember({"memory", "nodes"})),
                 {"memory", "nodes"});
  }

  void add_picture_commands() {
    CLI::App* heatmap = command("heatmap", "Show a metric over two axes.");
    with_selection(heatmap);
    with_format(heatmap, {"svg", "png", "html"});
    with_output(heatmap);
    heatmap->add_option("--rows", o_.heatmap.rows, "Axis of the rows.")
        ->capture_default_str()
        ->type_name("AXIS");
    heatmap
        ->add_option("--cols", o_.heatmap.cols,
                     "Axis of the columns. Default: nodes, or gpus if the sweep sets gpus.")
        ->type_name("AXIS");
    heatmap->add_option("--value", o_.heatmap.value, "Metric to show, or outcome.")
        ->capture_default_str()
        ->type_name("METRIC");
    with_choices(
        heatmap
            ->add_option("--aggregate", o_.heatmap.aggregate,
                         "What a cell shows of its layouts: best, median, p90 or count.")
            ->capture_default_str()
            ->type_name("WORD")
            ->check(CLI::IsMember({"best", "median", "p90", "count"})),
        {"best", "median", "p90", "count"});
    heatmap
        ->add_option("--facet", o_.heatmap.facet,
                     "Column with a heatmap of its own for each of its values.")
        ->type_name("COLUMN");
    heatmap->add_flag("--long", o_.heatmap.long_form,
                      "With csv: one line per cell, with layout and status.");

    CLI::App* report = command("report", "Write all that was found as one page (HTML).");
    with_selection(report);
    with_output(report);
    report
        ->add_option("--note", o_.report.note,
                     "Sentence at the top of the page, such as where its data comes from.")
        ->type_name("TEXT");
    report->add_flag("--live", o_.report.live,
                     "Write the file again and again until the sweeps have ended, or Ctrl-C.");
    report
        ->add_option("--every", o_.report.every,
                     "Time between two writes of --live: 10s, 5min.")
        ->capture_default_str()
        ->type_name("DURATION");

    CLI::App* save = command("export", "Write a copy of the database, or the results.");
    save->add_option(
            "file", o_.file,
            "File to write: .csv, .json (the results), .md (a table for pull requests), "
            ".db or .sqlite (everything). Default: standard output.")
        ->type_name("FILE");
    const auto take = [this](const std::string& word) { o_.format_given = o_.set_form(word); };
    with_choices(save->add_option_function<std::string>("--format", take, export_format_help)
                     ->type_name("FORMAT")
                     ->check(CLI::IsMember(export_forms)),
                 export_forms);
    with_where(save);
  }

  void with_recorded_file(CLI::App* sub) {
    sub->add_option("file", o_.file, "Table of runs (CSV).")->required()->type_name("FILE");
    with_choices(sub->add_option("--from", o_.recorded.from,
                                 "Kind of table: csv (our column names) or nanotron.")
                     ->capture_default_str()
                     ->type_name("KIND"),
                 {"csv", "nanotron"});
    sub->add_option("--cluster", o_.asked.cluster,
                    "Preset of the cluster of these runs. Default for nanotron: h100-8x.")
        ->type_name("PRESET");
    with_family(sub, "Family of the trainer. Default for nanotron: nanotron.");
    sub->add_option("--where", o_.where,
                    "Only rows for which this expression holds. It may use axes, model "
                    "shape, outcome, metrics, software_version and the table's columns.")
        ->type_name("EXPR");
    with_format(sub);
  }

  void add_recorded_commands() {
    CLI::App* replay =
        command("replay", "Run a search against a recorded sweep, and score the search.");
    with_recorded_file(replay);
    with_choices(replay->add_option("--policy", o_.recorded.policy, "best_first or exhaustive.")
                     ->capture_default_str()
                     ->type_name("POLICY"),
                 {"best_first", "exhaustive"});
    replay
        ->add_option("--until", o_.recorded.until,
                     "End of a cell's search: regret=1%,confidence=95% or runs=N or "
                     "gpu_hours=H. Default: its last point.")
        ->type_name("LIMITS");
    replay
        ->add_option("--start", o_.recorded.start_cost,
                     "Start-up of a launch, before its first train step. Default: 60s.")
        ->type_name("DURATION");
    replay
        ->add_option("--oom-cost", o_.recorded.oom_cost,
                     "What a launch takes that runs out of memory. Default: as --start.")
        ->type_name("DURATION");
    with_choices(
        replay
            ->add_option("--without-rule", o_.recorded.without_rules,
                         "Switch a rule off: micro_batch, grad_accum, memory. Repeatable.")
            ->type_name("RULE"),
        {"micro_batch", "grad_accum", "memory"});
    replay
        ->add_option("--cut-short", o_.recorded.cut_short,
                     "End a run early whose train steps take so many times as long as the "
                     "best's, or off. Default: 1.2 with best_first.")
        ->type_name("FACTOR");
    replay->add_flag("--cells-alone", o_.recorded.cells_alone,
                     "Let each cell learn from its own runs alone.");
    replay->add_flag("--explain", o_.plan.explain,
                     "Print each launch with its reason, and each row left out with its rule.");
    replay->add_flag("--cross-validate", o_.recorded.cross_validate,
                     "Also score the time model refitted to the other models' rows.");
    CLI::App* import_table =
        command("import", "Take a table of runs into the database, like a sweep.");
    with_recorded_file(import_table);
    import_table
        ->add_option("--name", o_.recorded.name,
                     "Name of the new sweep. Default: the file's name without its ending.")
        ->type_name("NAME");
    CLI::App* evaluate =
        command("evaluate-memory", "Compare predicted memory with a recorded sweep.");
    with_recorded_file(evaluate);
    evaluate->add_flag("--cross-validate", o_.recorded.cross_validate,
                       "Score each model with constants fitted to the other models' rows.");
    with_format(with_read_log(bare_command("read-log", read_log_help), o_));
  }

  void add_other_commands() {
    CLI::App* nodes =
        command("nodes", "Show the nodes that have run something, and their state.");
    with_format(nodes);
    nodes->add_option("--clear", o_.clear, "Trust this node again.")->type_name("NODE");
    add_daemon();
    command("tick", "Run one pass of the daemon, for cron.");
    CLI::App* doctor = command("doctor", "Check this installation, its home and its backends.");
    with_format(doctor);
    with_site(doctor, "Site file. Default: ~/.config/shardsweep/site.yaml.");
    doctor->add_flag("--on-a-node", o_.on_a_node,
                     "Submit a small job that checks the home and shardbench on a node.");
    with_init(command("init", init_help), o_);
    CLI::App* selftest = with_selftest(command("selftest", selftest_help), o_);
    with_backend(selftest);
    with_format(selftest);
    CLI::App* gc = command("gc", "List files of ended attempts that may be removed.");
    gc->add_option("--older-than", o_.garbage.older_than,
                   "Keep younger files: 30d, 12h, 5min, 0s.")
        ->capture_default_str()
        ->type_name("AGE");
    gc->add_flag("--remove", o_.garbage.remove, "Remove them.");
    gc->add_flag("--verbose", o_.garbage.verbose, "List each file and folder.");
    with_format(gc);
    add_presets_and_help();
  }

  void add_daemon() {
    CLI::App* daemon = command("daemon", "Run the daemon in the foreground.");
    daemon->add_flag("--until-idle", o_.daemon.until_idle, "End when nothing is left to do.");
    daemon->add_flag("--take-over", o_.daemon.take_over,
                     "Replace a daemon that is stopped or out of reach.");
    daemon->add_flag("--in-slurm", o_.daemon.in_slurm,
                     "Run the daemon as a job of one core. It submits its successor in time.");
    with_site(daemon, "Site file of that job. Default: ~/.config/shardsweep/site.yaml.");
    daemon
        ->add_option("--job-option", o_.daemon.job_options,
                     "An sbatch option of that job, such as time=12:00:00. Repeatable.")
        ->type_name("OPTION=VALUE");
    daemon->add_option("--as-job", o_.daemon.as_job)->group("");  // what that job's script says
    daemon
        ->add_option("--set", o_.set,
                     "An interval of the daemon, such as daemon.tick=2s. Repeatable.")
        ->type_name("KEY=VALUE");
  }

  void add_presets_and_help() {
    CLI::App* presets =
        bare_command("presets", "List built-in models, clusters and sweeps, or print one.");
    presets->add_option("name", o_.names, "Preset to print. Default: list all.")
        ->type_name("PRESET");
    with_format(presets);
    CLI::App* names = command("names", names_help);
    with_choices(names->add_option("kind", o_.help.kind, names_kind_help)
                     ->type_name("KIND")
                     ->check(CLI::IsMember(name_kinds)),
                 name_kinds);
    with_format(names);
    CLI::App* help = bare_command("help", "Explain a command, or the keys of a sweep file.");
    help->add_option("topic", o_.names,
                     "A command, or keys, axes, units, site, schema, columns. Default: all "
                     "commands.")
        ->type_name("TOPIC")
        ->expected(0, 1);
    help->add_flag("--markdown", o_.help.markdown,
                   "Print keys, axes, units, site or columns as Markdown.");
    help->add_flag("--man", o_.help.man, "Print the manual page (roff).");
    with_choices(help->add_option("--completion", o_.help.shell,
                                  "Print the completion script of a shell: bash, zsh, fish.")
                     ->type_name("SHELL")
                     ->check(CLI::IsMember({"bash", "zsh", "fish"})),
                 {"bash", "zsh", "fish"});
  }

  void set_limit(const std::string& text) {
    std::int64_t limit = 0;
    const auto* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, limit);
    if (read.ec != std::errc() || read.ptr != end || limit < 1) {
      throw CLI::ValidationError("--limit",
                                 "'" + text +
                                     "' is not a number of rows; write 1 or more, or "
                                     "leave --limit out for all rows");
    }
    o_.results.limit = limit;
  }
};

}  // namespace

Parsed parse_arguments(int argc, char** argv) {
  Options options;
  return Grammar(options).parse(argc, argv);
}

CommandLine describe_command_line() {
  Options options;
  return Grammar(options).describe();
}

}  // namespace shardsweep
