// SPDX-License-Identifier: Apache-2.0
// From a sweep file on the command line to a judged plan, and to the backend that may run it.
#include "cli/passing.hpp"
#include "cli/session.hpp"
#include "cli/telling.hpp"
#include "cli/trainer_tree.hpp"
#include "fleet/decide.hpp"
#include "machine/checked_folder.hpp"
#include "plan/plan.hpp"
#include "slurm/words/options.hpp"
#include "slurm/words/survey.hpp"
#include "sweep/launch.hpp"
#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/filter.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/rank_variables.hpp>

#include <fmt/format.h>

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

constexpr int slots_without_here = 4;
constexpr std::size_t longest_source = 4 << 20;

/// Interpreters begin with a trace and end with the mistake.
std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const std::size_t begin = text.find_last_of('\n');
  return std::string(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

/// Answer of a program to `--capabilities`; none if it prints no JSON object, as it does not know
/// the flag. `silent` says why there is none, in a sentence.
Result<std::optional<Capabilities>> ask_runner(
    const std::string& program, const RunnerSpec& runner, std::string& silent) {
  std::vector<std::string> question{program, "--capabilities"};
  // A trainer's habits leave layouts out.
  if (runner.profile != own_profile) question.insert(question.end(), {"--profile", runner.profile});
  const auto output =
      run_command(question, {.deadline = std::chrono::seconds(20), .output_limit = 1 << 20});
  if (!output && output.error().kind != FaultKind::timed_out)
    return tl::unexpected<Fault>(output.error());
  if (!output) {
    silent = output.error().what;
    return std::optional<Capabilities>();
  }
  const std::size_t begin = output->out.find_first_not_of(" \t\r\n");
  const bool answers = begin != std::string::npos && output->out[begin] == '{';
  if (output->exit_code != 0 || !answers) {
    const std::string said = last_line(output->err).substr(0, 200);
    silent = fmt::format("'{} --capabilities' ended with {}{}{}{}", program, output->exit_code,
        output->exit_code == 0 ? " and printed no JSON" : "", said.empty() ? "" : ": ", said);
    return std::optional<Capabilities>();
  }
  auto capabilities = parse_capabilities(output->out);
  if (!capabilities)
    return tl::unexpected<Fault>(capabilities.error().in(program + " --capabilities"));
  return *std::move(capabilities);
}

Capabilities unknown_runner(const SweepSpec& sweep) {
  Capabilities unknown;
  unknown.runner = sweep.runner.known_as();
  unknown.version = "unknown";
  // A shardbench that is not here to be asked is the shipped one, which takes --give-up-above.
  unknown.gives_up = sweep.runner.program.empty() && sweep.runner.is_shardbench();
  return unknown;
}

/// A trainer as it is can't be asked: its sweep file says what it is, and ours what it starts.
Capabilities trainer_capabilities(const SweepSpec& sweep) {
  Capabilities said = unknown_runner(sweep);
  const TrainerSpec& trainer = sweep.runner.trainer;
  if (!trainer.version.empty()) said.version = trainer.version;
  for (const TrainerRule& rule : trainer_file(trainer.log).rules)
    said.rules.push_back({"runner:" + trainer.log, rule.when, rule.why});
  return said;
}

/// Name and abilities of a sweep's runner. A runner that does not say goes by its file's name. No
/// layout is left out on its behalf, and the notes say so.
Result<Capabilities> capabilities_of(
    const Session& session, const SweepSpec& sweep, std::vector<std::string>& notes) {
  if (sweep.runner.is_trainer()) return trainer_capabilities(sweep);
  const std::string program = runner_program(sweep, session.installation.runner.string());
  const std::string file = program.substr(program.rfind('/') + 1);
  const bool named = !sweep.runner.program.empty();
  const bool ours = !named && sweep.cluster.this_machine;
  const auto refused = "layouts that it would refuse are still counted";
  std::error_code ignored;
  if (!named && !ours && !std::filesystem::exists(program, ignored)) {
    notes.push_back(fmt::format(
        "The runner {} is not on this machine, so the plan may count layouts that it would refuse.",
        file));
    return unknown_runner(sweep);
  }
  std::string silent;
  SHARDSWEEP_ASSIGN(const auto asked, ask_runner(program, sweep.runner, silent));
  if (asked) return *asked;
  if (ours) return fault(FaultKind::unavailable, silent);
  Capabilities unknown = unknown_runner(sweep);
  notes.push_back(named ? fmt::format("the runner {} does not answer --capabilities ({}). Results "
                                      "record it as '{}', version 'unknown'; {}.",
                              file, silent, unknown.runner, refused)
                        : fmt::format("{} can't be asked here ({}); {}.", file, silent, refused));
  return unknown;
}

std::vector<std::string> expressions_of(const std::vector<ExcludeRule>& rules) {
  std::vector<std::string> expressions;
  expressions.reserve(rules.size());
  for (const ExcludeRule& rule : rules)
    expressions.push_back(rule.when);
  return expressions;
}

Result<std::unique_ptr<PointFilter>> compile_rules(
    const SweepSpec& sweep, const Capabilities& runner) {
  std::vector<std::string> expressions;
  for (const RunnerRule& rule : runner.rules)
    expressions.push_back(rule.when);
  auto filter = compile_filter(sweep, expressions);
  if (!filter) return tl::unexpected<Fault>(filter.error().in("rules of runner " + runner.runner));
  return filter;
}

/// sbatch of this machine, asked about options of a site file: its help once, and itself for
/// each option that the help lacks.
class OptionDesk {
 public:
  OptionAnswer ask(const std::string& option) {
    if (!help_) help_ = listed();
    if (help_->empty()) return {};
    if (std::find(help_->begin(), help_->end(), option) != help_->end()) return {true, {}};
    const auto said = run_command(slurm::option_question(option), {});
    if (!said) return {};
    return {!slurm::lacks_option(said->err), *help_};
  }
  /// Tells if an option was asked about, and there is no sbatch or none that answers.
  [[nodiscard]] bool is_closed() const { return help_ && help_->empty(); }

 private:
  static std::vector<std::string> listed() {
    if (find_on_path("sbatch").empty()) return {};
    const auto help = run_command({"sbatch", "--help"}, {});
    return help && help->exit_code == 0 ? slurm::parse_options(help->out)
                                        : std::vector<std::string>();
  }

  std::optional<std::vector<std::string>> help_;
};

Result<SiteSpec> load_site_file(const Session& session, std::vector<std::string>& notes) {
  const std::filesystem::path file = site_file_of(session);
  std::error_code ignored;
  if (session.options.site.empty() && !std::filesystem::exists(file, ignored)) return SiteSpec{};
  SHARDSWEEP_TRY(check_configuration(file));
  OptionDesk desk;
  SHARDSWEEP_ASSIGN(SiteSpec site,
      load_site(file, [&desk](const std::string& option) { return desk.ask(option); }));
  if (desk.is_closed())
    notes.push_back(
        fmt::format("options under 'slurm' in {} are not checked: 'sbatch --help' gives no answer "
                    "on this machine.",
            file.string()));
  return site;
}

Result<std::string> read_standard_input() {
  std::string text(longest_source + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stdin));
  if (std::ferror(stdin) != 0)
    return fault(FaultKind::unavailable, "standard input: {}", std::strerror(errno));
  // The loader refuses what is longer.
  return text;
}

/// Replaces names that the site file passes on by this shell's values, since a daemon's environment
/// is another one.
void pass_environment(SiteSpec& site) {
  for (const std::string& name : site.pass_env) {
    const char* value = ::getenv(name.c_str());
    if (value != nullptr) site.env.emplace(name, value);
  }
  site.pass_env.clear();
}

/// Fault of a sweep that needs Slurm if there is none, with what to do about it.
Fault no_slurm(const Session& session, const SweepSpec& sweep, const SiteSpec& site, Fault why) {
  // A site file that says so was written where Slurm is.
  const std::string next = site.backend == Backend::slurm
      ? "Run this on that cluster's login node, or try again when Slurm answers."
      : fmt::format(
            "On that cluster's login node write 'backend: slurm', account and partition into {}.",
            site_file_of(session).string());
  return {why.kind,
      fmt::format("'{}' is a sweep for cluster '{}', and {}. {} To run it on this machine instead: "
                  "--backend local --here.",
          sweep.name, sweep.cluster.name, why.what, next)};
}

}  // namespace

Backend stated_backend(const Options& options, const SiteSpec& site) {
  if (options.backend != Backend::none) return options.backend;
  if (site.backend != Backend::none) return site.backend;
  return find_on_path("sbatch").empty() ? Backend::none : Backend::slurm;
}

std::filesystem::path site_file_of(const Session& session) {
  if (!session.options.site.empty()) return session.options.site;
  return user_folder() / "site.yaml";
}

Result<SweepSpec> load_sweep_file(const Session& session, std::string* source) {
  const LoadOptions how{.presets = session.installation.presets,
      .set = session.options.set,
      .programs = session.installation.runner.parent_path()};
  // A piped file has no folder: paths in it begin here.
  const std::string& file = session.options.file;
  const bool piped = file == "-";
  SHARDSWEEP_ASSIGN(std::string text, piped ? read_standard_input() : read_sweep_text(file));
  fail_point("sweep.read");
  SHARDSWEEP_ASSIGN(SweepSpec sweep, load_sweep_text(text, piped ? "standard input" : file, how));
  if (source != nullptr) *source = std::move(text);
  return sweep;
}

Result<PlannedSweep> plan_sweep(const Session& session, SweepSpec sweep) {
  PlannedSweep planned;
  planned.sweep = std::move(sweep);
  planned.passed = take_variables(planned.sweep, own_environment());
  const auto in_words = secrets_in_words(planned.sweep, planned.passed.values);
  if (!in_words.empty()) planned.notes.push_back(secrets_in_words_text(in_words));
  SHARDSWEEP_ASSIGN(planned.capabilities, capabilities_of(session, planned.sweep, planned.notes));
  planned.sweep.runner.gives_up = planned.capabilities.gives_up;
  SHARDSWEEP_ASSIGN(
      const auto excludes, compile_filter(planned.sweep, expressions_of(planned.sweep.excludes)));
  SHARDSWEEP_ASSIGN(const auto rules, compile_rules(planned.sweep, planned.capabilities));
  SHARDSWEEP_ASSIGN(planned.plan,
      make_plan(planned.sweep, planned.capabilities,
          planned.sweep.excludes.empty() ? nullptr : excludes.get(),
          planned.capabilities.rules.empty() ? nullptr : rules.get()));
  planned.notes.insert(
      planned.notes.end(), planned.plan.warnings.begin(), planned.plan.warnings.end());
  if (auto missing = missing_script_text(planned.sweep); !missing.empty())
    planned.notes.push_back(std::move(missing));
  if (auto launcher = launcher_text(planned.sweep); !launcher.empty())
    planned.notes.push_back(std::move(launcher));
  if (auto believed = believed_text(planned.sweep, planned.plan.trials); !believed.empty())
    planned.notes.push_back(std::move(believed));
  planned.refusal = wrong_tree_text(planned.sweep);
  if (planned.refusal.empty())
    planned.refusal = uncomputed_text(planned.sweep, planned.plan.trials);
  if (planned.refusal.empty())
    planned.refusal = untold_text(planned.sweep, untold_axes(planned.sweep, planned.plan.trials));
  if (planned.refusal.empty()) planned.refusal = untold_model_text(planned.sweep);
  return planned;
}

Result<PlannedSweep> plan_file(const Session& session) {
  std::string source;
  SHARDSWEEP_ASSIGN(SweepSpec sweep, load_sweep_file(session, &source));
  SHARDSWEEP_ASSIGN(PlannedSweep planned, plan_sweep(session, std::move(sweep)));
  planned.source = std::move(source);
  return planned;
}

Result<SiteAccess> read_site(const Session& session) {
  SiteAccess access;
  SHARDSWEEP_ASSIGN(access.site, load_site_file(session, access.notes));
  if (const std::string& nodes = session.options.asked.nodelist; !nodes.empty())
    access.site.slurm["nodelist"] = {SlurmValue{.value = nodes}};
  access.identity_env = access.site.env;
  access.passed = access.site.pass_env;
  pass_environment(access.site);
  access.secrets = take_secrets(access.site);
  // A key that is renewed makes no trial new.
  for (auto& [name, value] : access.identity_env) {
    if (access.secrets.contains(name)) value.clear();
  }
  // Settings of the shell belong to the identity. Other variables, such as a login's, change no
  // number.
  for (const auto& [name, value] : access.site.env) {
    if (is_setting(name)) access.identity_env.emplace(name, value);
  }
  const std::string& named = access.site.job_template;
  if (!named.empty() && named.front() == '/') {
    SHARDSWEEP_TRY(check_configuration(named));
    SHARDSWEEP_ASSIGN(access.job_template, read_file(named, longest_source));
    access.job_template_name = named;
    return access;
  }
  access.job_template_name = named.empty() ? "lane.sbatch" : named;
  SHARDSWEEP_ASSIGN(
      auto shipped, read_job_template(session.installation.templates, access.job_template_name));
  access.job_template = std::move(shipped.text);
  return access;
}

namespace {

/// The site file of the user's own folder is about a cluster and says nothing about this
/// machine. One that is named is meant: its environment, container and notices hold here, too.
Result<SiteAccess> this_machine_site(const Session& session) {
  if (session.options.site.empty()) return SiteAccess{.backend = Backend::local};
  SHARDSWEEP_ASSIGN(SiteAccess access, read_site(session));
  using Lines = std::pair<const char*, const std::vector<std::string>*>;
  for (const auto& [key, lines] : {Lines("prolog", &access.site.prolog),
           Lines("before", &access.site.before), Lines("after", &access.site.after)}) {
    if (!lines->empty())
      return fault(FaultKind::invalid_input,
          "{} has '{}': these lines run in jobs of Slurm and not on this machine. Name a site file "
          "without them, or leave --site out.",
          site_file_of(session).string(), key);
  }
  access.backend = Backend::local;
  return access;
}

}  // namespace

std::optional<SiteAccess> site_of_plan(const Session& session, PlannedSweep& planned) {
  const bool here = session.options.here || session.options.backend == Backend::local;
  if (planned.sweep.cluster.this_machine || here) return std::nullopt;
  auto access = read_site(session);
  if (!access && planned.refusal.empty()) planned.refusal = access.error().what;
  if (!access || access->site.backend == Backend::local) return std::nullopt;
  say_notes(access->notes);
  return *std::move(access);
}

namespace {

/// Access to a sweep whose points are handed out one by one (`next`), to any process that asks.
Result<SiteAccess> outside_access(const Session& session, const SweepSpec& sweep) {
  const auto refuse = [&](std::string_view key, std::string_view why) {
    return fault(FaultKind::invalid_input,
        "'{}' has the key {}, but {}. Remove the key to hand its points out (--backend outside).",
        sweep.name, key, why);
  };
  if (sweep.measure.finalists > 0)
    return refuse("measure.finalists", "finals run in a job that shardsweep starts itself");
  if (sweep.side_runs.profile)
    return refuse("profile", "the profiler runs in a job that shardsweep starts itself");
  if (sweep.side_runs.memory)
    return refuse(
        "memory_snapshot", "the run that writes it is in a job that shardsweep starts itself");
  if (sweep.prove)
    return refuse("prove", "single ranks run in a job that shardsweep starts itself");
  SHARDSWEEP_ASSIGN(SiteAccess access, this_machine_site(session));
  access.backend = Backend::outside;
  return access;
}

Result<SiteAccess> this_machine_access(const Session& session, const SweepSpec& sweep) {
  const Options& options = session.options;
  if (sweep.cluster.gpus_per_node > slots_without_here && !options.here) {
    return fault(FaultKind::invalid_input,
        "'{}' asks for {} slots of this machine; more than {} need --here", sweep.name,
        sweep.cluster.gpus_per_node, slots_without_here);
  }
  if (options.backend == Backend::slurm) {
    return fault(FaultKind::invalid_input,
        "'{}' has cluster 'this-machine', which is never Slurm. Remove --backend slurm, or name "
        "another cluster in the sweep file.",
        sweep.name);
  }
  return this_machine_site(session);
}

}  // namespace

Result<SiteAccess> choose_backend(const Session& session, const SweepSpec& sweep) {
  const Options& options = session.options;
  if (options.backend == Backend::outside) return outside_access(session, sweep);
  if (sweep.cluster.this_machine) return this_machine_access(session, sweep);
  SHARDSWEEP_ASSIGN(SiteAccess access, read_site(session));
  access.backend = stated_backend(options, access.site);
  if (access.backend == Backend::none) {
    return fault(FaultKind::invalid_input,
        "no site file says how to reach cluster '{}'. On its login node write 'backend: slurm' "
        "into {}. To run it on this machine: --backend local --here.",
        sweep.cluster.name, site_file_of(session).string());
  }
  if (access.backend == Backend::slurm) {
    if (!access.site.rest.url.empty()) return access;
    if (const auto probed = probe_slurm(); !probed)
      return tl::unexpected<Fault>(no_slurm(session, sweep, access.site, probed.error()));
    return access;
  }
  if (options.here) return this_machine_site(session);
  return fault(FaultKind::invalid_input,
      "'{}' is a sweep for cluster '{}'; to run it on this machine, add --backend local --here",
      sweep.name, sweep.cluster.name);
}

namespace {

/// Adds the site's variables. A variable of the sweep file overrules the site's.
void put_on_this_machine(PlannedSweep& planned, const SiteAccess& access) {
  SweepSpec& sweep = planned.sweep;
  const auto is_passed = [&](const std::string& name) {
    return std::any_of(sweep.pass_env.begin(), sweep.pass_env.end(),
        [&](const auto& entry) { return is_passed_by(entry, name); });
  };
  for (const auto& [name, value] : access.site.env) {
    if (sweep.secrets.contains(name) || is_passed(name)) continue;
    if (access.identity_env.contains(name)) {
      sweep.env.emplace(name, value);
    } else {
      planned.passed.values.emplace(name, value);
    }
  }
}

/// Adds the site's causes. If two have one name, the sweep's holds.
Result<void> add_causes(std::vector<Cause>& rules, const std::vector<Cause>& of_site) {
  for (const Cause& cause : of_site) {
    const auto same = [&](const Cause& own) { return own.name == cause.name; };
    if (std::none_of(rules.begin(), rules.end(), same)) rules.push_back(cause);
  }
  if (rules.size() <= most_causes) return {};
  return fault(FaultKind::invalid_input,
      "{} rules in 'classify' of the sweep file and the site file; the limit is {}", rules.size(),
      most_causes);
}

}  // namespace

Result<void> add_site(PlannedSweep& planned, const SiteAccess& access) {
  planned.sweep.container = joined(planned.sweep.container, access.site);
  SHARDSWEEP_TRY(add_causes(planned.sweep.rules, access.site.rules));
  planned.site_env = access.identity_env;
  // A Slurm job gets these variables from its script.
  if (access.backend != Backend::slurm) put_on_this_machine(planned, access);
  if (planned.sweep.remeasure.on == RemeasureOn::image)
    SHARDSWEEP_TRY(check_watched_image(planned.sweep.container));
  return check_container(planned.sweep.container, access.site.launch);
}

// ---- points that a command line names
// ---------------------------------------------------------

namespace {

using Fits = std::function<bool(const Point&)>;

Result<Fits> condition(const SweepSpec& sweep, std::string_view name, std::string value) {
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    if (sweep.vars[i].name != name) continue;
    return [&values = sweep.vars[i].values, i, value = std::move(value)](const Point& point) {
      return values.at(static_cast<std::size_t>(point.vars.at(i))) == value;
    };
  }
  const AxisInfo* axis = find_axis(name);
  if (axis == nullptr) {
    std::vector<std::string_view> names;
    for (const AxisInfo& one : axes())
      names.push_back(one.name);
    return fault(FaultKind::invalid_input,
        "no axis is called {}{} Write a point as its number, or as values such as "
        "tp=2,micro_batch=4.",
        in_quotes(name), nearest(name, names).empty() ? "." : did_you_mean(name, names));
  }
  return [axis, &sweep, value = std::move(value)](const Point& point) {
    if (axis->kind == AxisKind::model)
      return sweep.models.at(static_cast<std::size_t>(point.model)).name == value;
    return axis_text(*axis, axis->get(point)) == value;
  };
}

Result<std::vector<Fits>> conditions(const SweepSpec& sweep, const std::string& text) {
  std::vector<Fits> all;
  for (const std::string_view piece : split(text, ',')) {
    const auto equals = piece.find('=');
    if (equals == std::string_view::npos)
      return fault(FaultKind::invalid_input,
          "{} is not a point; write its number, or values such as tp=2,micro_batch=4",
          in_quotes(text));
    SHARDSWEEP_ASSIGN(Fits fits,
        condition(sweep, trimmed(piece.substr(0, equals)),
            std::string(trimmed(piece.substr(equals + 1)))));
    all.push_back(std::move(fits));
  }
  return all;
}

}  // namespace

Result<std::vector<const PlannedTrial*>> points_meant(
    const PlannedSweep& planned, const std::string& text) {
  const auto& trials = planned.plan.trials;
  std::vector<const PlannedTrial*> found;
  if (const auto number = number_from<std::size_t>(text)) {
    if (*number < 1 || *number > trials.size())
      return fault(FaultKind::invalid_input, "the plan has trials 1 to {}, but no {}",
          trials.size(), *number);
    return std::vector<const PlannedTrial*>{&trials[*number - 1]};
  }
  std::vector<Fits> wanted;
  if (!text.empty()) SHARDSWEEP_SET(wanted, conditions(planned.sweep, text));
  for (const PlannedTrial& trial : trials) {
    if (std::all_of(
            wanted.begin(), wanted.end(), [&](const Fits& fits) { return fits(trial.point); }))
      found.push_back(&trial);
  }
  if (found.empty())
    return fault(FaultKind::invalid_input,
        "no trial of the plan has {}; 'shardsweep plan {}' lists them",
        text.empty() ? "a point" : text, planned.sweep.name);
  return found;
}

// Points that no partition can hold, before they are submitted: by what sinfo says, and by the
// rules by which a daemon does not ask for their jobs.

namespace {

namespace fs = std::filesystem;

constexpr auto answer_limit = std::chrono::seconds(5);
constexpr auto kept_for = std::chrono::minutes(10);

/// First line of the kept answer: it names the Slurm that was asked.
std::string asked_of() {
  std::string line = "#";
  for (const char* name : {"SLURM_CONF", "SLURM_CLUSTERS"}) {
    const char* value = ::getenv(name);
    line += fmt::format(" {}={}", name, value == nullptr ? "" : value);
  }
  return line + '\n';
}

/// Answer of sinfo, kept beside the database for ten minutes; empty if there is none.
std::string partitions_text(const Session& session) {
  const fs::path kept = session.home.dir() / "sinfo";
  const std::string head = asked_of();
  std::error_code error;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(kept, error);
  if (!error && age >= age.zero() && age < kept_for) {
    const auto text = read_own_file(kept, std::size_t{1} << 20);
    if (text && text->starts_with(head)) return text->substr(head.size());
  }
  const auto said = run_command(slurm::partitions_command(), {.deadline = answer_limit});
  if (!said || said->exit_code != 0) return "";
  // A failed write only costs another call of sinfo. Without a database there is no folder to keep
  // it in.
  if (fs::exists(session.home.dir(), error)) (void)write_own_file(kept, head + said->out);
  return said->out;
}

}  // namespace

std::vector<std::string> beyond_partitions(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access) {
  if (stated_backend(session.options, access.site) != Backend::slurm ||
      !access.site.rest.url.empty())
    return {};
  SweepFacts facts;
  if (!slurm::read_partitions(partitions_text(session), facts.site)) return {};
  add_options(planned.sweep, access.site, facts);
  struct Beyond {
    std::int64_t trials = 0;
    double least_s = 0;
  };
  std::map<std::int32_t, Beyond> too_large;
  std::map<std::int32_t, Beyond> too_long;
  for (const PlannedTrial& trial : planned.plan.trials) {
    const std::int32_t nodes = std::max(1, trial.point.nodes);
    const double least_s = least_time_s(trial.prediction.attempt_s, planned.sweep.policy);
    const bool large = beyond_partition(facts, nodes).has_value();
    if (!large && !beyond_time(facts, nodes, least_s)) continue;
    Beyond& beyond = (large ? too_large : too_long)[nodes];
    ++beyond.trials;
    beyond.least_s = std::max(beyond.least_s, least_s);
  }
  std::vector<std::string> notes;
  const auto note = [&](std::int64_t trials, const std::optional<std::string>& why) {
    notes.push_back(fmt::format("{} of {} can't start and would wait for ever: {} {}. {}.", trials,
        counted(std::ssize(planned.plan.trials), "trial"), trials == 1 ? "it needs" : "they need",
        why.value_or(""), beyond_advice));
  };
  for (const auto& [nodes, beyond] : too_large)
    note(beyond.trials, beyond_partition(facts, nodes));
  for (const auto& [nodes, beyond] : too_long)
    note(beyond.trials, beyond_time(facts, nodes, beyond.least_s));
  return notes;
}

}  // namespace shardsweep
