// SPDX-License-Identifier: Apache-2.0
#include "agent/slurm_step.hpp"

#include "agent/containers.hpp"
#include "agent/environment.hpp"
#include "agent/evidence.hpp"
#include "agent/reap.hpp"
#include "agent/side_run.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "attempt/assignments.hpp"
#include "attempt/step_output.hpp"
#include "attempt/topology.hpp"
#include "machine/file_ends.hpp"
#include "machine/processes.hpp"
#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep::agent {

namespace {

constexpr std::size_t most_step_output = std::size_t{64} * 1024;
constexpr double look_again_s = 1;

}  // namespace

Result<pid_t> SlurmStep::launch(const Environment& own, const std::string& meet) const {
  const AttemptSpec& spec = here_.spec;
  Environment environment = srun_environment(own);
  environment.push_back(
      fmt::format("{}={}/{}/{}", marker_variable, spec.token, spec.attempt, here_.node.name));
  environment.push_back(fmt::format("{}={}", meet_variable, meet));
  const bool by_hostfile = write_hostfile();
  if (by_hostfile) {
    // srun takes the allocation's number of nodes from these; a hostfile may have fewer.
    std::erase_if(environment, [](const std::string& entry) {
      return entry.starts_with("SLURM_NNODES=") || entry.starts_with("SLURM_JOB_NUM_NODES=");
    });
    environment.push_back(fmt::format("SLURM_HOSTFILE={}", hostfile().string()));
  }
  SHARDSWEEP_ASSIGN(const std::string srun, find_program("srun", own));
  SHARDSWEEP_ASSIGN(const std::string agent, own_program());
  return start_rank(
      {step_command(srun, spec, {agent, "rank", "--dir", here_.paths.dir}, by_hostfile),
          environment, here_.paths.dir, here_.log_of(-1), 0});
}

/// A node for each task, if ranks do not follow Slurm's order. False: they do.
bool SlurmStep::write_hostfile() const {
  const NodeIdentity& node = here_.node;
  if (!node.is_reordered || node.job_nodes.empty()) return false;
  const int each = here_.spec.ranks_per_node;
  std::string text;
  for (int rank = 0; rank < here_.spec.world;) {
    const auto at = static_cast<std::size_t>(rank / each);
    if (at >= node.job_nodes.size()) return false;
    text += node.job_nodes[at] + "\n";
    rank += processes_of(here_.spec, each) < each ? each : 1;
  }
  const auto written = write_own_file(hostfile(), text);
  if (!written) here_.log.line(written.error().what);
  return written.has_value();
}

RankStart SlurmStep::first_rank(const Environment& own, const std::string& meet) const {
  const AttemptSpec& spec = here_.spec;
  const RankPlace place{0, 0, spec.ranks_per_node, here_.node.name};
  RankProcess process{spec.argv, rank_environment(own, spec, place, {}), here_.paths.dir,
      here_.log_of(0), 0, spec.limits.file_limit_bytes};
  complete_trainer(process, spec, place, meet);
  return enter_container(process, spec, {0, meet}, place_of_container(own, spec.token, false),
      here_.paths.dir.string());
}

bool SlurmStep::has_started() const {
  for (int rank = 0; rank < here_.spec.world; ++rank) {
    if (::access(here_.log_of(rank).c_str(), F_OK) == 0) return true;
  }
  return false;
}

std::optional<Evidence> SlurmStep::failure_said(bool told) {
  if (here_.now_s() - looked_at_s_ < look_again_s || !has_started()) return std::nullopt;
  looked_at_s_ = here_.now_s();
  auto said =
      first_failure_in(file_ends(here_.log_of(-1), most_step_output).text, here_.clock.now(), told);
  if (!said) return std::nullopt;
  if (auto failure = start_failure()) return failure;
  return said;
}

/// Evidence of a rank whose program never began: for srun its exit code is like any other.
std::optional<Evidence> SlurmStep::start_failure() const {
  for (int rank = 0; rank < here_.spec.world; ++rank) {
    if (const auto failure = start_failure_in(last_line_of(here_.log_of(rank))))
      return evidence_of_no_start(rank, failure->error, failure->what, here_.clock.now());
  }
  return std::nullopt;
}

Evidence SlurmStep::exit_evidence(int status, bool told) const {
  if (!has_started()) return no_start_evidence(fmt::format("srun ended with {}", status));
  if (auto failure = start_failure()) return *std::move(failure);
  const auto output = read_own_file(here_.log_of(-1));
  return evidence_of_step(output.value_or(""), status, here_.clock.now(), told);
}

Evidence SlurmStep::no_start_evidence(const std::string& why) const {
  return evidence_of_no_step(
      file_ends(here_.log_of(-1), most_step_output).text, why, here_.clock.now());
}

/// A step's ranks fill one node after the other (step_command); empty: not known.
std::string SlurmStep::node_of(const Evidence& first) const {
  const auto& nodes = here_.node.job_nodes;
  if (!first.ending.node.empty() || nodes.empty()) return first.ending.node;
  if (nodes.size() == 1) return nodes.front();
  const bool whole = static_cast<std::size_t>(here_.nodes()) == nodes.size();
  if (!whole || first.rank < 0 || first.rank >= here_.spec.world) return "";
  return nodes.at(static_cast<std::size_t>(first.rank / here_.spec.ranks_per_node));
}

void SlurmStep::name_node(Ending& ending, const Evidence& first) const {
  const bool of_a_node = ending.outcome == Outcome::node_failure ||
      ending.outcome == Outcome::crashed || ending.outcome == Outcome::comm_error ||
      ending.outcome == Outcome::lost;
  if (!of_a_node) return;
  const auto& nodes = here_.node.job_nodes;
  ending.node = node_of(first);
  if (!ending.node.empty() || nodes.empty()) return;
  ending.cause += fmt::format(
      "; which of {} nodes ({}, …) it happened on is unknown", nodes.size(), nodes.front());
}

namespace {

constexpr int exit_not_started = 127;

Result<int> number_in(const Environment& own, const std::string& name) {
  const auto value = number_from<int>(value_in(own, name).value_or(""));
  if (!value || *value < 0)
    return fault(FaultKind::invalid_input,
        "no number in " + name + ": this process is no task of a Slurm step");
  return *value;
}

Result<RankProcess> rank_of(const AttemptPaths& paths, const Environment& own) {
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(paths.spec()));
  SHARDSWEEP_ASSIGN(const AttemptSpec spec, decode_attempt_spec(text).and_then(with_secrets));
  RankPlace place;
  SHARDSWEEP_ASSIGN(place.rank, number_in(own, "SLURM_PROCID"));
  SHARDSWEEP_ASSIGN(place.local_rank, number_in(own, "SLURM_LOCALID"));
  // One task on each node stands for its ranks.
  if (processes_of(spec, spec.ranks_per_node) < spec.ranks_per_node)
    place.rank *= spec.ranks_per_node;
  if (place.rank >= spec.world || spec.argv.empty())
    return fault(FaultKind::invalid_input, "spec.json belongs to another step");
  place.local_world = spec.ranks_per_node;
  place.node = value_in(own, "SLURMD_NODENAME").value_or("");
  Environment environment = step_rank_environment(
      own, spec, place, visible_devices(own, spec.ranks_per_node, has_gpus()));
  if (spec.nccl_debug) ask_nccl(environment, spec, paths.nccl_log(place.rank));
  RankProcess process{spec.argv, std::move(environment), paths.dir, paths.rank_log(place.rank), 0,
      spec.limits.file_limit_bytes};
  complete_trainer(process, spec, place, value_in(own, meet_variable).value_or(""));
  SHARDSWEEP_TRY(equip_side_run(process, spec, paths, place.rank));
  if (place.rank == 0 && !spec.container)
    tell_environment(paths.environment(), process.environment);
  enter_container(process, spec, {place.rank, value_in(own, meet_variable).value_or("")},
      place_of_container(own, spec.token, has_gpus()), paths.dir.string());
  return process;
}

}  // namespace

int run_step_rank(const std::string& dir, const Environment& own) {
  const auto rank = rank_of(AttemptPaths{dir}, own);
  if (rank) return become_step_rank(*rank);
  std::fprintf(stderr, "shardsweep-agent: %s\n", rank.error().what.c_str());
  return exit_not_started;
}

namespace {

constexpr double answer_limit_s = 30;  // slurmctld under load takes its MessageTimeout, 10 s
constexpr double retry_s = 60;
constexpr double first_answer_s = 3;
constexpr std::size_t longest_reply = 256;

/// Environment for squeue: no user variable that changes its output, and times in seconds.
Environment squeue_environment(const Environment& own) {
  Environment environment;
  for (const auto& entry : own) {
    if (!entry.starts_with("SQUEUE_") && !entry.starts_with("SLURM_TIME_FORMAT="))
      environment.push_back(entry);
  }
  environment.emplace_back("SLURM_TIME_FORMAT=%s");
  return environment;
}

// slurmctld under load answers within 10 s. Without an answer ranks keep Slurm's order.
constexpr double topology_limit_s = 10;
constexpr std::size_t longest_topology = std::size_t{8} << 20;

/// Reads the available text without waiting. True at its end, or if it is longer than any answer.
bool read_available(int descriptor, std::string& text, std::size_t longest) {
  std::array<char, 4096> buffer{};
  while (text.size() < longest) {
    const ssize_t got =
        ::read(descriptor, buffer.data(), std::min(buffer.size(), longest - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

/// A command of Slurm whose answer is read from a pipe.
Result<PipedChild> ask_slurm(
    const std::string& program, std::vector<std::string> words, const Environment& environment) {
  SHARDSWEEP_ASSIGN(const std::string path, find_program(program, environment));
  words.insert(words.begin(), path);
  SHARDSWEEP_ASSIGN(PipedChild child, start_piped(words, environment));
  child.to.reset();
  ::fcntl(child.from.get(), F_SETFL, O_NONBLOCK);
  return child;
}

/// Ends a child whose answer is no longer wanted.
void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

JobEnd::JobEnd(const Environment& own)
    : job_(value_in(own, "SLURM_JOB_ID").value_or("")), environment_(squeue_environment(own)) {
  const auto told = job_end_in(value_in(own, "SLURM_JOB_END_TIME").value_or(""));
  if (!told) return;
  end_ = told->at;
  job_.clear();
}

std::optional<double> JobEnd::left_s(const Clock& clock) const {
  if (!end_) return std::nullopt;
  return to_seconds(*end_ - clock.now());
}

bool JobEnd::first_answer_due(const Clock& clock) const {
  return squeue_ && !answered_ && seconds_of(clock) - asked_s_ < first_answer_s;
}

void JobEnd::step(const Clock& clock, const Log& log) {
  const double now_s = seconds_of(clock);
  if (squeue_) return listen(now_s, log);
  if (!job_.empty() && now_s >= ask_again_s_) ask(now_s, log);
}

void JobEnd::ask(double now_s, const Log& log) {
  ask_again_s_ = now_s + retry_s;
  auto child = ask_slurm("squeue", {"-h", "-j", job_, "-o", "%e"}, environment_);
  if (!child) return log.line("cannot ask squeue when the job ends: " + child.error().what);
  said_.clear();
  asked_s_ = now_s;
  squeue_ = std::move(*child);
}

void JobEnd::listen(double now_s, const Log& log) {
  (void)read_available(squeue_->from.get(), said_, longest_reply);
  int status = 0;
  const pid_t reaped = ::waitpid(squeue_->pid, &status, WNOHANG);
  if (reaped == 0) {
    // Give up this answer and ask again later; the next look reaps the child.
    if (now_s - asked_s_ > answer_limit_s) ::kill(squeue_->pid, SIGKILL);
    return;
  }
  (void)read_available(squeue_->from.get(), said_, longest_reply);
  conclude(reaped > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, now_s, log);
}

void JobEnd::conclude(bool succeeded, double now_s, const Log& log) {
  squeue_.reset();
  answered_ = true;
  const auto answer = succeeded ? job_end_in(said_) : std::nullopt;
  if (!answer) {
    ask_again_s_ = now_s + retry_s;
    const std::string line = said_.substr(0, said_.find('\n'));
    return log.line("squeue did not say when the job ends: '" + line + "'");
  }
  job_.clear();
  end_ = answer->at;
}

TopologyReport::TopologyReport(Environment own, bool wanted)
    : environment_(std::move(own)), wanted_(wanted) {}

std::optional<std::map<std::string, std::string>> TopologyReport::step(
    const Clock& clock, const Log& log) {
  if (!wanted_) return std::nullopt;
  const double now_s = seconds_of(clock);
  if (!scontrol_) ask(now_s, log);
  if (!scontrol_) return std::nullopt;
  const bool ended = read_available(scontrol_->from.get(), said_, longest_topology);
  const bool late = now_s - asked_s_ > topology_limit_s;
  if (!ended && !late) return std::nullopt;
  if (late) log.line("scontrol did not print the topology in time");
  kill_and_reap(scontrol_->pid);
  scontrol_.reset();
  wanted_ = false;
  return ended ? switches_by_node(said_) : std::map<std::string, std::string>{};
}

void TopologyReport::ask(double now_s, const Log& log) {
  auto child = ask_slurm("scontrol", {"show", "topology"}, environment_);
  if (!child) {
    wanted_ = false;
    return log.line("cannot ask scontrol for the topology: " + child.error().what);
  }
  asked_s_ = now_s;
  scontrol_ = std::move(*child);
}

JobReport::JobReport(Environment own)
    : environment_(std::move(own)), job_(value_in(environment_, "SLURM_JOB_ID").value_or("")) {}

void JobReport::ask(const AttemptPaths& attempt, const Log& log) {
  if (job_.empty() || scontrol_ != 0) return;
  std::error_code error;
  std::filesystem::create_directories(attempt.evidence(), error);
  const auto child = find_program("scontrol", environment_).and_then([&](const std::string& it) {
    return start_rank({{it, "show", "job", job_}, environment_, attempt.evidence(),
        attempt.evidence() / "job.txt", 0});
  });
  if (child) {
    scontrol_ = *child;
  } else {
    log.line("cannot ask Slurm about the job: " + child.error().what);
  }
}

void JobReport::end() {
  if (scontrol_ == 0) return;
  kill_and_reap(scontrol_);
  scontrol_ = 0;
}

}  // namespace shardsweep::agent
