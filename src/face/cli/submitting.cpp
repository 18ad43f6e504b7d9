// SPDX-License-Identifier: Apache-2.0
// From a judged plan to the daemon: the inbox that it takes over, and what has to hold
// before. Whatever can be wrong with a sweep, its site or its job script is found here,
// while the user is there to read it: the daemon would find it at night. The inbox is a
// database of its own, written before the request that names it, so that a command that dies
// leaves nothing half submitted.
#include "cli/passing.hpp"
#include "cli/session.hpp"
#include "fleet/decide.hpp"
#include "plan/proof.hpp"
#include "slurm/words/array.hpp"
#include "slurm/words/script.hpp"
#include "sweep/identity.hpp"
#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

namespace shardsweep {

void say_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    say("warning: " + note);
}

namespace {

/// Reads a submission back as the daemon will: one that does not load there would wait for ever.
Result<void> read_back(const SubmittedSweep& submission, const std::filesystem::path& presets) {
  const auto refuse = [&](const Fault& why) {
    return fault(FaultKind::invalid_input,
        "'{}' is not submitted, because a daemon could not read it back from the database: {}",
        submission.sweep->name, why.what);
  };
  const auto sweep = load_sweep_text(submission.resolved, submission.sweep->name, {presets, {}});
  if (!sweep) return refuse(sweep.error());
  if (submission.site.empty()) return {};
  const auto site = load_site_text(submission.site, "site of " + submission.sweep->name);
  return site ? Result<void>() : refuse(site.error());
}

/// Writes the inbox that the daemon takes over.
Result<std::filesystem::path> write_submission(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access) {
  SHARDSWEEP_TRY(make_home(session.home));
  SHARDSWEEP_TRY(keep_secrets(session, planned, access));
  const std::filesystem::path file = session.home.inbox() / (random_hex(16) + ".db");
  SubmittedSweep submission;
  submission.sweep = &planned.sweep;
  submission.plan = &planned.plan;
  submission.capabilities = &planned.capabilities;
  submission.resolved = explain_sweep(planned.sweep);
  // Secrets that stand in a file are not kept with it, however they are quoted there.
  submission.source = planned.sweep.secrets.empty() ? planned.source : submission.resolved;
  Fnv128 hash;
  hash.add(submission.resolved);
  submission.resolved_hash = hash.hex();
  submission.backend = access.backend;
  if (access.backend == Backend::slurm) {
    submission.site = explain_site(access.site);
    submission.job_template = access.job_template;
  } else if (access.site.notify.wanted()) {
    // The sweep holds all else of a site that was named for this machine.
    SiteSpec told;
    told.notify = access.site.notify;
    submission.site = explain_site(told);
  }
  SHARDSWEEP_TRY(read_back(submission, session.installation.presets));
  const Identifier names(planned.sweep, planned.capabilities, planned.site_env);
  SHARDSWEEP_TRY(write_inbox(file, submission, [&](const Point& point) {
    return TrialNames{names.identity(point), names.slug(point), names.lane_key(point)};
  }));
  fail_point("inbox.written");
  return file;
}

/// The token is drawn when the allocation is made.
std::string token_shown(const SweepSpec& sweep) {
  return sweep.policy.lane_array > 1 ? slurm::element_token("TOKEN", 0) : "TOKEN";
}

}  // namespace

std::map<std::int32_t, Work> work_by_nodes(const Plan& plan) {
  std::map<std::int32_t, Work> work;
  for (const PlannedTrial& trial : plan.trials) {
    Work& one = work[std::max(1, trial.point.nodes)];
    one.predicted_s += trial.prediction.attempt_s;
    one.longest_s = std::max(one.longest_s, trial.prediction.attempt_s);
  }
  return work;
}

Result<std::string> script_for(const Session& session, const SweepSpec& sweep,
    const SiteAccess& access, std::int32_t nodes, const Work& work) {
  const std::string token = token_shown(sweep);
  SHARDSWEEP_ASSIGN(const TemplateValues values,
      script_values(sweep, access.site,
          {.job_name = job_name_of(sweep.name, nodes, token),
              .agent = session.installation.agent.string(),
              .paths = {session.home.allocations() / token},
              .nodes = nodes,
              .time_limit_s = wall_time_s(work.predicted_s, work.longest_s, sweep.policy)}));
  return render_template(access.job_template, access.job_template_name, values);
}

std::string array_around(
    const Session& session, const SweepSpec& sweep, const std::string& script) {
  if (sweep.policy.lane_array <= 1) return "";
  const AllocationPaths first{session.home.allocations() / token_shown(sweep)};
  const std::array elements{slurm::ElementScript{0, first.script()}};
  return slurm::array_script(script, elements) + "\n";
}

namespace {

/// A site file that gives no script is found out at once, not by the daemon at night.
Result<void> check_scripts(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access) {
  for (const auto& [nodes, work] : work_by_nodes(planned.plan)) {
    SHARDSWEEP_TRY(script_for(session, planned.sweep, access, nodes, work));
  }
  return {};
}

/// Submits the single ranks that `prove` asks for. The sweep itself waits for them.
Result<void> submit_proof(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access) {
  Proof proof = make_proof(planned.sweep, planned.plan);
  PlannedSweep alone;
  alone.sweep = std::move(proof.sweep);
  alone.plan = std::move(proof.plan);
  alone.capabilities = planned.capabilities;
  alone.source = planned.source;
  alone.passed = planned.passed;
  SHARDSWEEP_ASSIGN(const auto inbox, write_submission(session, alone, access));
  SHARDSWEEP_ASSIGN(
      const Answer answer, ask_daemon(session, {.verb = Verb::submit, .inbox = inbox.string()}));
  say(answer.text);
  return {};
}

}  // namespace

Result<Answer> submit_plan(const Session& session, PlannedSweep planned) {
  if (!planned.refusal.empty())
    return fault(
        FaultKind::invalid_input, "'{}' is not submitted. {}", planned.sweep.name, planned.refusal);
  SHARDSWEEP_TRY(check_passed(planned));
  SHARDSWEEP_ASSIGN(const SiteAccess access, choose_backend(session, planned.sweep));
  say_notes(access.notes);
  if (access.backend == Backend::local) say_withheld(planned.sweep);
  SHARDSWEEP_TRY(add_site(planned, access));
  SHARDSWEEP_TRY(note_code(session, planned.sweep, Taking::snapshot));
  if (access.backend == Backend::slurm) {
    SHARDSWEEP_TRY(check_scripts(session, planned, access));
    say_notes(beyond_partitions(session, planned, access));
  }
  if (planned.sweep.prove) SHARDSWEEP_TRY(submit_proof(session, planned, access));
  SHARDSWEEP_ASSIGN(const auto inbox, write_submission(session, planned, access));
  Request request{.verb = Verb::submit, .inbox = inbox.string()};
  if (access.backend == Backend::outside) return ask_writer(session, std::move(request));
  return ask_daemon(session, std::move(request),
      {.sweep = planned.sweep.name, .trials = std::ssize(planned.plan.trials)});
}

Result<Answer> submit_file(const Session& session, std::string& sweep_name) {
  SHARDSWEEP_ASSIGN(PlannedSweep planned, plan_file(session));
  say_notes(planned.notes);
  if (planned.plan.trials.empty()) {
    return fault(FaultKind::invalid_input,
        "no point of '{}' is feasible; 'shardsweep plan {}' says why", planned.sweep.name,
        session.options.file);
  }
  sweep_name = planned.sweep.name;
  return submit_plan(session, std::move(planned));
}

Result<std::string> submit_anew(const Session& session) {
  std::string sweep;
  SHARDSWEEP_ASSIGN(const Answer answer, submit_file(session, sweep));
  say(answer.text);
  const auto fresh = answer.counts.find("fresh");
  if (fresh != answer.counts.end() && fresh->second == 0) {
    SHARDSWEEP_ASSIGN(
        const Answer again, ask_daemon(session, {.verb = Verb::rerun, .names = {sweep}}));
    say(again.text);
  }
  return sweep;
}

// Sweeps that a command makes by itself, of a size that it is told: selftest, preflight.

Result<std::int32_t> asked_nodes(const Options& options) {
  if (options.asked.nodes.empty()) return 1;
  const auto nodes = number_from<std::int32_t>(options.asked.nodes);
  if (nodes && *nodes >= 1 && *nodes <= 4096) return *nodes;
  return fault(FaultKind::invalid_input, "--nodes takes a number from 1 to 4096; got '{}'",
      options.asked.nodes);
}

Result<OwnCluster> own_cluster(const Session& session, std::int32_t nodes, std::int32_t most) {
  const Options& options = session.options;
  if (!options.asked.cluster.empty()) {
    SHARDSWEEP_ASSIGN(const ClusterSpec cluster,
        load_cluster(options.asked.cluster, session.installation.presets));
    const std::int32_t slots = std::min(cluster.gpus_per_node, std::max(most / nodes, 1));
    return OwnCluster{
        fmt::format("{{preset: {}, gpus_per_node: {}}}", options.asked.cluster, slots), slots};
  }
  SHARDSWEEP_ASSIGN(const SiteAccess access, read_site(session));
  const bool slurm = options.backend == Backend::slurm ||
      (options.backend == Backend::none && access.site.backend == Backend::slurm);
  if (slurm) return OwnCluster{"cpu-2x", 2};
  if (nodes > 1) {
    return fault(FaultKind::invalid_input,
        "--nodes {} needs a cluster: 'shardsweep init' writes a site file. Without --nodes this "
        "machine is tested.",
        nodes);
  }
  return OwnCluster{"this-machine", 4};
}

Result<std::string> submit_own_sweep(
    const Session& session, const std::string& name, const std::string& text) {
  SHARDSWEEP_TRY(make_home(session.home));
  Session sweep_session = session;
  const auto file = session.home.dir() / (name + ".yaml");
  SHARDSWEEP_TRY(write_own_file(file, text));
  sweep_session.options.file = file.string();
  return submit_anew(sweep_session);
}

}  // namespace shardsweep
