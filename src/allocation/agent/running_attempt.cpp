// SPDX-License-Identifier: Apache-2.0
#include "agent/running_attempt.hpp"

#include "agent/container_rank.hpp"
#include "agent/rank_logs.hpp"
#include "agent/reap.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "machine/processes.hpp"
#include "node/memory_kills.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace shardsweep::agent {
namespace {

// A rank whose peer has failed needs a moment to notice, to say so and to leave.
constexpr double peer_grace_s = 2;
// Children of a rank that end with it (a loader's pipe closes) are not called leaked.
constexpr double settle_s = 0.1;
// A SIGTERM within this time of our own came from the same sender.
constexpr double told_window_s = 2;
// Slurm signals the ranks first, and us within 10 ms; a busy node takes longer.
constexpr double told_wait_s = 1;
// Not gone so long after SIGKILL: state D. Nothing here can help, the node is out.
constexpr double unkillable_s = 30;
// One question to the file system; ranks that can't write soon end.
constexpr double storage_look_s = 1;
// A container's runtime that lives on says by its exit code which signal has ended the rank.
constexpr int signal_codes = 128;
// Ranks but the first one write a record only when they fail, which their exit shows too.
constexpr double other_records_s = 1;

bool is_signal_code(int status) {
  return status > signal_codes && status < signal_codes + SIGRTMIN;
}

}  // namespace

RunningAttempt::RunningAttempt(const NodeIdentity& node, const Clock& clock, const Log& log,
                               AttemptSpec spec, AttemptPaths paths)
    : node_(node),
      clock_(clock),
      log_(log),
      spec_(std::move(spec)),
      paths_(std::move(paths)),
      watch_(spec_, seconds_of(clock)),
      cut_(spec_) {}

void RunningAttempt::launch(const Environment& own, const std::vector<std::string>& devices,
                            const std::string& meet) {
  INVARIANT(ranks_.empty() && stage_ == Stage::running, "ranks are started once", spec_.attempt,
            ranks_.size(), stage_);
  memory_kills_ = memory_kills();
  if (!has_its_programs()) return begin_ending();
  announce_programs();
  follow_trainer();
  // What a step's ranks use on other hosts is not ours to see.
  if (spec_.limits.others_cpu_limit > 0 && !node_.ranks_are_step)
    cpu_before_ = cpu_use(seconds_of(clock_));
  if (node_.ranks_are_step) {
    launch_step(own, meet);
  } else {
    launch_ranks(own, devices, meet);
  }
}

void RunningAttempt::launch_ranks(const Environment& own,
                                  const std::vector<std::string>& devices,
                                  const std::string& meet) {
  const int first = node_.index * spec_.ranks_per_node;
  const int count = std::clamp(spec_.world - first, 0, spec_.ranks_per_node);
  for (int local = 0; local < processes_of(spec_, count); ++local) {
    const int rank = first + local;
    const RankPlace place{rank, local, count, node_.name};
    Environment environment = rank_environment(own, spec_, place, devices);
    if (spec_.nccl_debug) ask_nccl(environment, spec_, paths_.nccl_log(rank));
    RankProcess process{spec_.argv,
                        std::move(environment),
                        paths_.dir,
                        paths_.rank_log(rank),
                        ranks_.empty() ? 0 : ranks_.front().pid,
                        spec_.limits.file_limit_bytes};
    complete_trainer(process, spec_, place, meet, devices);
    RankStart inside = enter_container(process, spec_, {rank, meet},
                                       place_of_container(own, spec_.token, !devices.empty()),
                                       paths_.dir.string());
    Descriptor report;
    fail_point("node.spawn");
    const auto pid = start_rank(process, &report);
    if (!pid) {
      evidence_.push_back({clock_.now(), Outcome::node_failure,
                           fmt::format("rank {}: {}", rank, pid.error().what), SaidBy::agent});
      begin_ending();
      return;
    }
    ranks_.push_back({rank, *pid, false, std::move(report)});
    if (rank == 0) follow_environment(*pid, std::move(inside));
    follow_records(rank);
    recorders_.emplace(rank, paths_.recorder() / fmt::format("rank.{}", rank));
    if (rank == 0 && !spec_.container) start_probe(std::move(process));
  }
}

void RunningAttempt::follow_records(int rank) {
  const std::string suffix = rank == 0 ? "" : fmt::format(".{}", rank);
  records_.emplace(rank, LineReader(paths_.records().string() + suffix));
  if (trainer_) trainer_->follow(rank);
}

std::filesystem::path RunningAttempt::log_of(int rank) const {
  return rank < 0 ? paths_.dir / "step.out" : paths_.rank_log(rank);
}

void RunningAttempt::step() {
  read_records(false);
  read_recorders();
  read_environment();
  look_at_programs();
  look_at_pace();
  look_at_ranks();
  reap_orphans();
  watch_storage();
  switch (stage_) {
    case Stage::running:
      return step_running();
    case Stage::looking:
      // Who has to leave has no time for gdb.
      if (told_at_s_ || evidence_taking_->step(seconds_of(clock_))) begin_ending();
      return;
    case Stage::ending:
      return step_ending();
    case Stage::settling:
      return step_settling();
    case Stage::reaping:
      return step_reaping();
    case Stage::over:
      return;
  }
}

// ---- looking

/// Each look opens a file, on a network file system a question to its server: those of most
/// ranks are looked at once a second, and when their rank has ended.
void RunningAttempt::read_records(bool all) {
  const double now_s = seconds_of(clock_);
  all = all || now_s - others_read_at_s_ >= other_records_s;
  if (all) others_read_at_s_ = now_s;
  if (trainer_) trainer_->look(clock_, all, probe_.runs());
  for (auto& [rank, reader] : records_) {
    if (rank != 0 && !all) continue;
    const auto lines = reader.look();
    if (!lines) continue;  // looked at again; silence has its limit
    for (const auto& line : *lines) {
      const auto record = decode_record(line);
      if (!record) {
        if (garbage_++ == 0) log_.line(fmt::format("rank {}: {}", rank, record.error().what));
      } else if (record->nonce.empty() || record->nonce == spec_.nonce) {
        take_record(rank, *record);
      }
    }
  }
}

/// Of the ranks here: a file that is mapped on another node shows nothing on this one.
void RunningAttempt::read_recorders() {
  if (stage_ != Stage::running) return;
  bool moved = false;
  for (auto& [rank, recorder] : recorders_)
    moved = recorder.has_moved() || moved;
  if (moved) watch_.see_movement(has_recorders(), seconds_of(clock_));
}

bool RunningAttempt::has_recorders() const {
  return !recorders_.empty() &&
         std::all_of(recorders_.begin(), recorders_.end(),
                     [](const auto& one) { return one.second.is_there(); });
}

double RunningAttempt::still_s() const {
  const bool any = std::any_of(recorders_.begin(), recorders_.end(),
                               [](const auto& one) { return one.second.is_there(); });
  return any ? watch_.still_s(seconds_of(clock_)) : -1;
}

std::optional<Suspect> RunningAttempt::suspicion() const {
  // Where rank 0 is elsewhere its records are too, and only the node that has it can tell.
  if (stage_ != Stage::running || failed_at_s_ || !has_rank_zero()) return std::nullopt;
  const auto verdict = watch_.judge(seconds_of(clock_));
  if (!verdict || verdict->outcome != Outcome::hung) return std::nullopt;
  return Suspect{spec_.attempt, watch_.limit_s(), verdict->cause};
}

void RunningAttempt::take_record(int rank, const Record& record) {
  const double now_s = seconds_of(clock_);
  // Rank 0 speaks for the world; the others only have something to say when they fail.
  if (rank == 0 || !has_rank_zero()) watch_.see(record, now_s);
  if (record.type == RecordType::result && record.nonce == spec_.nonce) measured_ = true;
  if (rank == 0) note_timed(record);
  if (rank == 0 && stage_ == Stage::running) hopeless_ = cut_.see(record) || hopeless_;
  if (record.type != RecordType::error) return;
  // After our own SIGTERM what ranks complain about is our doing.
  if (stage_ == Stage::ending && (cutting_ || record.t == 0)) return;
  evidence_.push_back(evidence_of_error(record, rank, clock_.now()));
  if (!failed_at_s_) failed_at_s_ = now_s;
}

/// A rank that has ended stays a zombie until the end: so its pid, which is the process group's
/// number, can't become a stranger's.
void RunningAttempt::look_at_ranks() {
  for (auto& rank : ranks_) {
    if (rank.gone) continue;
    siginfo_t info{};
    const int answer =
        ::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if (answer != 0 || info.si_pid != rank.pid) continue;
    rank.gone = true;
    read_records(true);  // what it said before it went comes first
    const bool by_signal =
        spec_.container && info.si_code == CLD_EXITED && is_signal_code(info.si_status);
    note_exit(rank, by_signal ? CLD_KILLED : info.si_code,
              by_signal ? info.si_status - signal_codes : info.si_status);
    fail_point("node.rank_ended");
  }
}

void RunningAttempt::note_exit(const Rank& rank, int code, int status) {
  const double now_s = seconds_of(clock_);
  if (stage_ != Stage::running) return;
  if (code == CLD_EXITED && status == 0) {
    if (!left_early_) left_early_ = evidence_of_early_exit(rank.number, clock_.now());
    watch_.begin_teardown(now_s);
    return;
  }
  const bool told = told_at_s_ && now_s - *told_at_s_ < told_window_s;
  if (const auto start = start_failure(rank.report)) {
    evidence_.push_back(evidence_of_no_start(rank.number, start->error,
                                             start->what + " on " + node_.name, clock_.now()));
  } else if (code == CLD_EXITED && rank.number < 0) {
    evidence_.push_back(step_exit(status, told));
  } else if (code == CLD_EXITED) {
    if (auto failure = evidence_of_exit(rank.number, status, clock_.now(),
                                        last_line_of(log_of(rank.number)),
                                        trainer_ ? ExitCodes::any : ExitCodes::contract))
      evidence_.push_back(*std::move(failure));
  } else {
    evidence_.push_back(death(rank, status, told));
    if (status == SIGTERM && !terminated_at_s_) terminated_at_s_ = now_s;
  }
  if (!failed_at_s_) failed_at_s_ = now_s;
}

Evidence RunningAttempt::death(const Rank& rank, int signal, bool told) const {
  const bool memory = signal == SIGKILL && memory_kills_ && memory_kills() > memory_kills_;
  return memory ? evidence_of_memory_kill(rank.number, clock_.now())
                : evidence_of_signal(rank.number, signal, clock_.now(), told);
}

void RunningAttempt::reap_orphans() {
  for (const pid_t pid : children_of(::getpid())) {
    const bool is_rank = std::any_of(ranks_.begin(), ranks_.end(),
                                     [&](const Rank& rank) { return rank.pid == pid; });
    if (!is_rank) ::waitpid(pid, nullptr, WNOHANG);
  }
}

bool RunningAttempt::all_gone() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.gone; });
}

// ---- stages

void RunningAttempt::step_running() {
  const double now_s = seconds_of(clock_);
  const bool told_next = terminated_at_s_ && !told_at_s_;
  if (told_next && now_s - *terminated_at_s_ < told_wait_s) return;
  if (all_gone()) {
    if (!failed_at_s_ && probe_is_due()) return;
    stage_ = Stage::settling;
    stage_since_s_ = now_s;
    return step_settling();
  }
  if (trainer_ && !trainer_->refused().empty()) {
    refuse_version();
    return begin_ending();
  }
  if (failed_at_s_) {
    if (now_s - *failed_at_s_ > std::min(peer_grace_s, spec_.limits.grace_s)) begin_ending();
    return;
  }
  if (hopeless_ && !measured_) {
    cutting_ = true;
    return begin_ending();
  }
  const auto verdict = watch_.judge(now_s);
  if (!verdict) return;
  // Nobody else has to be asked about a step that has not started.
  const bool no_step = node_.ranks_are_step && !step_has_started();
  if (no_step || verdict->outcome == Outcome::timeout) end(verdict->outcome, verdict->cause);
}

void RunningAttempt::end(Outcome outcome, const std::string& why) {
  // Who leaves, or is not wanted any more, has no time for the rest of the evidence.
  const bool by_limit = outcome == Outcome::hung || outcome == Outcome::timeout;
  const bool by_peer = outcome == Outcome::crashed;
  if (stage_ == Stage::looking && !by_limit && !by_peer) return begin_ending();
  if (stage_ != Stage::running) return;
  if (by_limit && node_.ranks_are_step && !step_has_started()) {
    evidence_.push_back(no_step(why));
    return begin_ending();
  }
  evidence_.push_back(
      {clock_.now(), {outcome, why, by_limit ? SaidBy::policy : SaidBy::request}});
  if (by_limit) return begin_looking(why);
  begin_ending();
}

void RunningAttempt::begin_looking(const std::string& why) {
  NodeEvidence seen;
  seen.node = node_.name;
  seen.attempt = spec_.attempt;
  seen.why = why;
  seen.still_s = still_s();
  if (gpus_ != nullptr) seen.gpus = gpus_->all();
  std::vector<EvidenceTaking::Rank> ranks;
  for (const Rank& rank : ranks_) {
    if (!rank.gone && rank.number >= 0) ranks.push_back({rank.number, rank.pid});
  }
  stage_ = Stage::looking;
  evidence_taking_.emplace(paths_, std::move(seen), std::move(ranks), spec_.limits.evidence_s,
                           spec_.limits.gdb_s, seconds_of(clock_));
}

void RunningAttempt::told_to_stop() {
  told_at_s_ = seconds_of(clock_);
  if (!terminated_at_s_ || *told_at_s_ - *terminated_at_s_ >= told_window_s) return;
  for (Evidence& evidence : evidence_) {
    if (evidence.ending.signal == SIGTERM)
      evidence = evidence_of_signal(evidence.rank, SIGTERM, evidence.at, true);
  }
}

void RunningAttempt::begin_ending() {
  fail_point("node.end_ranks");
  evidence_taking_.reset();
  stage_ = Stage::ending;
  stage_since_s_ = seconds_of(clock_);
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // a stopped process takes its SIGTERM only then
}

void RunningAttempt::signal_all(int signal) const {
  const pid_t group = ranks_.empty() ? 0 : ranks_.front().pid;
  if (group != 0) ::kill(-group, signal);
  for (const pid_t pid : children_of(::getpid())) {
    if (::getpgid(pid) != group) ::kill(pid, signal);
  }
}

void RunningAttempt::step_ending() {
  const double now_s = seconds_of(clock_);
  if (all_gone()) {
    stage_ = Stage::settling;
    stage_since_s_ = now_s;
    return step_settling();
  }
  if (now_s - stage_since_s_ < spec_.limits.grace_s) return;
  if (!ranks_.empty()) ::kill(-ranks_.front().pid, SIGKILL);
  for (const auto& rank : ranks_) {
    if (!rank.gone) ::kill(rank.pid, SIGKILL);  // it may have left the group
  }
  if (now_s - stage_since_s_ < spec_.limits.grace_s + unkillable_s) return;
  stage_ = Stage::reaping;
  stage_since_s_ = now_s;
}

void RunningAttempt::step_settling() {
  probe_.end();
  const auto below = descendants_of(::getpid());
  const bool left = std::any_of(below.begin(), below.end(), [](pid_t pid) {
    const auto stat = process_stat(pid);
    return stat && stat->state != 'Z';
  });
  if (left && seconds_of(clock_) - stage_since_s_ < settle_s) return;
  if (left) name_leftovers();
  stage_ = Stage::reaping;
  stage_since_s_ = seconds_of(clock_);
  step_reaping();
}

void RunningAttempt::step_reaping() {
  fail_point("node.reap");
  const bool clean = kill_children_once();
  if (!clean && seconds_of(clock_) - stage_since_s_ < unkillable_s) return;
  if (!clean) {
    stuck_ = true;
    for (const pid_t pid : descendants_of(::getpid()))
      log_.line(fmt::format("process {} can't be ended: {}", pid, process_cmdline(pid)));
  }
  fail_point("node.reaped");
  // They get their time here too: what they know decides whether this is a measurement.
  if (trainer_ && evidence_.empty() && trainer_->waits_for_facts(clock_)) return;
  scan_for_marker();
  look_for_others();
  look_at_programs();
  write_environment();
  finish_trainer();
  refuse_version();
  read_records(true);
  if (cutting_) {
    if (!trainer_ || !trainer_->error()) write_cut_result();
  } else {
    read_logs();
  }
  judge_storage();
  INVARIANT(clean || stuck_, "an attempt is over when no child of it is left", spec_.attempt,
            ranks_.size());
  stage_ = Stage::over;
}

/// What NCCL says there it does not say in the ranks' output.
void RunningAttempt::add_nccl_logs(std::vector<RankLog>& logs) {
  const std::size_t ranks = logs.size();
  std::vector<RankLog> more;
  for (std::size_t i = 0; i < ranks; ++i) {
    if (logs[i].rank >= 0) more.push_back({logs[i].rank, paths_.nccl_log(logs[i].rank)});
  }
  nccl_ = summarise_nccl(more, paths_.evidence() / (node_.name + ".nccl.txt"));
  logs.insert(logs.end(), more.begin(), more.end());
}

/// Everything that wrote into them is gone.
void RunningAttempt::read_logs() {
  std::vector<RankLog> logs;
  if (node_.ranks_are_step) {
    for (int rank = 0; rank < spec_.world; ++rank)
      logs.push_back({rank, log_of(rank)});
    logs.push_back({-1, log_of(-1)});
  } else {
    for (const Rank& rank : ranks_)
      logs.push_back({rank.number, log_of(rank.number)});
  }
  if (spec_.nccl_debug) add_nccl_logs(logs);
  join_logs(evidence_, logs, spec_.rules, clock_.now(), !measured_ && result_is_due());
}

/// A rank that prints without end would fill what others need too.
void RunningAttempt::watch_logs() {
  if (spec_.limits.log_limit_bytes <= 0 || stage_ != Stage::running || failed_at_s_) return;
  for (const Rank& rank : ranks_) {
    std::error_code error;
    const auto size = std::filesystem::file_size(log_of(rank.number), error);
    if (error || size <= static_cast<std::uintmax_t>(spec_.limits.log_limit_bytes)) continue;
    evidence_.push_back({clock_.now(),
                         {Outcome::crashed,
                          fmt::format("rank {} has printed {} bytes (watch.log_limit is {})",
                                      rank.number, size, spec_.limits.log_limit_bytes),
                          SaidBy::policy}});
    return begin_ending();
  }
}

/// Records, logs and recorders lie there: once it is full what the ranks do says nothing.
void RunningAttempt::watch_storage() {
  const double now_s = seconds_of(clock_);
  if (storage_fault_ || now_s - storage_looked_at_s_ < storage_look_s) return;
  storage_looked_at_s_ = now_s;
  watch_logs();
  storage_fault_ = look_at_storage(paths_.dir);
}

/// A quota shows only to those who write, and a folder that was deleted may be there again.
void RunningAttempt::judge_storage() {
  const bool result_missing = left_early_ && result_is_due();
  if (measured_ || (evidence_.empty() && !result_missing)) return;
  if (!storage_fault_) storage_fault_ = try_storage(paths_.dir);
  std::error_code error;
  if (!storage_fault_ && !std::filesystem::exists(paths_.spec(), error))
    storage_fault_ = StorageFault{StorageProblem::gone, "deleted while it ran"};
  if (!storage_fault_) return;
  const std::string why = describe(*storage_fault_, paths_.dir);
  log_.line(fmt::format("attempt {}: {}", spec_.attempt, why));
  blame_storage(evidence_, "no file could be written: " + why, clock_.now());
}

NodeEnded RunningAttempt::ended() const {
  INVARIANT(over(), "only what is over has an end", spec_.attempt, stage_);
  std::vector<Evidence> evidence = evidence_;
  // Where rank 0 is elsewhere, so is the result: there an exit with 0 explains what others
  // suffered, and is nothing by itself.
  if (left_early_ && !measured_ && !is_overridden_ && (result_is_due() || !evidence.empty()))
    evidence.push_back(*left_early_);
  const bool measured = measured_ && !is_overridden_;
  const Evidence verdict = classify(evidence, measured, result_is_due());
  NodeEnded ended{.attempt = spec_.attempt, .ending = verdict.ending, .at = verdict.at};
  Ending& ending = ended.ending;
  ending.node.clear();
  ending.leaked = leaked_;
  ending.fragmented = ending.fragmented && ending.outcome == Outcome::oom;
  ended.cut_short = cut_short_;
  tell_pace(ended);
  name_node(ended, verdict);
  if (!disturbed_.empty()) {
    ending.mark = Mark::contaminated;
    ending.also += (ending.also.empty() ? "" : "; ") + disturbed_;
  }
  const auto add = [&](const std::string& text) {
    ending.cause += (ending.cause.empty() ? "" : "; ") + text;
  };
  if (leaked_ > 0) add(fmt::format("ended leftover processes ({}): {}", leaked_, leftovers_));
  if (garbage_ > 0) add(fmt::format("{} garbage lines in the records", garbage_));
  if (node_.ranks_are_step && spec_.world > spec_.ranks_per_node)
    add("leftover processes were looked for on one host only");
  if (ending.outcome == Outcome::comm_error && !nccl_.empty()) add(nccl_);
  if (stuck_) add("a process could not be ended");
  return ended;
}

}  // namespace shardsweep::agent
