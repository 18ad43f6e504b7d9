// SPDX-License-Identifier: Apache-2.0
#include "agent/running_attempt.hpp"

#include "agent/container_rank.hpp"
#include "agent/reap.hpp"
#include "agent/side_run.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "machine/processes.hpp"
#include "node/memory_kills.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace shardsweep::agent {
namespace {

using Stage = AttemptLife::Stage;
using Order = AttemptLife::Order;

constexpr int gone_wait_ms = 2000;

}  // namespace

RunningAttempt::RunningAttempt(const NodeIdentity& node, const Clock& clock, const Log& log,
                               AttemptSpec spec, AttemptPaths paths)
    : here_{node, clock, log, std::move(spec), std::move(paths)},
      life_(here_.spec, here_.has_rank_zero(), here_.now_s()),
      records_(here_),
      programs_(here_),
      storage_(here_),
      pace_(here_.spec.warmup) {
  if (node.ranks_are_step) step_.emplace(here_);
}

// ---- the start

void RunningAttempt::launch(const Environment& own, const std::vector<std::string>& devices,
                            const std::string& meet) {
  INVARIANT(ranks_.group() == 0 && life_.runs(), "ranks are started once", id(), ranks_.group(),
            life_.stage());
  memory_kills_ = memory_kills();
  if (auto changed = programs_.begin()) return hold_against_it(std::move(changed));
  follow_trainer();
  // What a step's ranks use on other hosts is not ours to see.
  if (spec().limits.others_cpu_limit > 0 && !step_) cpu_before_ = cpu_use(here_.now_s());
  if (step_) {
    launch_step(own, meet);
  } else {
    launch_ranks(own, devices, meet);
  }
}

void RunningAttempt::follow_trainer() {
  if (!spec().trainer) return;
  auto logs =
      TrainerLogs::make(spec(), here_.paths, step_ ? 1 : here_.nodes(), here_.node.index);
  if (!logs) {
    life_.findings().add(
        {here_.clock.now(), {Outcome::rejected, logs.error().what, SaidBy::agent}});
    return;
  }
  trainer_ = *std::move(logs);
  if (here_.has_rank_zero()) trainer_->begin(here_.clock);
}

void RunningAttempt::launch_ranks(const Environment& own,
                                  const std::vector<std::string>& devices,
                                  const std::string& meet) {
  const int first = here_.node.index * spec().ranks_per_node;
  const int count = std::clamp(spec().world - first, 0, spec().ranks_per_node);
  for (int local = 0; local < processes_of(spec(), count); ++local) {
    const int rank = first + local;
    const RankPlace place{rank, local, count, here_.node.name};
    Environment environment = rank_environment(own, spec(), place, devices);
    if (spec().nccl_debug) ask_nccl(environment, spec(), here_.paths.nccl_log(rank));
    RankProcess process{spec().argv,     std::move(environment),
                        here_.paths.dir, here_.log_of(rank),
                        ranks_.group(),  spec().limits.file_limit_bytes};
    complete_trainer(process, spec(), place, meet);
    if (const auto equipped = equip_side_run(process, spec(), here_.paths, rank); !equipped)
      return hold_against_it(
          Evidence{here_.clock.now(), {Outcome::lost, equipped.error().what, SaidBy::agent}});
    RankStart inside = enter_container(process, spec(), {rank, meet},
                                       place_of_container(own, spec().token, !devices.empty()),
                                       here_.paths.dir.string());
    Descriptor report;
    fail_point("node.spawn");
    const auto pid = start_rank(process, &report);
    if (!pid)
      return hold_against_it(
          Evidence{here_.clock.now(),
                   {Outcome::node_failure, fmt::format("rank {}: {}", rank, pid.error().what),
                    SaidBy::agent}});
    ranks_.add(rank, *pid, std::move(report));
    if (rank == 0) environment_.emplace(here_, *pid, std::move(inside));
    follow_records(rank);
    recorders_.follow(rank, here_.paths.recorder() / fmt::format("rank.{}", rank));
    const bool asks_version = !spec().container && spec().side == SideRun::none;
    if (rank == 0 && asks_version) start_probe(std::move(process));
  }
}

void RunningAttempt::launch_step(const Environment& own, const std::string& meet) {
  const auto srun = step_->launch(own, meet);
  if (!srun)
    return hold_against_it(
        Evidence{here_.clock.now(), {Outcome::node_failure, srun.error().what, SaidBy::agent}});
  ranks_.add(-1, *srun);
  environment_.emplace(here_, 0, step_->first_rank(own, meet));
  for (int rank = 0; rank < spec().world; ++rank)
    follow_records(rank);
}

void RunningAttempt::follow_records(int rank) {
  records_.follow(rank);
  if (trainer_) trainer_->follow(rank);
}

void RunningAttempt::start_probe(RankProcess like) {
  if (!trainer_) return;
  like.group = ranks_.group();
  probe_.start(spec(), std::move(like), trainer_->probe_output());
}

// ---- looking

void RunningAttempt::step() {
  read_records(false);
  read_recorders();
  look_at_environment();
  look_at_programs();
  look_at_pace();
  look_at_ranks();
  ranks_.reap_orphans();
  look_at_storage();
  switch (life_.stage()) {
    case Stage::running:
      return step_running();
    case Stage::looking:
      // Who has to leave has no time for gdb.
      if (life_.findings().was_told() || evidence_taking_->step(here_.now_s())) begin_ending();
      return;
    case Stage::ending:
      return obey(life_.next_of_ending(ranks_.all_gone(), here_.now_s()));
    case Stage::settling:
      return settle();
    case Stage::reaping:
      return reap();
    case Stage::over:
      return;
  }
}

void RunningAttempt::read_records(bool asked) {
  const bool all = records_.all_are_due(asked);
  if (trainer_) trainer_->look(here_.clock, all, probe_.runs());
  for (const auto& [rank, record] : asked ? records_.read_to_end() : records_.read(all))
    take_record(rank, record);
}

void RunningAttempt::take_record(int rank, const Record& record) {
  life_.see(rank, record, here_.now());
  if (rank == 0) pace_.see(record);
}

void RunningAttempt::read_recorders() {
  if (life_.runs() && recorders_.have_moved())
    life_.see_movement(recorders_.all_are_there(), here_.now_s());
}

double RunningAttempt::still_s() const {
  return recorders_.any_is_there() ? life_.watch().still_s(here_.now_s()) : -1;
}

void RunningAttempt::look_at_environment() {
  if (!environment_ || !life_.runs()) return;
  if (auto changed = environment_->look(life_.watch().step() > 0)) {
    life_.findings().refuse(*std::move(changed));
    begin_ending();
  }
}

void RunningAttempt::look_at_programs() {
  hold_against_it(programs_.look(life_.watch().step() > 0 || life_.stage() == Stage::reaping));
}

/// What was found of the attempt as such ends it at once.
void RunningAttempt::hold_against_it(std::optional<Evidence> evidence) {
  if (!evidence) return;
  life_.findings().add(*std::move(evidence));
  if (life_.runs()) begin_ending();
}

void RunningAttempt::look_at_pace() {
  const bool trains =
      life_.runs() && !life_.findings().measured() && !life_.findings().has_early_exit();
  if (!spec().watch_pace || gpus_ == nullptr || !trains) return;
  if (pace_.take_due(here_.now_s())) gpus_->add_paces(pace_.looks());
}

void RunningAttempt::look_at_ranks() {
  for (const RankExit& exit : ranks_.take_exits(spec().container.has_value())) {
    read_records(true);  // what it said before it went comes first
    take_exit(exit);
    fail_point("node.rank_ended");
  }
}

void RunningAttempt::take_exit(const RankExit& exit) {
  if (!life_.runs()) return;
  const bool terminated =
      exit.by_signal && exit.status == SIGTERM && !exit.not_started.has_value();
  if (terminated) life_.findings().see_termination(here_.now_s());
  life_.see_exit(exit.rank, failure_of(exit), here_.now());
}

/// None for an exit with 0.
std::optional<Evidence> RunningAttempt::failure_of(const RankExit& exit) const {
  const Timestamp at = here_.clock.now();
  if (!exit.by_signal && exit.status == 0) return std::nullopt;
  const bool told = life_.findings().was_told_just_now(here_.now_s());
  if (exit.not_started)
    return evidence_of_no_start(exit.rank, exit.not_started->error,
                                exit.not_started->what + " on " + here_.node.name, at);
  if (!exit.by_signal && exit.rank < 0) return step_->exit_evidence(exit.status, told);
  if (!exit.by_signal)
    return evidence_of_exit(exit.rank, exit.status, at, last_line_of(here_.log_of(exit.rank)),
                            trainer_ ? ExitCodes::any : ExitCodes::contract);
  const bool for_want_of_memory =
      exit.status == SIGKILL && memory_kills_ && memory_kills() > memory_kills_;
  return for_want_of_memory ? evidence_of_memory_kill(exit.rank, at)
                            : evidence_of_signal(exit.rank, exit.status, at, told);
}

void RunningAttempt::look_at_storage() {
  const bool watched = life_.runs() && !life_.findings().failed_at_s();
  hold_against_it(storage_.look(watched ? ranks_.numbers() : std::vector<int>()));
}

// ---- stages

void RunningAttempt::step_running() {
  const bool gone = ranks_.all_gone();
  const Order order =
      life_.next_of_running({.ranks_gone = gone,
                             .awaits_version = gone && probe_.is_awaited(here_.now_s()),
                             .refused_version = trainer_ ? trainer_->refused() : ""},
                            here_.now());
  if (order != Order::judge) return obey(order);
  const auto verdict = life_.overdue(here_.now_s());
  if (!verdict) return;
  // Nobody else has to be asked about a step that has not started.
  const bool no_step = step_ && !step_->has_started();
  if (no_step || verdict->outcome == Outcome::timeout) end(verdict->outcome, verdict->cause);
}

void RunningAttempt::end(Outcome outcome, const std::string& why) {
  const bool by_limit = outcome == Outcome::hung || outcome == Outcome::timeout;
  if (life_.runs() && by_limit && step_ && !step_->has_started())
    return hold_against_it(step_->no_start_evidence(why));
  obey(life_.end(outcome, why, here_.now()), why);
}

void RunningAttempt::obey(Order order, const std::string& why) {
  switch (order) {
    case Order::wait:
    case Order::judge:
      return;
    case Order::look:
      return begin_looking(why);
    case Order::terminate:
      return terminate();
    case Order::kill:
      return ranks_.kill();
    case Order::settle:
      return settle();
    case Order::reap:
      return reap();
  }
}

void RunningAttempt::begin_looking(const std::string& why) {
  NodeEvidence seen;
  seen.node = here_.node.name;
  seen.attempt = id();
  seen.why = why;
  seen.still_s = still_s();
  if (gpus_ != nullptr) seen.gpus = gpus_->all();
  std::vector<EvidenceTaking::Rank> ranks;
  for (const auto& [rank, pid] : ranks_.living()) {
    if (rank >= 0) ranks.push_back({rank, pid});
  }
  evidence_taking_.emplace(here_.paths, std::move(seen), std::move(ranks),
                           spec().limits.evidence_s, spec().limits.gdb_s, here_.now_s());
}

void RunningAttempt::begin_ending() {
  life_.begin_ending(here_.now_s());
  terminate();
}

void RunningAttempt::terminate() {
  fail_point("node.end_ranks");
  evidence_taking_.reset();
  ranks_.signal_all(SIGTERM);
  ranks_.signal_all(SIGCONT);  // a stopped process takes its SIGTERM only then
}

void RunningAttempt::settle() {
  probe_.end();
  const auto below = descendants_of(::getpid());
  const bool left = std::any_of(below.begin(), below.end(), [](pid_t pid) {
    const auto stat = process_stat(pid);
    return stat && stat->state != 'Z';
  });
  const Order order = life_.next_of_settling(left, here_.now_s());
  if (order == Order::reap && left) name_leftovers();
  obey(order);
}

void RunningAttempt::reap() {
  fail_point("node.reap");
  const bool clean = kill_children_once();
  if (!life_.has_reaped(clean, here_.now_s())) return;
  if (!clean) {
    beside_.stuck = true;
    for (const pid_t pid : descendants_of(::getpid()))
      here_.log.line(fmt::format("process {} can't be ended: {}", pid, process_cmdline(pid)));
  }
  fail_point("node.reaped");
  // They get their time here too: what they know decides whether this is a measurement.
  if (trainer_ && life_.findings().empty() && trainer_->waits_for_facts(here_.clock)) return;
  finish();
  INVARIANT(clean || stuck(), "an attempt is over when no child of it is left", id(),
            ranks_.numbers().size());
  life_.finish(here_.now_s());
}

// ---- the end: everything that wrote into its files is gone

void RunningAttempt::finish() {
  scan_for_marker();
  look_for_others();
  look_at_programs();
  if (environment_) {
    if (auto changed = environment_->finish(image_digest_))
      life_.findings().refuse(*std::move(changed));
  }
  finish_trainer();
  if (trainer_) life_.refuse_version(trainer_->refused(), here_.clock.now());
  read_records(true);
  if (!life_.is_cut_here()) {
    read_logs();
  } else if (!trainer_ || !trainer_->error()) {
    write_cut_result();
  }
  judge_storage();
  collect_snapshots(spec(), here_.paths);
}

void RunningAttempt::name_leftovers() {
  for (const pid_t pid : descendants_of(::getpid())) {
    const auto stat = process_stat(pid);
    if (!stat || stat->state == 'Z') continue;
    const std::string cmdline = process_cmdline(pid);
    here_.log.line(
        fmt::format("attempt {}: process {} outlived its rank: {}", id(), pid, cmdline));
    beside_.add_leftover(cmdline);
  }
}

/// What left the tree by another way than a parent's death (it had a subreaper of its own).
void RunningAttempt::scan_for_marker() {
  const std::string attempt = fmt::format("{}/{}/", spec().token, id());
  const std::string marker = attempt + here_.node.name;
  // A step's ranks are slurmstepd's children: of those on other hosts nothing is known here.
  const auto marked = find_marked([&](std::string_view value) {
    return step_ ? value.starts_with(attempt) : value == marker;
  });
  for (const auto& process : marked.found) {
    here_.log.line(fmt::format("attempt {}: process {} carries its marker: {}", id(),
                               process.pid, process.cmdline));
    beside_.add_leftover(process.cmdline);
    if (!end_process(process, gone_wait_ms)) beside_.stuck = true;
  }
}

/// Now that all of ours was waited for, what is left over was somebody else's.
void RunningAttempt::look_for_others() {
  if (!cpu_before_) return;
  const auto after = cpu_use(here_.now_s());
  if (!after) return;
  const double share = others_share(*cpu_before_, *after);
  beside_.others_cpu = share;
  const double limit = spec().limits.others_cpu_limit;
  if (share <= limit) return;
  beside_.disturbed = fmt::format("others used {:.0f} % of the CPUs of {} (limit {:.0f} %)",
                                  share * 100, here_.node.name, limit * 100);
}

/// That the log of an attempt that was cut short ends early is no fault.
void RunningAttempt::finish_trainer() {
  if (!trainer_) return;
  if (const auto by = life_.cut_by()) {
    trainer_->finish_cut(here_.clock, *by);
  } else {
    trainer_->finish(here_.clock, !life_.findings().empty());
  }
  if (trainer_->has_result()) life_.findings().see_result();
  // Records are read back where rank 0 is; its node may have ended before.
  if (trainer_->error() && !here_.has_rank_zero())
    take_record(ranks_.numbers().back(), *trainer_->error());
  if (!trainer_->fault().empty()) here_.log.line("its records: " + trainer_->fault());
}

/// Now that nobody else writes there. A runner that was through before our signal has written
/// its own.
void RunningAttempt::write_cut_result() {
  if (life_.findings().measured()) return;
  fail_point("node.result");
  auto written = LineWriter::open(here_.paths.records()).and_then([&](LineWriter writer) {
    return writer.append(life_.cut_result_line(), true);
  });
  fail_point("node.result_written");
  if (!written)
    return life_.findings().add(
        {here_.clock.now(), {Outcome::lost, written.error().what, SaidBy::agent}});
  cut_result_is_ours_ = true;
  life_.findings().see_result();
}

void RunningAttempt::read_logs() {
  std::vector<RankLog> logs;
  std::vector<RankLog> nccl;
  const auto add = [&](int rank) {
    logs.push_back({rank, here_.log_of(rank)});
    if (rank >= 0) nccl.push_back({rank, here_.paths.nccl_log(rank)});
  };
  if (step_) {
    for (int rank = 0; rank < spec().world; ++rank)
      add(rank);
    add(-1);
  } else {
    for (const int rank : ranks_.numbers())
      add(rank);
  }
  // What NCCL says there it does not say in the ranks' output.
  if (spec().nccl_debug) {
    beside_.nccl =
        summarise_nccl(nccl, here_.paths.evidence() / (here_.node.name + ".nccl.txt"));
    logs.insert(logs.end(), nccl.begin(), nccl.end());
  }
  Findings& findings = life_.findings();
  join_logs(findings.evidence(), logs, spec().rules, here_.clock.now(),
            !findings.measured() && result_is_due());
}

void RunningAttempt::judge_storage() {
  Findings& findings = life_.findings();
  const bool result_missing = findings.has_early_exit() && result_is_due();
  if (findings.measured() || (findings.empty() && !result_missing)) return;
  const std::string why = storage_.judge();
  if (why.empty()) return;
  here_.log.line(fmt::format("attempt {}: {}", id(), why));
  blame_storage(findings.evidence(), "no file could be written: " + why, here_.clock.now());
}

/// Of a runner rank 0 writes it, of a trainer whoever prints the train steps.
bool RunningAttempt::result_is_due() const {
  return trainer_ ? !trainer_->is_elsewhere() : here_.has_rank_zero();
}

NodeEnded RunningAttempt::ended() const {
  INVARIANT(over(), "only what is over has an end", id(), life_.stage());
  const Evidence first = life_.findings().verdict(result_is_due());
  NodeEnded ended{.attempt = id(), .ending = first.ending, .at = first.at};
  Ending& ending = ended.ending;
  ending.node.clear();
  ending.fragmented = ending.fragmented && ending.outcome == Outcome::oom;
  ended.cut_short = cut_result_is_ours_;
  const Pace pace = pace_.pace();
  ended.sm_clock_mhz = pace.sm_clock_mhz;
  ended.power_w = pace.power_w;
  ended.held_back = static_cast<std::int64_t>(pace.held_back);
  if (step_) step_->name_node(ending, first);
  Beside beside = beside_;
  beside.garbage = records_.garbage();
  beside.one_host_only = step_ && spec().world > spec().ranks_per_node;
  beside.tell(ending);
  return ended;
}

}  // namespace shardsweep::agent
