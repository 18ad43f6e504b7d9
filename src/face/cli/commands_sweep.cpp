// SPDX-License-Identifier: Apache-2.0
// plan, submit, run, render: commands that read a sweep file.
#include "cli/code_identity.hpp"
#include "cli/emitting.hpp"
#include "cli/points_meant.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "fleet/decide.hpp"
#include "plan/plan_story.hpp"
#include "plan/proof.hpp"
#include "show/plan_story.hpp"
#include "show/plan_view.hpp"
#include "slurm/words/array.hpp"
#include "slurm/words/script.hpp"
#include "sweep/identity.hpp"
#include "sweep/launch.hpp"
#include "sweep/trainer_command.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

void say_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    say("warning: " + note);
}

/// Writes the inbox that the daemon takes over.
Result<std::filesystem::path> write_submission(const Session& session, const Planned& planned,
                                               const SiteAccess& access) {
  SHARDSWEEP_TRY(make_home(session.home));
  const std::filesystem::path file = session.home.inbox() / (random_hex(16) + ".db");
  SubmittedSweep submission;
  submission.sweep = &planned.sweep;
  submission.plan = &planned.plan;
  submission.capabilities = &planned.capabilities;
  submission.source = planned.source;
  submission.resolved = explain_sweep(planned.sweep);
  Fnv128 hash;
  hash.add(submission.resolved);
  submission.resolved_hash = hash.hex();
  submission.backend = access.backend;
  if (access.backend != Backend::local) {
    submission.site = explain_site(access.site);
    // What the shell passes on has to be what a site file may say, or no daemon could read it.
    SHARDSWEEP_TRY(load_site_text(submission.site, "site file with pass_env"));
    submission.job_template = access.job_template;
  }
  const Identifier names(planned.sweep, planned.capabilities, planned.site_env);
  SHARDSWEEP_TRY(write_inbox(file, submission, [&](const Point& point) {
    return TrialNames{names.identity(point), names.slug(point), names.lane_key(point)};
  }));
  fail_point("inbox.written");
  return file;
}

/// Predicted seconds, in all and of the longest attempt.
struct Work {
  double predicted_s = 0;
  double longest_s = 0;
};

std::map<std::int32_t, Work> work_by_nodes(const Plan& plan) {
  std::map<std::int32_t, Work> work;
  for (const PlannedTrial& trial : plan.trials) {
    Work& one = work[std::max(1, trial.point.nodes)];
    one.predicted_s += trial.prediction.attempt_s;
    one.longest_s = std::max(one.longest_s, trial.prediction.attempt_s);
  }
  return work;
}

/// The token is drawn when the allocation is made.
std::string token_shown(const SweepSpec& sweep) {
  return sweep.policy.lane_array > 1 ? slurm::element_token("TOKEN", 0) : "TOKEN";
}

/// The script of a sweep's first allocation with so many nodes.
Result<std::string> script_for(const Session& session, const SweepSpec& sweep,
                               const SiteAccess& access, std::int32_t nodes, const Work& work) {
  const std::string token = token_shown(sweep);
  SHARDSWEEP_ASSIGN(const TemplateValues values,
                    script_values(sweep, access.site,
                                  {.job_name = job_name_of(sweep.name, nodes, token),
                                   .agent = session.installation.agent.string(),
                                   .paths = {session.home.allocations() / token},
                                   .nodes = nodes,
                                   .time_limit_s = wall_time_s(work.predicted_s, work.longest_s,
                                                               sweep.policy)}));
  return render_template(access.job_template, access.job_template_name, values);
}

/// What is submitted in place of the script where jobs go in arrays.
std::string array_around(const Session& session, const SweepSpec& sweep,
                         const std::string& script) {
  if (sweep.policy.lane_array <= 1) return "";
  const AllocationPaths first{session.home.allocations() / token_shown(sweep)};
  const std::array elements{slurm::ElementScript{0, first.script()}};
  return slurm::array_script(script, elements) + "\n";
}

/// A site file that gives no script is found out at once, not by the daemon at night.
Result<void> check_scripts(const Session& session, const Planned& planned,
                           const SiteAccess& access) {
  for (const auto& [nodes, work] : work_by_nodes(planned.plan)) {
    SHARDSWEEP_TRY(script_for(session, planned.sweep, access, nodes, work));
  }
  return {};
}

}  // namespace

namespace {

/// What `prove` asks for comes before the sweep itself, which waits for it.
Result<void> submit_proof(const Session& session, const Planned& planned,
                          const SiteAccess& access) {
  Proof proof = make_proof(planned.sweep, planned.plan);
  Planned alone;
  alone.sweep = std::move(proof.sweep);
  alone.plan = std::move(proof.plan);
  alone.capabilities = planned.capabilities;
  alone.source = planned.source;
  SHARDSWEEP_ASSIGN(const auto inbox, write_submission(session, alone, access));
  SHARDSWEEP_ASSIGN(const Answer answer,
                    ask_daemon(session, {.verb = Verb::submit, .inbox = inbox.string()}));
  say(answer.text);
  return {};
}

}  // namespace

Result<Answer> submit_file(const Session& session, std::string& sweep_name) {
  SHARDSWEEP_ASSIGN(Planned planned, plan_file(session));
  say_notes(planned.notes);
  if (planned.plan.trials.empty()) {
    return fault(FaultKind::invalid_input,
                 fmt::format("no point of '{}' is feasible; 'shardsweep plan {}' says why",
                             planned.sweep.name, session.options.file));
  }
  SHARDSWEEP_ASSIGN(const SiteAccess access, choose_backend(session, planned.sweep));
  SHARDSWEEP_TRY(add_site(planned, access));
  SHARDSWEEP_TRY(note_code(session, planned.sweep, Taking::snapshot));
  sweep_name = planned.sweep.name;
  if (access.backend != Backend::local) SHARDSWEEP_TRY(check_scripts(session, planned, access));
  if (planned.sweep.prove) SHARDSWEEP_TRY(submit_proof(session, planned, access));
  SHARDSWEEP_ASSIGN(const auto inbox, write_submission(session, planned, access));
  return ask_daemon(session, {.verb = Verb::submit, .inbox = inbox.string()});
}

Result<std::string> submit_anew(const Session& session) {
  std::string sweep;
  SHARDSWEEP_ASSIGN(const Answer answer, submit_file(session, sweep));
  say(answer.text);
  const auto fresh = answer.counts.find("fresh");
  if (fresh != answer.counts.end() && fresh->second == 0) {
    SHARDSWEEP_ASSIGN(const Answer again,
                      ask_daemon(session, {.verb = Verb::rerun, .names = {sweep}}));
    say(again.text);
  }
  return sweep;
}

/// As submit would find it, without asking Slurm; none: the sweep stays on this machine.
std::optional<SiteAccess> site_of(const Session& session, const SweepSpec& sweep) {
  const bool here = session.options.here || session.options.backend == Backend::local;
  if (sweep.cluster.this_machine || here) return std::nullopt;
  auto access = read_site(session);
  if (!access || access->site.backend == Backend::local) return std::nullopt;
  return *std::move(access);
}

/// Trials of a plan that an earlier submission has ended, and what the others will take.
struct EndedAlready {
  std::size_t trials = 0;
  double left_gpu_s = 0;
};

/// A database that is not there, or does not answer, knows of none.
EndedAlready ended_already(const Session& session, const Planned& planned) {
  const auto reader = Reader::open(session.home.database);
  if (!reader) return {};
  // A sweep's name holds no quotes: the sweep file was read.
  const auto ended = (*reader)->query(
      fmt::format("SELECT t.identity FROM trials t JOIN sweeps s ON s.id = t.sweep "
                  "WHERE s.name = '{}' AND t.state = 'ended'",
                  planned.sweep.name));
  if (!ended || ended->rows.empty()) return {};
  std::set<std::string> identities;
  for (const auto& row : ended->rows) {
    if (const auto* text = std::get_if<std::string>(&row.front())) identities.insert(*text);
  }
  EndedAlready result;
  const Identifier names(planned.sweep, planned.capabilities, planned.site_env);
  for (const PlannedTrial& trial : planned.plan.trials) {
    if (identities.contains(names.identity(trial.point))) {
      ++result.trials;
    } else {
      result.left_gpu_s += trial.prediction.attempt_s * trial.point.gpus;
    }
  }
  return result;
}

Result<ExitCode> command_plan(const Session& session) {
  if (session.options.plan.explain) {
    SHARDSWEEP_ASSIGN(const SweepSpec sweep, load_sweep_file(session));
    SHARDSWEEP_TRY(print_result(explain_sweep(sweep)));
    return ExitCode::done;
  }
  SHARDSWEEP_ASSIGN(Planned planned, plan_file(session));
  if (!session.options.trainer.point.empty() && session.options.trainer.emit.empty())
    return fault(FaultKind::invalid_input, "--point belongs to --emit");
  for (const std::string& note : planned.notes)
    say("warning: " + note);
  if (!session.options.trainer.emit.empty()) return emit_plan(session, planned);
  if (!session.options.trainer.from_args.empty()) return rank_in_plan(session, planned);
  // Its trials are known by what the site says too. Without a site nothing is submitted either.
  if (const auto access = site_of(session, planned.sweep))
    SHARDSWEEP_TRY(add_site(planned, *access));
  if (planned.sweep.runner.snapshot != SnapshotKind::none)
    SHARDSWEEP_TRY(note_code(session, planned.sweep, Taking::hash_alone));
  if (session.options.plan.order) {
    SHARDSWEEP_TRY(print_result(
        plan_story_text(plan_story(planned.sweep, planned.plan), table_style(session))));
    return ExitCode::done;
  }
  // A plan of a million trials is written as it is formatted.
  Result<void> written;
  const auto flush = [&written](fmt::memory_buffer& text) {
    if (written) written = print_result({text.data(), text.size()});
    text.clear();
  };
  fmt::memory_buffer out;
  write_plan(out, planned.sweep, planned.capabilities, planned.plan,
             {.format = session.options.format,
              .whole = session.options.plan.all || ::isatty(STDOUT_FILENO) == 0,
              .flush = flush,
              .terminal = session.options.wide ? Terminal{} : terminal_of(STDOUT_FILENO)});
  flush(out);
  SHARDSWEEP_TRY(written);
  if (const auto ended = ended_already(session, planned); ended.trials > 0) {
    const std::size_t left = planned.plan.trials.size() - ended.trials;
    say(fmt::format("{} of the {} trials have ended in {} and do not run again. {}",
                    ended.trials, planned.plan.trials.size(), session.home.database.string(),
                    left == 0 ? "None is left."
                              : fmt::format("{} left: {} GPU-hours predicted.",
                                            left == 1 ? "1 is" : fmt::format("{} are", left),
                                            amount_text(ended.left_gpu_s / 3600))));
  }
  return ExitCode::done;
}

Result<ExitCode> command_submit(const Session& session) {
  std::string sweep;
  SHARDSWEEP_ASSIGN(const Answer answer, submit_file(session, sweep));
  if (session.options.format == Format::json) {
    std::string json = fmt::format("{{\"sweep\":\"{}\"", sweep);
    for (const auto& [key, count] : answer.counts) {
      if (key != "sweep") json += fmt::format(",\"{}\":{}", key, count);
    }
    SHARDSWEEP_TRY(print_result(json + "}\n"));
  } else {
    say(answer.text);
  }
  return ExitCode::done;
}

Result<ExitCode> command_run(const Session& session) {
  std::string sweep;
  SHARDSWEEP_ASSIGN(const Answer answer, submit_file(session, sweep));
  say(answer.text);
  return follow_sweeps(session, {sweep}, FollowFrom::submission);
}

namespace {

/// A word as a shell would need it.
std::string shown_word(const std::string& word) {
  const bool plain =
      !word.empty() && word.find_first_of(" \t\n'\"\\$`!*?[]{}()<>|&;#~") == std::string::npos;
  return plain ? word : in_quotes(word);
}

/// What an attempt at a point is given. What only a rank knows stands in braces.
std::string point_text(const Session& session, const Planned& planned, const Point& point) {
  const Identifier names(planned.sweep, planned.capabilities);
  const std::string slug = names.slug(point);
  const AttemptPaths paths{session.home.attempts() / (slug + ".1")};
  const std::int32_t slots = planned.sweep.cluster.gpus_per_node;
  const AttemptSpec spec = attempt_spec(planned.sweep, point,
                                        {.attempt = 0,
                                         .trial = slug,
                                         .nonce = "NONCE",
                                         .token = "TOKEN",
                                         .program = session.installation.runner.string(),
                                         .paths = paths,
                                         .slots_per_node = slots});
  const bool per_node = spec.trainer && spec.trainer->per_node;
  std::string text = fmt::format("# {}: {}, {}\n", slug, counted(spec.world, "rank"),
                                 per_node ? "one process on each node" : "a process for each");
  std::string line;
  for (const auto& word : spec.argv)
    line += (line.empty() ? "" : " ") + shown_word(word);
  text += line + "\n\n# environment\n";
  for (const auto& [name, value] : spec.env)
    text += fmt::format("{}={}\n", name, shown_word(value));
  text += per_node ? fmt::format("NODE_RANK={{node_rank}}\nNNODES={}\n",
                                 (spec.world + spec.ranks_per_node - 1) / spec.ranks_per_node)
                   : fmt::format(
                         "RANK={{rank}}\nWORLD_SIZE={}\nLOCAL_RANK={{local_rank}}\n"
                         "LOCAL_WORLD_SIZE={}\n",
                         spec.world, spec.ranks_per_node);
  if (!spec.trainer) return text;
  text +=
      fmt::format("MASTER_ADDR={{master_addr}}\nMASTER_PORT={{master_port}}\n\n# folder\n{}\n",
                  spec.trainer->directory);
  for (const auto& [name, file] :
       trainer_files(planned.sweep, point, paths.dir.string(), spec.ranks_per_node))
    text += fmt::format("\n# file {}\n{}{}", (paths.dir / name).string(), file,
                        file.ends_with('\n') ? "" : "\n");
  return text;
}

Result<ExitCode> render_points(const Session& session, const Planned& planned) {
  SHARDSWEEP_ASSIGN(const auto meant, points_meant(planned, session.options.trainer.point));
  std::string text;
  for (const PlannedTrial* trial : meant)
    text += (text.empty() ? "" : "\n") + point_text(session, planned, trial->point);
  SHARDSWEEP_TRY(print_result(text));
  return ExitCode::done;
}

}  // namespace

Result<ExitCode> command_render(const Session& session) {
  SHARDSWEEP_ASSIGN(const Planned planned, plan_file(session));
  if (!session.options.trainer.point.empty()) return render_points(session, planned);
  if (planned.sweep.cluster.this_machine) {
    say(
        fmt::format("'{}' runs on this machine, without Slurm. This script shows the template "
                    "alone; no job is submitted with it.",
                    planned.sweep.name));
  }
  SHARDSWEEP_ASSIGN(const SiteAccess access, read_site(session));
  for (const auto& [nodes, work] : work_by_nodes(planned.plan)) {
    SHARDSWEEP_ASSIGN(const std::string script,
                      script_for(session, planned.sweep, access, nodes, work));
    SHARDSWEEP_TRY(print_result(array_around(session, planned.sweep, script) + script));
  }
  return ExitCode::done;
}

}  // namespace shardsweep
