// SPDX-License-Identifier: Apache-2.0
#include "agent/allocation.hpp"

#include "adapters/node/claim.hpp"
#include "adapters/node/processes.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace shardsweep::test {
namespace {

const std::string bin = SHARDSWEEP_BIN_DIR;

}  // namespace

bool wait_until(const std::function<bool()>& done, double limit_s) {
  const SystemClock clock;
  const auto deadline = clock.steady() + std::chrono::duration<double>(limit_s);
  while (!done()) {
    if (clock.steady() > deadline) return false;
    (void)::poll(nullptr, 0, 2);
  }
  return true;
}

int repeats(int few) {
  const char* value = std::getenv("SHARDSWEEP_TEST_REPEATS");
  return value != nullptr ? std::atoi(value) : few;
}

Allocation::Allocation() : paths_{folder_.path() / "allocation"} {
  std::filesystem::create_directories(paths_.dir);
  spec.token = "test" + random_nonce().value().substr(0, 10);
  spec.job_name = "job-" + spec.token;
  spec.slots_per_node = 4;
  spec.beat_s = 0.1;
  spec.agent_lease_s = 5;
  spec.node_lease_s = 5;
  spec.file_beat_s = 0.1;
  spec.watch_interval_s = 0.02;
  spec.idle_limit_s = 30;
  every.ranks_per_node = 4;
  // Generous: the machine may be busy. A test that wants a limit to strike sets it.
  every.start_limit_s = every.rendezvous_limit_s = every.init_limit_s = 30;
  every.first_step_limit_s = every.step_limit_s = every.teardown_limit_s = 30;
  every.attempt_limit_s = 60;
  every.grace_s = 0.3;
  every.keep_log_bytes = 4096;
}

Allocation::~Allocation() {
  if (lead_ > 0 && !exit_) {
    for (const pid_t pid : {guard(), node_agent(), lead_}) {
      if (pid > 0) ::kill(pid, SIGKILL);
    }
    ::waitpid(lead_, nullptr, 0);
  }
  for (const auto& process : find_marked([&](std::string_view marker) {
                               return marker.starts_with(spec.token + "/");
                             }).found)
    (void)end_process(process, 1000);
}

void Allocation::start() {
  REQUIRE(write_file_durably(paths_.spec(), encode(spec)));
  const std::string agent = bin + "/shardsweep-agent";
  const std::string dir = paths_.dir.string();
  const std::string log = paths_.log().string();
  lead_ = ::fork();
  if (lead_ != 0) return;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::setsid();
  for (const auto& [name, value] : environment)
    ::setenv(name.c_str(), value.c_str(), 1);
  ::execl(agent.c_str(), agent.c_str(), "lead", "--dir", dir.c_str(), nullptr);
  ::_exit(126);
}

Assign Allocation::assign(const std::vector<std::string>& modes, int world,
                          const std::string& lane, int micro_batch, double predicted_s) {
  AttemptSpec attempt = every;
  attempt.attempt = ++last_;
  attempt.trial = "trial-" + std::to_string(last_);
  attempt.nonce = "nonce-" + std::to_string(last_);
  attempt.token = spec.token;
  attempt.world = world;
  attempt.argv = {bin + "/agent_test_rank"};
  attempt.argv.insert(attempt.argv.end(), modes.begin(), modes.end());
  attempt.env["TEST_NONCE"] = attempt.nonce;
  const AttemptPaths attempt_paths{folder_.path() / ("attempt-" + std::to_string(last_))};
  std::filesystem::create_directories(attempt_paths.dir);
  REQUIRE(write_file_durably(attempt_paths.spec(), encode(attempt)));
  Assign line{last_,       attempt.trial, attempt_paths.dir.string(), attempt.nonce, lane,
              micro_batch, predicted_s};
  tell(line);
  return line;
}

void Allocation::tell(const ToLeadBody& body, std::int64_t epoch) {
  if (!to_lead_) {
    auto writer = LineWriter::open(paths_.to_lead());
    REQUIRE(writer);
    to_lead_ = *std::move(writer);
  }
  REQUIRE(to_lead_->append(encode(ToLead{++line_, epoch, body}), false));
}

void Allocation::put_on_path(const std::string& name, const std::string& script) {
  const auto bin_dir = folder_.path() / "bin";
  std::filesystem::create_directories(bin_dir);
  REQUIRE(write_file_durably(bin_dir / name, "#!/bin/sh\n" + script));
  std::filesystem::permissions(bin_dir / name, std::filesystem::perms::owner_all);
  environment["PATH"] = bin_dir.string() + ":/usr/bin:/bin";
}

std::vector<AttemptId> Allocation::revoked() {
  std::vector<AttemptId> attempts;
  for (const auto& line : lines()) {
    if (const auto* one = std::get_if<Revoked>(&line.body)) attempts.push_back(one->attempt);
  }
  return attempts;
}

std::vector<FromLead> Allocation::lines() {
  LineReader reader(paths_.from_lead());
  std::vector<FromLead> messages;
  const auto texts = reader.look();
  REQUIRE(texts);
  for (const auto& text : *texts) {
    auto message = decode_from_lead(text);
    REQUIRE(message);
    messages.push_back(*std::move(message));
  }
  return messages;
}

std::optional<Ended> Allocation::ended(AttemptId attempt) {
  std::optional<Ended> found;
  for (const auto& line : lines()) {
    const auto* ended = std::get_if<Ended>(&line.body);
    if (ended == nullptr || ended->attempt != attempt) continue;
    REQUIRE_MESSAGE(!found, "attempt ended twice");
    found = *ended;
  }
  return found;
}

std::string Allocation::bye() {
  for (const auto& line : lines()) {
    if (const auto* bye = std::get_if<Bye>(&line.body)) return bye->why;
  }
  return "";
}

Ended Allocation::wait_ended(AttemptId attempt) {
  std::optional<Ended> found;
  const bool in_time = wait_until([&] { return (found = ended(attempt)).has_value(); }, 60);
  REQUIRE_MESSAGE(in_time, "attempt " << attempt << " did not end: " << log());
  return *found;
}

std::vector<pid_t> Allocation::marked() const {
  std::vector<pid_t> pids;
  for (const auto& process : find_marked([&](std::string_view marker) {
                               return marker.starts_with(spec.token + "/") &&
                                      !marker.ends_with("/agent");
                             }).found)
    pids.push_back(process.pid);
  return pids;
}

bool Allocation::wait_marked(std::size_t count) {
  return wait_until([&] { return marked().size() >= count; });
}

void Allocation::wait_steps(const Assign& attempt, int count) {
  const bool in_time = wait_until([&] {
    const auto records = read_attempt_records(AttemptPaths{attempt.dir});
    int steps = 0;
    for (std::size_t at = 0; records; ++steps, ++at) {
      at = records->text.find("train_step", at);
      if (at == std::string::npos) break;
    }
    return steps >= count;
  });
  REQUIRE_MESSAGE(in_time, "no train steps: " << log());
}

bool Allocation::wait_clean(double limit_s) const {
  return wait_until([&] { return marked().empty(); }, limit_s);
}

std::optional<int> Allocation::wait_exit(double limit_s) {
  wait_until(
      [&] {
        int status = 0;
        if (exit_ || ::waitpid(lead_, &status, WNOHANG) != lead_) return exit_.has_value();
        exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        return true;
      },
      limit_s);
  return exit_;
}

pid_t Allocation::guard() const {
  const auto children = children_of(lead_);
  return children.empty() ? 0 : children.front();
}

pid_t Allocation::node_agent() const {
  const pid_t parent = guard();
  const auto children = parent > 0 ? children_of(parent) : std::vector<pid_t>{};
  return children.empty() ? 0 : children.front();
}

}  // namespace shardsweep::test
