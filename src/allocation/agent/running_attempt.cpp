// SPDX-License-Identifier: Apache-2.0
#include "agent/running_attempt.hpp"

#include "agent/containers.hpp"
#include "agent/reap.hpp"
#include "agent/side_run.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "machine/processes.hpp"
#include "node/memory_kills.hpp"

#include <shardsweep/fail_point.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace shardsweep::agent {
namespace {

constexpr int gone_wait_ms = 2000;

}  // namespace

RunningAttempt::RunningAttempt(const NodeIdentity& node, const Clock& clock, const Log& log,
    AttemptSpec spec, AttemptPaths paths, OfNode given)
    : here_{node, clock, log, std::move(spec), std::move(paths)},
      given_(std::move(given)),
      records_(here_),
      programs_(here_),
      storage_(here_) {
  if (node.ranks_are_step) step_.emplace(here_);
}

// ---- the start

std::optional<Evidence> RunningAttempt::start(std::vector<Evidence>& beside) {
  memory_kills_ = memory_kills();
  if (auto changed = programs_.begin()) return changed;
  follow_trainer(beside);
  // CPU use on other hosts of a step can't be seen here.
  if (spec().limits.others_cpu_limit > 0 && !step_) cpu_before_ = cpu_use(here_.now_s());
  return step_ ? launch_step() : launch_ranks();
}

void RunningAttempt::follow_trainer(std::vector<Evidence>& beside) {
  if (!spec().trainer) return;
  auto logs = TrainerLogs::make(spec(), here_.paths, step_ ? 1 : here_.nodes(), here_.node.index);
  if (!logs) {
    beside.push_back({here_.clock.now(), {Outcome::rejected, logs.error().what, SaidBy::agent}});
    return;
  }
  trainer_ = *std::move(logs);
  if (here_.has_rank_zero()) trainer_->begin(here_.clock);
}

std::optional<Evidence> RunningAttempt::launch_ranks() {
  const auto& [own, devices, gpus, meet, image_digest, container_owner] = given_;
  const int first = here_.node.index * spec().ranks_per_node;
  const int count = std::clamp(spec().world - first, 0, spec().ranks_per_node);
  for (int local = 0; local < processes_of(spec(), count); ++local) {
    const int rank = first + local;
    const RankPlace place{rank, local, count, here_.node.name};
    Environment environment = rank_environment(own, spec(), place, devices);
    if (spec().nccl_debug) ask_nccl(environment, spec(), here_.paths.nccl_log(rank));
    RankProcess process{spec().argv, std::move(environment), here_.paths.dir, here_.log_of(rank),
        ranks_.group(), spec().limits.file_limit_bytes};
    complete_trainer(process, spec(), place, meet);
    if (const auto equipped = equip_side_run(process, spec(), here_.paths, rank); !equipped)
      return Evidence{here_.clock.now(), {Outcome::lost, equipped.error().what, SaidBy::agent}};
    RankStart inside = enter_container(process, spec(), {rank, meet},
        place_of_container(own, spec().token, !devices.empty(), container_owner),
        here_.paths.dir.string());
    Descriptor report;
    fail_point("node.spawn");
    const auto pid = start_rank(process, &report);
    if (!pid)
      return Evidence{here_.clock.now(),
          {Outcome::node_failure, fmt::format("rank {}: {}", rank, pid.error().what),
              SaidBy::agent}};
    ranks_.add(rank, *pid, std::move(report));
    if (rank == 0) environment_.emplace(here_, *pid, std::move(inside));
    follow_records(rank);
    recorders_.follow(rank, here_.paths.recorder() / fmt::format("rank.{}", rank));
    const bool asks_version = !spec().container && spec().side == SideRun::none;
    if (rank == 0 && asks_version) start_probe(std::move(process));
  }
  return std::nullopt;
}

std::optional<Evidence> RunningAttempt::launch_step() {
  const auto srun = step_->launch(given_.environment, given_.meet);
  if (!srun)
    return Evidence{here_.clock.now(), {Outcome::node_failure, srun.error().what, SaidBy::agent}};
  ranks_.add(-1, *srun);
  environment_.emplace(here_, 0, step_->first_rank(given_.environment, given_.meet));
  for (int rank = 0; rank < spec().world; ++rank)
    follow_records(rank);
  return std::nullopt;
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

std::vector<RankRecord> RunningAttempt::records(bool asked) {
  const bool all = records_.all_are_due(asked);
  if (trainer_) trainer_->look(here_.clock, all, probe_.runs());
  return asked ? records_.read_to_end() : records_.read(all);
}

std::optional<Evidence> RunningAttempt::look_at_environment(bool is_training) {
  return environment_ ? environment_->look(is_training) : std::nullopt;
}

std::vector<int> RunningAttempt::living() const {
  std::vector<int> living;
  for (const auto& [rank, pid] : ranks_.living()) {
    if (rank >= 0) living.push_back(rank);
  }
  return living;
}

void RunningAttempt::rank_is_noted() {
  fail_point("node.rank_ended");
}

std::optional<Evidence> RunningAttempt::failure_of(
    const RankExit& exit, bool told, bool has_trained) {
  const Timestamp at = here_.clock.now();
  if (exit.not_started)
    return evidence_of_no_start(
        exit.rank, exit.not_started->error, exit.not_started->what + " on " + here_.node.name, at);
  if (!exit.by_signal && exit.rank < 0) return step_->exit_evidence(exit.status, told);
  if (!exit.by_signal) {
    const std::string last = last_line_of(here_.log_of(exit.rank));
    const bool has_begun = has_trained || records_.has_any_of(exit.rank);
    auto refused = spec().container
        ? evidence_of_no_container(exit.rank, exit.status, last, at, has_begun)
        : std::nullopt;
    if (refused) return refused;
    return evidence_of_exit(
        exit.rank, exit.status, at, last, trainer_ ? ExitCodes::any : ExitCodes::contract);
  }
  const bool for_want_of_memory =
      exit.status == SIGKILL && memory_kills_ && memory_kills() > memory_kills_;
  return for_want_of_memory ? evidence_of_memory_kill(exit.rank, at)
                            : evidence_of_signal(exit.rank, exit.status, at, told);
}

std::optional<Evidence> RunningAttempt::look_at_storage(bool watched) {
  return storage_.look(watched ? ranks_.numbers() : std::vector<int>());
}

// ---- orders

void RunningAttempt::begin_looking(const std::string& why, double still_s) {
  NodeEvidence seen;
  seen.node = here_.node.name;
  seen.attempt = spec().attempt;
  seen.why = why;
  seen.still_s = still_s;
  seen.gpus = given_.gpus.all();
  std::vector<EvidenceTaking::Rank> ranks;
  for (const auto& [rank, pid] : ranks_.living()) {
    if (rank >= 0) ranks.push_back({rank, pid});
  }
  evidence_taking_.emplace(here_.paths, std::move(seen), std::move(ranks), spec().limits.evidence_s,
      spec().limits.gdb_s, here_.now_s());
}

void RunningAttempt::terminate() {
  fail_point("node.end_ranks");
  evidence_taking_.reset();
  ranks_.signal_all(SIGTERM);
  ranks_.signal_all(SIGCONT);  // a stopped process takes its SIGTERM only then
}

bool RunningAttempt::anybody_is_left() {
  probe_.end();
  const auto below = descendants_of(::getpid());
  return std::any_of(below.begin(), below.end(), [](pid_t pid) {
    const auto stat = process_stat(pid);
    return stat && stat->state != 'Z';
  });
}

std::vector<std::string> RunningAttempt::leftovers() {
  std::vector<std::string> cmdlines;
  for (const pid_t pid : descendants_of(::getpid())) {
    const auto stat = process_stat(pid);
    if (!stat || stat->state == 'Z') continue;
    cmdlines.push_back(process_cmdline(pid));
    here_.log.line(fmt::format(
        "attempt {}: process {} outlived its rank: {}", spec().attempt, pid, cmdlines.back()));
  }
  return cmdlines;
}

bool RunningAttempt::reap_once() {
  fail_point("node.reap");
  return kill_children_once();
}

void RunningAttempt::name_stuck() {
  for (const pid_t pid : descendants_of(::getpid()))
    here_.log.line(fmt::format("process {} can't be ended: {}", pid, process_cmdline(pid)));
}

void RunningAttempt::is_reaped() {
  fail_point("node.reaped");
}

// ---- the end: everything that wrote into its files is gone

/// Ends processes that left the tree in another way than by a parent's death (a subreaper of their
/// own).
void RunningAttempt::end_marked(Beside& beside) {
  const std::string attempt = fmt::format("{}/{}/", spec().token, spec().attempt);
  const std::string marker = attempt + here_.node.name;
  // Ranks of a step are slurmstepd's children: those on other hosts are unknown here.
  const auto marked = find_marked(
      [&](std::string_view value) { return step_ ? value.starts_with(attempt) : value == marker; });
  for (const auto& process : marked.found) {
    here_.log.line(fmt::format("attempt {}: process {} carries its marker: {}", spec().attempt,
        process.pid, process.cmdline));
    beside.add_leftover(process.cmdline);
    if (!end_process(process, gone_wait_ms)) beside.stuck = true;
  }
}

/// Looks for CPU use by others: all of ours was reaped, so what is left over was theirs.
void RunningAttempt::look_for_others(Beside& beside) {
  if (!cpu_before_) return;
  const auto after = cpu_use(here_.now_s());
  if (!after) return;
  const double share = others_share(*cpu_before_, *after);
  beside.facts.others_cpu = share;
  const double limit = spec().limits.others_cpu_limit;
  if (share <= limit) return;
  beside.facts.mark = Mark::contaminated;
  beside.facts.also =
      fmt::format("other processes used {:.0f} % of the CPUs of {} (limit {:.0f} %)", share * 100,
          here_.node.name, limit * 100);
}

std::optional<Evidence> RunningAttempt::finish_environment() {
  return environment_ ? environment_->finish(given_.image_digest) : std::nullopt;
}

RanksOutside::TrainerEnd RunningAttempt::finish_trainer(std::optional<CutBy> cut, bool failed) {
  TrainerEnd end;
  if (!trainer_) return end;
  if (cut) {
    trainer_->finish_cut(here_.clock, *cut);
  } else {
    trainer_->finish(here_.clock, failed);
  }
  end.has_result = trainer_->has_result();
  end.refuses = trainer_->error().has_value();
  // Records are read back where rank 0 is; its node may have ended before.
  if (end.refuses && !here_.has_rank_zero())
    end.error = RankRecord{ranks_.numbers().back(), *trainer_->error()};
  if (!trainer_->fault().empty()) here_.log.line("its records: " + trainer_->fault());
  return end;
}

Result<void> RunningAttempt::write_result(const std::string& line) {
  fail_point("node.result");
  auto written = LineWriter::open(here_.paths.records()).and_then([&](LineWriter writer) {
    return writer.append(line, true);
  });
  fail_point("node.result_written");
  return written;
}

void RunningAttempt::read_logs(std::vector<Evidence>& evidence, Beside& beside, bool alone) {
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
  // NCCL's own file has messages that ranks do not print.
  if (spec().nccl_debug) {
    beside.nccl = summarise_nccl(nccl, here_.paths.evidence() / (here_.node.name + ".nccl.txt"));
    logs.insert(logs.end(), nccl.begin(), nccl.end());
  }
  join_logs(evidence, logs, spec().rules, here_.clock.now(), alone);
}

void RunningAttempt::collect_snapshots() {
  agent::collect_snapshots(spec(), here_.paths);
}

/// True if this node writes the result. A runner's rank 0 writes it; for a trainer, the node of the
/// rank that prints the train steps.
bool RunningAttempt::result_is_due() const {
  return trainer_ ? !trainer_->is_elsewhere() : here_.has_rank_zero();
}

}  // namespace shardsweep::agent
