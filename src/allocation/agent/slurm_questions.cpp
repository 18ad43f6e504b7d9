// SPDX-License-Identifier: Apache-2.0
#include "agent/slurm_questions.hpp"

#include "agent/reap.hpp"
#include "attempt/topology.hpp"
#include "attempt/wall_time.hpp"

#include <shardsweep/duration.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep::agent {
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
