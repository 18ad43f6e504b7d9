// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/random_run.hpp"

#include "tools/fakes/fail_reads.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

namespace shardsweep::testing {
namespace {

constexpr Timestamp second = 1'000'000;

template <class Values>
auto drawn(const Values& values, std::mt19937_64& random) {
  return values[random() % values.size()];
}

}  // namespace

RandomCounts& RandomCounts::operator+=(const RandomCounts& other) {
  steps += other.steps;
  rounds += other.rounds;
  deaths += other.deaths;
  jobs += other.jobs;
  attempts += other.attempts;
  results += other.results;
  commits += other.commits;
  looks += other.looks;
  failed_reads += other.failed_reads;
  simulated_s += other.simulated_s;
  marks.add(other.marks);
  return *this;
}

RandomRun::RandomRun(std::uint64_t seed)
    : failed_reads_before_(reads_failed()), started_at_(site.clock.true_time()) {
  site.random.seed(seed);
  site.around_daemon = [this](bool acts) { let_daemon_read(acts); };
  site.slurm.attempts.booked = [this](const std::string& nonce) {
    return site.sql(fmt::format("SELECT state FROM attempts WHERE nonce = '{}'", nonce)) == "ended";
  };
  site.slurm.make_run = [this](const PlayedJob& job, std::vector<std::string> nodes) {
    auto run = std::make_unique<PlayedAllocation>(job.dir, job.id, std::move(nodes),
        PlayedAllocation::Site{site.clock, site.random, site.slurm.attempts, site.slurm.violations,
            swarm_.in_allocations, [this](AttemptId attempt) { return drawn_fate(attempt); }});
    run->set_clock_ahead(job.clock_ahead);
    return run;
  };
}

/// Numbers of rows begin again with each sequence.
void RandomRun::watch() {
  const auto watch = std::make_shared<MarkWatch>(marks_);
  site.store.committed = [watch](std::span<const Change> changes) { watch->committed(changes); };
  site.slurm.answered = [watch](const SchedulerEvent& event) { watch->answered(event); };
  site.slurm.attempts.heard = [watch](const ToLead& line) { watch->heard(line); };
  site.slurm.attempts.said = [watch](const FromLeadBody& line) { watch->said(line); };
}

RandomCounts RandomRun::counts() const {
  return {.steps = steps_,
      .rounds = site.slurm.attempts.rounds,
      .deaths = site.deaths(),
      .jobs = jobs_,
      .attempts = attempts_,
      .results = results_,
      .commits = site.store.commits(),
      .looks = site.slurm.calls.looks,
      .failed_reads = reads_failed() - failed_reads_before_,
      .simulated_s = static_cast<double>(site.clock.true_time() - started_at_) * 1e-6,
      .marks = marks_};
}

std::string RandomRun::log_tail() {
  constexpr std::size_t most = 6000;
  std::ifstream file(site.home.database.parent_path() / "log");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  return all.size() <= most ? all : all.substr(all.size() - most);
}

std::string RandomRun::state() {
  const auto now = site.clock.time();
  return fmt::format("now {}\n{}\n{}\n{}\n", now,
      site.sql("SELECT group_concat(line, char(10)) FROM (SELECT s.name || ' ' || s.state || ' "
               "' || s.held || ' ' "
               "|| s.deleting || ': ' || (SELECT group_concat(id || ' ' || state || ' ' || "
               "ifnull(outcome, '') || iif(hidden, ' hidden', '') || ' prior ' || "
               "ifnull(prior, '') || ' final of ' || ifnull(final_of, 0), ', ') FROM trials "
               "WHERE sweep = s.id) AS line FROM sweeps AS s)"),
      site.sql("SELECT group_concat(job_name || ' job ' || job_id || ' ' || state || ' ' || "
               "submission || ' ' || job_state || ' draining ' || draining || ' claimed ' || "
               "claimed_at || ' beat ' || last_beat || ' quiet ' || quiet_since || ' running ' "
               "|| running_since || ' end ' || end_outcome || ' ' || detail, char(10)) FROM "
               "allocations WHERE state <> 'ended'"),
      site.sql("SELECT group_concat(line, char(10)) FROM (SELECT at || ' ' || "
               "ifnull(allocation, 0) || ' ' || ifnull(attempt, 0) || ' ' || kind || ' ' || "
               "detail AS line FROM events ORDER BY id DESC LIMIT 60)"));
}

void RandomRun::sequence() {
  faults_ = true;
  swarm_.draw(site.random);
  watch();
  constexpr std::array look_s{2.0, 10.0, 10.0, 60.0};
  site.slurm.look_interval_s = drawn(look_s, site.random);
  site.slurm.tells_site = true;
  site.slurm.black_hole = one_in(5) ? 1 + site.random() % 12 : 0;
  starts_in_black_hole_ = 0;
  submit_sweeps();
  constexpr int steps = 250;
  for (int i = 0; i < steps; ++i)
    step();
  faults_ = false;
  heal();
  finish();
  check_told();
  clean_up();
}

void RandomRun::submit_sweeps() {
  site.submit(drawn_sweep("a", site.random));
  if (one_in(3)) site.submit(drawn_sweep("b", site.random));
  look();
}

// ---- what happens

void RandomRun::step() {
  ++steps_;
  if (faults_ && swarm_.troubles.now(site.random)) make_trouble();
  pass_time();
  for (auto turns = 1 + site.random() % 3; turns > 0; --turns)
    play();
  if (!site.alive() && must(site.store.work_left())) site.start();
  if (faults_ && swarm_.deaths.now(site.random))
    site.fate.kill_at(1 + static_cast<int>(site.random() % 40));
  const auto commits = site.store.commits();
  const auto changes = site.store.changes();
  const auto looks = site.slurm.calls.looks;
  const auto submissions = site.slurm.calls.submissions;
  site.tick(0);
  site.fate.live();
  bound_calls(commits, changes, looks, submissions);
  look();
  if (faults_ && swarm_.wishes.now(site.random)) make_wish();
}

void RandomRun::pass_time() {
  constexpr std::array steps_s{0.25, 0.25, 0.25, 0.25, 1.0, 1.0, 5.0, 5.0, 20.0};
  double by_s = drawn(steps_s, site.random);
  if (one_in(60)) by_s = 120;
  // A beat and a half at most: what stands still for longer has been suspended.
  constexpr double longest_s = 1.5;
  for (; by_s > 0; by_s -= longest_s) {
    site.clock.advance(static_cast<Timestamp>(std::min(by_s, longest_s) * 1e6));
    site.slurm.pass();
  }
}

void RandomRun::draw_answer() {
  if (const auto answer = swarm_.answer.roll(site.random)) site.slurm.answers.push_back(*answer);
  site.slurm.late_s = static_cast<double>(site.random() % 60);
}

void RandomRun::make_trouble() {
  const auto trouble = swarm_.trouble.roll(site.random);
  if (!trouble) return;
  switch (*trouble) {
    case Trouble::unreachable:
      site.slurm.reachable = !site.slurm.reachable;
      return;
    case Trouble::lists_nothing:
      site.slurm.lists_nothing = !site.slurm.lists_nothing;
      return;
    case Trouble::accounting_lags:
      site.slurm.accounting_lag_s = one_in(2) ? 0 : 60;
      return;
    case Trouble::look_is_slow:
      site.slurm.look_takes_s = one_in(2) ? 0.5 : 25;
      return;
    case Trouble::job_hidden:
      if (!site.slurm.jobs.empty()) {
        PlayedJob& job = drawn_job();
        job.hidden = !job.hidden;
      }
      return;
    case Trouble::clock_set: {
      constexpr std::array ahead_s{0, 0, 2, -2, 150, -150, 7200, -7200};
      site.clock.set_wall_ahead(drawn(ahead_s, site.random) * second);
      return;
    }
    case Trouble::daemon_ended:
      site.die();  // somebody ends it, and it comes back
      return;
    case Trouble::answer_odd:
      return draw_answer();
    case Trouble::reads_fail:
      return begin_unreadable();
    case Trouble::others_wait:
      site.slurm.others_waiting = site.slurm.others_waiting == 0 ? 5 : 0;
      return;
    case Trouble::node_found: {
      constexpr std::array kinds{EvidenceKind::silent, EvidenceKind::hardware, EvidenceKind::dirty,
          EvidenceKind::leaked, EvidenceKind::check};
      if (site.slurm.jobs.empty()) return;
      PlayedJob& job = drawn_job();
      if (!job.runs() || job.silent || !job.claimed()) return;
      const std::string node = job.nodes.substr(0, job.nodes.find(','));
      const EvidenceKind kind = drawn(kinds, site.random);
      if (kind == EvidenceKind::check)
        job.run->add_line(
            Checked{.node = node, .facts = {.seconds = 1}, .detail = "played", .blamed = true});
      job.run->find(node, kind);
      return;
    }
  }
}

/// For less than daemon.records_limit, and not again before the daemon has tried everything
/// once more: what can't be read for longer is lost.
void RandomRun::begin_unreadable() {
  constexpr std::array for_s{1, 5, 20, 50};
  constexpr Timestamp longest_pause = 15 * second;
  const Timestamp now = site.clock.true_time();
  if (now < unreadable_until_ || readable_at_ - readable_since_ < longest_pause) return;
  read_error_ = one_in(2) ? ESTALE : EIO;
  unreadable_until_ = now + drawn(for_s, site.random) * second;
  readable_since_ = readable_at_ = 0;
  unreadable_files_ = one_in(3) ? 0 : 1 + site.random() % 1000;
}

void RandomRun::let_daemon_read(bool acts) {
  const Timestamp now = site.clock.true_time();
  if (!acts) return let_reads_pass();
  if (now < unreadable_until_)
    return fail_reads(read_error_,
        {site.home.allocations().string(), site.home.attempts().string()}, unreadable_files_);
  if (readable_since_ == 0) readable_since_ = now;
  readable_at_ = now;
}

void RandomRun::make_wish() {
  constexpr std::array<const char*, 3> where{"", "micro_batch = 2", "nodes = 1"};
  const auto wish = swarm_.wish.roll(site.random);
  if (!wish) return;
  Request request;
  request.names = {"a"};
  if (*wish != Wish::pause && *wish != Wish::clear_node) request.where = drawn(where, site.random);
  switch (*wish) {
    case Wish::pause:
      request.verb = Verb::pause;
      return ask(std::move(request));
    case Wish::resume:
      request.verb = Verb::resume;
      return ask(std::move(request));
    case Wish::cancel:
      request.verb = Verb::cancel;
      return ask(std::move(request));
    case Wish::rerun:
      request.verb = Verb::rerun;
      return ask(std::move(request));
    case Wish::clear_node:
      request.verb = Verb::clear_node;
      request.names = {fmt::format("n{}", 1 + site.random() % 12)};
      return ask(std::move(request));
    case Wish::edit:
      site.submit(drawn_sweep("a", site.random));
      return look();
  }
}

void RandomRun::ask(Request request) {
  if (one_in(2)) site.fate.kill_at(1 + static_cast<int>(site.random() % 80));
  (void)site.ask(std::move(request));
  site.fate.live();
  look();
}

PlayedJob& RandomRun::drawn_job() {
  return site.slurm.jobs[site.random() % site.slurm.jobs.size()];
}

void RandomRun::play() {
  std::vector<PlayedJob*> live;
  for (PlayedJob& job : site.slurm.jobs) {
    if (!job.over() || job.lead_alive) live.push_back(&job);
  }
  if (live.empty()) return;
  PlayedJob& job = *live[site.random() % live.size()];
  if (job.pends()) return play_pending(job);
  if (job.runs() && !job.silent) return play_running(job);
  if (job.silent) {
    if (one_in(10) && !faults_ && !job.suspended) site.slurm.finish(job, "NODE_FAIL");
    if (!one_in(20)) return;
    job.silent = job.suspended = false;
    job.run->stop_nodes(false);
  }
}

void RandomRun::play_pending(PlayedJob& job) {
  if (one_in(30)) job.unseen = false;
  if (job.reason != "Priority") {
    if (job.reason.starts_with("launch")) return;  // somebody has to cancel it
    if (one_in(20)) job.reason = "Priority";
    return;
  }
  if (faults_ && swarm_.queue_ends.now(site.random)) {
    const auto end = swarm_.queue_end.roll(site.random);
    if (end == QueueEnd::held) job.reason = "JobHeldUser";
    if (end == QueueEnd::held_after_launch) job.reason = "launch failed requeued held";
    if (end == QueueEnd::cancelled) site.slurm.cancel(job, "CANCELLED by 0");
    if (end == QueueEnd::failed) site.slurm.finish(job, "FAILED", 1);
    if (end) return;
  }
  constexpr std::array ahead_s{0, 0, 0, 150, -150, 3600, -3600};
  if (faults_) job.clock_ahead = drawn(ahead_s, site.random) * second;
  site.slurm.start(job, site.random);
}

void RandomRun::play_running(PlayedJob& job) {
  if (!job.claimed()) {
    if (job.in_black_hole) {
      ++starts_in_black_hole_;
      return site.slurm.finish(job, "FAILED", 1);
    }
    if (faults_ && swarm_.slow_prologs.now(site.random)) return;
    if (!job.run->claim()) site.slurm.finish(job, "FAILED", 75);
    return;
  }
  if (faults_ && swarm_.fates.now(site.random)) play_fate(job);
}

/// Something outside ends it, or stops it.
void RandomRun::play_fate(PlayedJob& job) {
  const auto fate = swarm_.fate.roll(site.random);
  if (!fate) return;
  switch (*fate) {
    case JobFate::node_failed:
      job.run->lose_power();
      return site.slurm.finish(job, "NODE_FAIL");
    case JobFate::host_given_up:
      site.slurm.finish(job, "NODE_FAIL");
      job.lead_alive = true;
      return;
    case JobFate::preempted:
      return site.slurm.cancel(job, "PREEMPTED");
    case JobFate::timed_out:
      return site.slurm.cancel(job, "TIMEOUT");
    case JobFate::cancelled:
      return site.slurm.cancel(job, "CANCELLED by 0");
    case JobFate::requeued:
      return site.slurm.requeue(job);
    case JobFate::silent:
      job.silent = job.was_silent = true;
      return;
    case JobFate::suspended:
      job.suspended = job.silent = job.was_silent = true;
      job.run->stop_nodes(true);
      return;
    case JobFate::node_lost:
      return job.run->lose_node();
    case JobFate::node_stopped:
      return job.run->stop_node();
    case JobFate::agent_killed:
      return job.run->kill_agent();
    case JobFate::guard_killed:
      return job.run->kill_guard();
    case JobFate::lead_killed:
      job.run->kill_lead();
      return site.slurm.finish(job, "FAILED", 137);
    case JobFate::clock_jumps: {
      constexpr std::array by_s{2, -2, 150, -150, 3600, -3600};
      job.clock_ahead += drawn(by_s, site.random) * second;
      return job.run->set_clock_ahead(job.clock_ahead);
    }
    case JobFate::failed: {
      constexpr std::array<const char*, 5> words{
          "FAILED", "OUT_OF_MEMORY", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"};
      job.run->kill();
      return site.slurm.finish(job, drawn(words, site.random), 1);
    }
  }
}

/// What ranks do. A probe or a control has a node to blame, and no programs of a user.
RankFate RandomRun::drawn_fate(AttemptId attempt) {
  constexpr std::array seconds{0.5, 2.0, 5.0, 5.0, 20.0, 60.0};
  const bool is_extra = attempt < 0;
  RankFate fate{.seconds = drawn(seconds, site.random)};
  if (one_in(2)) fate.outcome = swarm_.outcome.roll(site.random).value_or(fate.outcome);
  // Two hours each: at the end some in a row would look like a sweep that is forgotten.
  if (is_extra && !faults_ && fate.outcome == Outcome::timeout) fate.outcome = Outcome::completed;
  const bool failed = fate.outcome != Outcome::completed;
  switch (swarm_.oddity.roll(site.random).value_or(Oddity::none)) {
    case Oddity::none:
      break;
    case Oddity::marked:
      fate.contaminated = !failed;
      break;
    case Oddity::fragmented:
      fate.fragmented = true;
      break;
    case Oddity::not_started:
      fate.not_started = failed;
      break;
    case Oddity::other_programs:
      fate.other_programs = fate.outcome == Outcome::lost && !is_extra;
      break;
    case Oddity::leaks:
      fate.leaks = true;
      break;
    case Oddity::ignores_term:
      fate.ignores_term = true;
      break;
    case Oddity::exits_early:
      fate.exits_early = !failed;
      break;
  }
  // Controls of an allocation that is off.
  if (is_extra && faults_ && one_in(3)) fate.speed = 2000;
  return fate;
}

// ---- what must hold

void RandomRun::none(const char* what, const char* sql) {
  const std::string first = site.sql(sql);
  if (!first.empty()) throw Violation(fmt::format("{}: {}", what, first));
}

/// A pass does a bounded number of things, whatever has happened.
void RandomRun::bound_calls(
    std::int64_t commits, std::int64_t changes, std::int64_t looks, std::int64_t submissions) {
  constexpr std::int64_t most_commits = 4;
  constexpr std::int64_t most_changes = 400;
  constexpr std::int64_t most_submissions = 16;
  if (site.store.commits() - commits > most_commits)
    throw Violation(fmt::format("a pass with {} commits", site.store.commits() - commits));
  if (site.store.changes() - changes > most_changes)
    throw Violation(fmt::format("a pass with {} changes", site.store.changes() - changes));
  if (site.slurm.calls.looks - looks > 1) throw Violation("a pass with two looks");
  if (site.slurm.calls.submissions - submissions > most_submissions)
    throw Violation("a pass with more submissions than there may be jobs");
}

void RandomRun::look() {
  if (!site.slurm.violations.empty()) throw Violation(site.slurm.violations.front());
  if (looked_at_ == site.store.commits()) return;
  looked_at_ = site.store.commits();
  none("two counted measurements",
      "SELECT trial FROM attempts WHERE counted = 1 GROUP BY trial HAVING count(*) > 1");
  none("a trial that is ranked by another measurement than its own",
      "SELECT t.id FROM trials AS t LEFT JOIN attempts AS a ON a.trial = t.id AND a.counted = "
      "1 LEFT JOIN measurements AS m ON m.attempt = a.id WHERE t.counted_attempt IS NOT a.id "
      "OR "
      "t.counted_mark IS NOT m.mark OR t.counted_speed IS NOT m.tokens_per_s_per_gpu");
  none("a counted attempt without its measurement",
      "SELECT id FROM attempts WHERE counted = 1 AND id NOT IN (SELECT attempt FROM "
      "measurements)");
  none("an outcome that its measurement does not fit",
      "SELECT t.id || t.state || ifnull(t.outcome, '') FROM trials AS t WHERE t.side = '' AND "
      "(ifnull(t.outcome, t.prior) IS 'completed') <> EXISTS (SELECT 1 FROM attempts AS a "
      "WHERE a.trial = t.id AND a.counted = 1)");
  none("a side run that is counted, or has a measurement",
      "SELECT t.id FROM trials AS t JOIN attempts AS a ON a.trial = t.id LEFT JOIN "
      "measurements AS m ON m.attempt = a.id WHERE t.side <> '' AND (a.counted = 1 OR "
      "m.attempt IS NOT NULL)");
  none("two side runs of one kind with one layout",
      "SELECT final_of FROM trials WHERE side <> '' GROUP BY final_of, side HAVING count(*) > "
      "1");
  none("a trial that is queued or runs without an attempt",
      "SELECT id FROM trials WHERE state IN ('queued', 'running') AND id NOT IN (SELECT trial "
      "FROM attempts WHERE state <> 'ended')");
  none("a trial with two attempts that both count",
      "SELECT trial FROM attempts WHERE state <> 'ended' AND revoked = 0 GROUP BY trial "
      "HAVING count(*) > 1");
  none("an attempt that is open in an allocation that has ended",
      "SELECT a.id FROM attempts AS a JOIN allocations AS l ON l.id = a.allocation WHERE "
      "a.state <> 'ended' AND l.state = 'ended'");
  none("an attempt that ended before it started",
      "SELECT id FROM attempts WHERE started_at > 0 AND ended_at > 0 AND ended_at < "
      "started_at");
  none("a cancelled sweep with a trial that waits",
      "SELECT t.id FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE t.state = "
      "'planned' AND t.hidden = 0 AND s.state = 'cancelled'");
  none("a measured trial whose result does not count",
      "SELECT t.slug FROM trials AS t WHERE t.state = 'ended' AND t.outcome <> 'completed' AND "
      "t.side = '' AND "
      "t.prior IS NOT 'completed' AND EXISTS (SELECT 1 FROM attempts AS a JOIN measurements AS "
      "m ON m.attempt = a.id WHERE a.trial = t.id AND a.revoked = 0 AND m.mark IS NULL)");
  check_preempted();
  check_black_hole();
}

/// A node on which no lead starts is named before it has taken many jobs.
void RandomRun::check_black_hole() {
  if (site.slurm.black_hole == 0 || starts_in_black_hole_ == 0) return;
  constexpr int most = 16;
  const std::string state = site.sql(
      fmt::format("SELECT state FROM node_states WHERE node = 'n{}'", site.slurm.black_hole));
  // While as many others are excluded as may be, its evidence alone grows.
  const bool may_be_out =
      site.sql(
          "SELECT NOT EXISTS (SELECT 1 FROM sweeps WHERE resolved LIKE '%most_out: 0%' OR "
          "resolved LIKE '%most_out: ' || (SELECT count(*) FROM node_states WHERE state <> "
          "'trusted') || ' %')") == "1";
  if (!may_be_out || (!state.empty() && state != "trusted")) starts_in_black_hole_ = 0;
  if (starts_in_black_hole_ > most)
    throw Violation(fmt::format("n{} has taken {} jobs, and nobody names it", site.slurm.black_hole,
        starts_in_black_hole_));
}

/// A lead is called preempted only where a job of its allocation was put back or has ended.
void RandomRun::check_preempted() {
  std::istringstream tokens(
      site.sql("SELECT group_concat(token, ' ') FROM allocations WHERE state <> 'ended' AND "
               "end_outcome = 'preempted'"));
  for (std::string token; tokens >> token;) {
    const bool explained = std::any_of(site.slurm.jobs.begin(), site.slurm.jobs.end(),
        [&](const PlayedJob& job) { return job.token == token && (job.requeued || job.over()); });
    if (!explained) throw Violation(fmt::format("{} is called preempted, and goes on", token));
  }
}

/// From now on nothing goes wrong but attempts.
void RandomRun::heal() {
  unreadable_until_ = 0;
  site.slurm.reachable = true;
  site.slurm.lists_nothing = false;
  site.slurm.accounting_lag_s = 0;
  site.slurm.others_waiting = 0;
  site.slurm.look_takes_s = 0.5;
  site.slurm.answers.clear();
  site.fate.live();
  swarm_.in_allocations = {};
  for (PlayedJob& job : site.slurm.jobs) {
    job.hidden = job.unseen = false;
    if (job.pends() && !job.reason.starts_with("launch")) job.reason = "Priority";
  }
}

/// A held job that no list had while its allocation lived is its administrator's to remove.
void RandomRun::remove_held() {
  for (PlayedJob& job : site.slurm.jobs) {
    if (job.pends() && job.reason.starts_with("launch")) site.slurm.finish(job, "CANCELLED by 0");
  }
}

void RandomRun::finish() {
  constexpr int most_steps = 6000;
  constexpr int most_resumes = 40;
  int resumes = 0;
  bool started_again = false;
  std::int64_t commits = 0;
  int quiet = 0;
  for (int i = 0;; ++i) {
    if (i > most_steps)
      throw Violation(fmt::format("forgotten: {}",
          site.sql("SELECT group_concat(id || ' ' || state || ' ' || "
                   "submission || ' ' || job_state || ' ' || detail, '; ') "
                   "FROM allocations WHERE state <> 'ended'")));
    step();
    quiet = site.store.commits() == commits ? quiet + 1 : 0;
    commits = site.store.commits();
    if (quiet > 100) check_explained();
    if (site.alive() || must(site.store.work_left())) continue;
    remove_held();
    if (site.slurm.anything_alive()) continue;
    if (site.sql("SELECT count(*) FROM trials WHERE state <> 'ended' AND hidden = 0") == "0") {
      // One that was killed may have had runs to add, of which the database knows nothing.
      if (started_again) return;
      started_again = true;
      site.start();
      continue;
    }
    check_explained();
    if (++resumes > most_resumes) throw Violation("resumed for ever");
    for (const char* const name : {"a", "b"})
      (void)site.ask(Verb::resume, {name});
  }
}

/// Nothing happens: then status says why each sweep waits.
void RandomRun::check_explained() {
  for (const char* const name : {"a", "b"}) {
    const std::string waiting = site.sql(
        fmt::format("SELECT count(*) FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE "
                    "t.state <> 'ended' AND t.hidden = 0 AND s.name = '{}'",
            name));
    if (waiting == "0") continue;
    const SweepStatus status = site.status(name);
    const std::string told = must(read_file(site.home.trouble()));
    if (told.find(fmt::format("\"{}\"", name)) != std::string::npos) continue;
    const bool asked =
        site.sql(fmt::format("SELECT kind FROM events AS e JOIN sweeps AS s ON s.id = e.sweep "
                             "WHERE s.name = '{}' AND e.kind IN ('pause', 'paused', 'resume') "
                             "ORDER BY e.id DESC LIMIT 1",
            name)) == "pause";
    if (status.waiting.empty() && status.running.empty() && !asked)
      throw Violation(fmt::format("{} waits, and nobody says why", name));
  }
}

/// What the database says of each attempt is what was really done.
void RandomRun::check_told() {
  sqlite::Statement select(site.reader(),
      "SELECT a.nonce, a.outcome, a.counted, ifnull(a.started_at, 0), "
      "ifnull(a.ended_at, 0), m.tokens_per_s_per_gpu, m.attempt IS NOT "
      "NULL, (SELECT t.side <> '' FROM trials AS t WHERE t.id = a.trial) "
      "FROM attempts AS a LEFT JOIN measurements AS m ON m.attempt = a.id");
  auto row = select.use();
  while (row.next()) {
    ++attempts_;
    check_attempt(row);
  }
}

void RandomRun::check_attempt(const sqlite::Statement::Use& row) {
  const std::string nonce = row.text(0);
  const auto outcome = outcome_from(row.text(1));
  const bool measured = row.integer(6) != 0;
  const auto& attempts = site.slurm.attempts.by_nonce;
  const auto found = attempts.find(nonce);
  const PlayedAttempt played = found == attempts.end() ? PlayedAttempt{} : found->second;
  results_ += measured ? 1 : 0;
  const bool beside = row.integer(7) != 0;  // what it says is no measurement
  if (measured != (played.result.has_value() && !played.late && !beside))
    throw Violation(fmt::format(
        "attempt {}: measured {}, its result {}", nonce, measured, played.result.has_value()));
  if (measured && row.real(5) != *played.result)
    throw Violation(fmt::format("attempt {}: another's result", nonce));
  if (row.integer(3) != 0 && row.integer(3) != played.started)
    throw Violation(
        fmt::format("attempt {}: started {} µs late", nonce, row.integer(3) - played.started));
  const bool told =
      outcome && info(*outcome).retry == Retry::on_trial && *outcome != Outcome::timeout;
  const bool blamed = outcome == Outcome::crashed && played.said == Outcome::node_failure;
  if (told && played.said != outcome && !blamed)
    throw Violation(fmt::format("attempt {}: {}, and nobody said so", nonce, row.text(1)));
  const Timestamp ended = row.integer(4);
  if (played.started == 0 || row.integer(3) == 0 || played.ended == 0) return;
  if (ended > played.ended && !played.clock_was_set)
    throw Violation(
        fmt::format("attempt {}: booked {} s too long", nonce, (ended - played.ended) / second));
}

void RandomRun::clean_up() {
  for (const char* const name : {"a", "b"})
    (void)site.ask(Verb::remove, {name});
  jobs_ += static_cast<std::int64_t>(site.slurm.jobs.size());
  site.slurm.jobs.clear();
  site.slurm.attempts.by_nonce.clear();
}

}  // namespace shardsweep::testing
