// SPDX-License-Identifier: Apache-2.0
// plan, submit, run, render: commands that read a sweep file.
#include "cli/plan_view.hpp"
#include "cli/session.hpp"
#include "domain/identity.hpp"
#include "domain/script.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

void say_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    say("warning: " + note);
}

/// Writes the inbox that the daemon takes over.
Result<std::filesystem::path> write_submission(const Session& session, const Planned& planned,
                                               const std::string& backend) {
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
  submission.backend = backend;
  const Identifier names(planned.sweep, planned.capabilities);
  SHARDSWEEP_TRY(write_inbox(file, submission, [&](const Point& point) {
    return TrialNames{names.identity(point), names.slug(point), names.lane_key(point)};
  }));
  return file;
}

Result<Answer> submit_file(const Session& session, std::string& sweep_name) {
  SHARDSWEEP_ASSIGN(const Planned planned, plan_file(session));
  say_notes(planned.notes);
  if (planned.plan.trials.empty()) {
    return fault(FaultKind::invalid_input,
                 fmt::format("no point of '{}' is feasible; 'shardsweep plan {}' says why",
                             planned.sweep.name, session.options.file));
  }
  SHARDSWEEP_ASSIGN(const std::string backend, choose_backend(session, planned.sweep));
  sweep_name = planned.sweep.name;
  SHARDSWEEP_ASSIGN(const auto inbox, write_submission(session, planned, backend));
  return ask_daemon(session,
                    {.verb = Verb::submit, .inbox = inbox.string(), .backend = backend});
}

Result<void> print_script(const Session& session, const SweepSpec& sweep, const SiteSpec& site,
                          const std::string& text, std::int32_t nodes) {
  // The token is drawn when the allocation is made.
  const std::string token = "TOKEN";
  SHARDSWEEP_ASSIGN(const TemplateValues values,
                    script_values(sweep, site,
                                  {.job_name = fmt::format(
                                       "{}-n{}_{}", sweep.name.substr(0, 24), nodes, token),
                                   .agent = session.installation.agent.string(),
                                   .paths = {session.home.allocations() / token},
                                   .nodes = nodes}));
  SHARDSWEEP_ASSIGN(const std::string script, render_template(text, "lane.sbatch", values));
  return print_result(script);
}

}  // namespace

Result<ExitCode> command_plan(const Session& session) {
  if (session.options.explain) {
    SHARDSWEEP_ASSIGN(const SweepSpec sweep, load_sweep_file(session));
    SHARDSWEEP_TRY(print_result(explain_sweep(sweep)));
    return ExitCode::done;
  }
  SHARDSWEEP_ASSIGN(const Planned planned, plan_file(session));
  for (const std::string& note : planned.notes)
    say("warning: " + note);
  // A plan of a million trials is written as it is formatted.
  Result<void> written;
  const auto flush = [&written](fmt::memory_buffer& text) {
    if (written) written = print_result({text.data(), text.size()});
    text.clear();
  };
  fmt::memory_buffer out;
  write_plan(out, planned.sweep, planned.capabilities, planned.plan,
             {.format = session.options.format,
              .whole = session.options.all || ::isatty(STDOUT_FILENO) == 0,
              .flush = flush});
  flush(out);
  SHARDSWEEP_TRY(written);
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
  return follow_sweeps(session, {sweep});
}

Result<ExitCode> command_render(const Session& session) {
  SHARDSWEEP_ASSIGN(const Planned planned, plan_file(session));
  SHARDSWEEP_ASSIGN(const SiteSpec site, load_site_file(session));
  SHARDSWEEP_ASSIGN(const std::string text,
                    read_file(session.installation.templates / "lane.sbatch"));
  std::set<std::int32_t> node_counts;
  for (const PlannedTrial& trial : planned.plan.trials) {
    node_counts.insert(std::max(1, trial.point.nodes));
  }
  for (const std::int32_t nodes : node_counts) {
    SHARDSWEEP_TRY(print_script(session, planned.sweep, site, text, nodes));
  }
  return ExitCode::done;
}

}  // namespace shardsweep
