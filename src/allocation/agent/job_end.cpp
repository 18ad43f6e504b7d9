// SPDX-License-Identifier: Apache-2.0
#include "agent/job_end.hpp"

#include "agent/reap.hpp"
#include "attempt/wall_time.hpp"

#include <shardsweep/duration.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace shardsweep::agent {
namespace {

constexpr double answer_limit_s = 30;  // slurmctld under load takes its MessageTimeout, 10 s
constexpr double retry_s = 60;
constexpr double first_answer_s = 3;
constexpr std::size_t longest_reply = 256;

/// Nothing of the user's that changes what squeue shows, and seconds instead of local time.
Environment squeue_environment(const Environment& own) {
  Environment environment;
  for (const auto& entry : own) {
    if (!entry.starts_with("SQUEUE_") && !entry.starts_with("SLURM_TIME_FORMAT="))
      environment.push_back(entry);
  }
  environment.emplace_back("SLURM_TIME_FORMAT=%s");
  return environment;
}

/// Who says more than an answer can be is left to wait, until its time is over.
void read_available(int descriptor, std::string& text) {
  std::array<char, 64> buffer{};
  while (text.size() < longest_reply) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    text.append(buffer.data(), static_cast<std::size_t>(got));
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
  auto child = find_program("squeue", environment_).and_then([&](const std::string& program) {
    return start_piped({program, "-h", "-j", job_, "-o", "%e"}, environment_);
  });
  if (!child) return log.line("the job's end is not known: " + child.error().what);
  child->to.reset();
  ::fcntl(child->from.get(), F_SETFL, O_NONBLOCK);
  said_.clear();
  asked_s_ = now_s;
  squeue_ = std::move(*child);
}

void JobEnd::listen(double now_s, const Log& log) {
  read_available(squeue_->from.get(), said_);
  int status = 0;
  const pid_t reaped = ::waitpid(squeue_->pid, &status, WNOHANG);
  if (reaped == 0) {
    // What it has not said by now it has to say another time; it is reaped at the next look.
    if (now_s - asked_s_ > answer_limit_s) ::kill(squeue_->pid, SIGKILL);
    return;
  }
  read_available(squeue_->from.get(), said_);
  conclude(reaped > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, now_s, log);
}

void JobEnd::conclude(bool succeeded, double now_s, const Log& log) {
  squeue_.reset();
  answered_ = true;
  const auto answer = succeeded ? job_end_in(said_) : std::nullopt;
  if (!answer) {
    ask_again_s_ = now_s + retry_s;
    const std::string line = said_.substr(0, said_.find('\n'));
    return log.line("squeue did not tell the job's end: '" + line + "'");
  }
  job_.clear();
  end_ = answer->at;
}

}  // namespace shardsweep::agent
