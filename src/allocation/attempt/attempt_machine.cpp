// SPDX-License-Identifier: Apache-2.0
#include "attempt/attempt_machine.hpp"

#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <csignal>

namespace shardsweep {

using Stage = AttemptLife::Stage;
using Order = AttemptLife::Order;

AttemptMachine::AttemptMachine(
    AttemptSpec spec, bool has_rank_zero, bool is_step, std::unique_ptr<RanksOutside> ranks)
    : spec_(std::move(spec)),
      is_step_(is_step),
      ranks_(std::move(ranks)),
      life_(spec_, has_rank_zero, ranks_->now().s),
      pace_(spec_.warmup) {}

void AttemptMachine::launch() {
  INVARIANT(!launched_ && life_.runs(),
      "ranks are started at most once, and only while the attempt runs", id(), life_.stage());
  launched_ = true;
  std::vector<Evidence> beside;
  auto against = ranks_->start(beside);
  for (Evidence& one : beside)
    life_.findings().add(std::move(one));
  hold_against_it(std::move(against));
}

// ---- looking

void AttemptMachine::round() {
  read_records(false);
  if (life_.runs() && ranks_->recorders_have_moved())
    life_.see_movement(ranks_->all_recorders_are_there(), ranks_->now().s);
  look_at_environment();
  look_at_programs();
  look_at_pace();
  look_at_ranks();
  look_at_step();
  ranks_->reap_orphans();
  hold_against_it(
      ranks_->look_at_storage(life_.runs() && !life_.findings().failed_at_s().has_value()));
  switch (life_.stage()) {
    case Stage::running:
      return step_running();
    case Stage::looking:
      // Preempted: no time for stack traces.
      if (life_.findings().was_told() || ranks_->has_looked()) begin_ending();
      return;
    case Stage::ending:
      return obey(life_.next_of_ending(ranks_->all_gone(), ranks_->now().s));
    case Stage::settling:
      return settle();
    case Stage::reaping:
      return reap();
    case Stage::over:
      return;
  }
}

void AttemptMachine::read_records(bool asked) {
  for (const auto& [rank, record] : ranks_->records(asked))
    take_record(rank, record);
}

void AttemptMachine::take_record(int rank, const Record& record) {
  life_.see(rank, record, ranks_->now());
  if (rank == 0) pace_.see(record);
}

double AttemptMachine::still_s() const {
  return ranks_->any_recorder_is_there() ? life_.watch().still_s(ranks_->now().s) : -1;
}

std::optional<Suspect> AttemptMachine::suspicion() const {
  return life_.suspicion(ranks_->now().s, ranks_->living());
}

void AttemptMachine::look_at_environment() {
  if (!life_.runs()) return;
  if (auto changed = ranks_->look_at_environment(life_.watch().step() > 0)) {
    life_.findings().refuse(*std::move(changed));
    begin_ending();
  }
}

void AttemptMachine::look_at_programs() {
  hold_against_it(
      ranks_->look_at_programs(life_.watch().step() > 0 || life_.stage() == Stage::reaping));
}

/// Evidence against the whole attempt ends it at once.
void AttemptMachine::hold_against_it(std::optional<Evidence> evidence) {
  if (!evidence) return;
  life_.findings().add(*std::move(evidence));
  if (life_.runs()) begin_ending();
}

void AttemptMachine::look_at_pace() {
  const bool trains =
      life_.runs() && !life_.findings().measured() && !life_.findings().has_early_exit();
  if (!spec_.watch_pace || !trains) return;
  if (pace_.take_due(ranks_->now().s)) ranks_->look_at_pace(pace_.looks());
}

void AttemptMachine::look_at_ranks() {
  for (const RankExit& exit : ranks_->exits()) {
    read_records(true);  // records written before the exit come first
    take_exit(exit);
    ranks_->rank_is_noted();
  }
}

/// Watches a Slurm step: srun ends it itself, mostly at once.
void AttemptMachine::look_at_step() {
  if (!is_step_ || !life_.runs() || life_.is_failing()) return;
  const Moment now = ranks_->now();
  if (auto said = ranks_->failure_in_step(life_.findings().was_told_just_now(now.s)))
    life_.see_failing(*std::move(said), now.s);
}

void AttemptMachine::take_exit(const RankExit& exit) {
  if (!life_.runs()) return;
  const Moment now = ranks_->now();
  const bool terminated = exit.by_signal && exit.status == SIGTERM && !exit.not_started.has_value();
  if (terminated) life_.findings().see_termination(now.s);
  const bool failed = exit.by_signal || exit.status != 0;
  life_.see_exit(exit.rank,
      failed ? ranks_->failure_of(
                   exit, life_.findings().was_told_just_now(now.s), life_.watch().step() > 0)
             : std::nullopt,
      now);
}

// ---- stages

void AttemptMachine::step_running() {
  const bool gone = ranks_->all_gone();
  const Order order = life_.next_of_running({.ranks_gone = gone,
                                                .awaits_version = gone && ranks_->awaits_version(),
                                                .refused_version = ranks_->refused_version()},
      ranks_->now());
  if (order != Order::judge) return obey(order);
  const auto verdict = life_.overdue(ranks_->now().s);
  if (!verdict) return;
  // A step that has not started needs no answer from other nodes.
  if (ranks_->waits_for_step() || verdict->outcome == Outcome::timeout)
    end(verdict->outcome, verdict->cause);
}

void AttemptMachine::end(Outcome outcome, const std::string& why) {
  const bool by_limit = outcome == Outcome::hung || outcome == Outcome::timeout;
  if (life_.runs() && by_limit && ranks_->waits_for_step())
    return hold_against_it(ranks_->no_start_evidence(why));
  obey(life_.end(outcome, why, ranks_->now()), why);
}

void AttemptMachine::obey(Order order, const std::string& why) {
  switch (order) {
    case Order::wait:
    case Order::judge:
      return;
    case Order::look:
      return ranks_->begin_looking(why, still_s());
    case Order::terminate:
      return ranks_->terminate();
    case Order::kill:
      return ranks_->kill();
    case Order::settle:
      return settle();
    case Order::reap:
      return reap();
  }
}

void AttemptMachine::begin_ending() {
  life_.begin_ending(ranks_->now().s);
  ranks_->terminate();
}

void AttemptMachine::settle() {
  const bool left = ranks_->anybody_is_left();
  const Order order = life_.next_of_settling(left, ranks_->now().s);
  if (order == Order::reap && left) {
    for (const std::string& cmdline : ranks_->leftovers())
      beside_.add_leftover(cmdline);
  }
  obey(order);
}

void AttemptMachine::reap() {
  const bool clean = ranks_->reap_once();
  if (!life_.has_reaped(clean, ranks_->now().s)) return;
  if (!clean) {
    beside_.stuck = true;
    ranks_->name_stuck();
  }
  ranks_->is_reaped();
  // Wait here too for facts from other nodes: they decide whether this attempt is a measurement.
  if (life_.findings().empty() && ranks_->waits_for_facts()) return;
  finish();
  INVARIANT(clean || stuck(), "an attempt is over when no child of it is left", id());
  life_.finish(ranks_->now().s);
}

// ---- the end: everything that wrote into its files is gone

void AttemptMachine::finish() {
  Findings& findings = life_.findings();
  ranks_->end_marked(beside_);
  ranks_->look_for_others(beside_);
  look_at_programs();
  if (auto changed = ranks_->finish_environment()) findings.refuse(*std::move(changed));
  // The log of an attempt that was cut short may end early without a fault.
  const auto trainer = ranks_->finish_trainer(life_.cut_by(), !findings.empty());
  if (trainer.has_result) findings.see_result();
  if (trainer.error) take_record(trainer.error->first, trainer.error->second);
  life_.refuse_version(ranks_->refused_version(), ranks_->now().at);
  read_records(true);
  if (!life_.is_cut_here()) {
    ranks_->read_logs(
        findings.evidence(), beside_, !findings.measured() && ranks_->result_is_due());
  } else if (!trainer.refuses) {
    write_cut_result();
  }
  judge_storage();
  ranks_->collect_snapshots();
}

/// Writes the result of an attempt that was cut short, now that no rank writes there. A runner that
/// was through before our signal has written its own.
void AttemptMachine::write_cut_result() {
  Findings& findings = life_.findings();
  if (findings.measured()) return;
  const auto written = ranks_->write_result(life_.cut_result_line());
  if (!written)
    return findings.add({ranks_->now().at, {Outcome::lost, written.error().what, SaidBy::agent}});
  cut_result_is_ours_ = true;
  findings.see_result();
}

void AttemptMachine::judge_storage() {
  Findings& findings = life_.findings();
  const bool result_missing = findings.has_early_exit() && ranks_->result_is_due();
  if (findings.measured() || (findings.empty() && !result_missing)) return;
  const std::string why = ranks_->storage_fault();
  if (why.empty()) return;
  ranks_->log(fmt::format("attempt {}: {}", id(), why));
  blame_storage(findings.evidence(), "no file could be written: " + why, ranks_->now().at);
}

NodeEnded AttemptMachine::ended() const {
  INVARIANT(over(), "only what is over has an end", id(), life_.stage());
  const Evidence first = life_.findings().verdict(ranks_->result_is_due());
  NodeEnded ended{.attempt = id(), .ending = first.ending, .at = first.at};
  Ending& ending = ended.ending;
  ending.node.clear();
  ending.fragmented = ending.fragmented && ending.outcome == Outcome::oom;
  ended.cut_short = cut_result_is_ours_;
  const Pace pace = pace_.pace();
  ended.sm_clock_mhz = pace.sm_clock_mhz;
  ended.power_w = pace.power_w;
  ended.held_back = static_cast<std::int64_t>(pace.held_back);
  ranks_->name_node(ending, first);
  Beside beside = beside_;
  beside.garbage = ranks_->garbage();
  beside.one_host_only = is_step_ && spec_.world > spec_.ranks_per_node;
  beside.tell(ending);
  return ended;
}

}  // namespace shardsweep
