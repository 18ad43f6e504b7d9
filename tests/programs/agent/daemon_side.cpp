// SPDX-License-Identifier: Apache-2.0
#include "programs/agent/daemon_side.hpp"

#include "machine/processes.hpp"
#include "rundir/run_directory.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <utility>

namespace shardsweep::test {

int repeats(int few) {
  const char* value = std::getenv("SHARDSWEEP_TEST_REPEATS");
  return value != nullptr ? std::atoi(value) : few;
}

DaemonSide::DaemonSide(std::filesystem::path programs)
    : programs_(std::move(programs)), paths_{folder_.path() / "allocation"} {
  std::filesystem::create_directories(paths_.dir);
  spec.token = "test" + random_nonce().value().substr(0, 10);
  spec.job_name = "job-" + spec.token;
  spec.slots_per_node = 4;
  spec.limits.beat_s = 0.1;
  spec.limits.agent_lease_s = 5;
  spec.limits.node_lease_s = 5;
  spec.limits.file_beat_s = 0.1;
  spec.limits.watch_interval_s = 0.02;
  spec.limits.idle_limit_s = 30;
  every.ranks_per_node = 4;
  every.limits.start_limit_s = every.limits.rendezvous_limit_s = every.limits.init_limit_s = 30;
  every.limits.first_step_limit_s = every.limits.step_limit_s = every.limits.teardown_limit_s = 30;
  every.limits.attempt_limit_s = 60;
  every.limits.grace_s = 0.3;
  every.limits.keep_log_bytes = 4096;
}

DaemonSide::~DaemonSide() {
  for (const auto& process : find_marked([&](std::string_view marker) {
         return marker.starts_with(spec.token + "/");
       }).found)
    (void)end_process(process, 1000);
}

Assign DaemonSide::assign(const std::vector<std::string>& modes, int world, const std::string& lane,
    int micro_batch, double predicted_s) {
  AttemptSpec attempt = every;
  attempt.world = world;
  attempt.argv = {programs_ / "agent_test_rank"};
  attempt.argv.insert(attempt.argv.end(), modes.begin(), modes.end());
  Assign line;
  line.lane = lane;
  line.micro_batch = micro_batch;
  line.predicted_s = predicted_s;
  return assign_spec(std::move(attempt), std::move(line));
}

Assign DaemonSide::assign_training(const std::vector<std::string>& flags, int world) {
  AttemptSpec attempt = every;
  attempt.world = world;
  attempt.argv = {programs_ / "shardbench-cpu"};
  attempt.argv.insert(attempt.argv.end(), flags.begin(), flags.end());
  return assign_spec(std::move(attempt), {});
}

Assign DaemonSide::assign_spec(AttemptSpec attempt, Assign line) {
  const std::string number = std::to_string(++last_);
  line.attempt = attempt.attempt = last_;
  line.trial = attempt.trial = "trial-" + number;
  line.nonce = attempt.nonce = "nonce-" + number;
  attempt.token = spec.token;
  attempt.env["TEST_NONCE"] = attempt.nonce;
  const auto attempts = folder_.path() / "attempts";
  if (std::filesystem::create_directories(attempts)) hand_over(attempts);
  const AttemptPaths attempt_paths{attempts / ("attempt-" + number)};
  line.dir = attempt_paths.dir.string();
  if (attempt.argv.front().ends_with("shardbench-cpu")) {
    for (const std::string& word :
        {std::string("--records"), attempt_paths.records().string(), std::string("--recorder"),
            attempt_paths.recorder().string(), std::string("--run-id"), attempt.nonce})
      attempt.argv.push_back(word);
  }
  std::filesystem::create_directories(attempt_paths.dir);
  REQUIRE(write_file_durably(attempt_paths.spec(), encode(attempt)));
  hand_over(attempt_paths.dir);
  tell(line);
  return line;
}

void DaemonSide::tell(const ToLeadBody& body, std::int64_t epoch) {
  if (!to_lead_) {
    auto writer = LineWriter::open(paths_.to_lead());
    REQUIRE(writer);
    to_lead_ = *std::move(writer);
  }
  REQUIRE(to_lead_->append(encode(ToLead{++line_, epoch, body}), false));
}

std::vector<FoundOnNode> DaemonSide::findings() {
  std::vector<FoundOnNode> found;
  for (const auto& line : lines()) {
    if (const auto* one = std::get_if<FoundOnNode>(&line.body)) found.push_back(*one);
  }
  return found;
}

std::vector<AttemptId> DaemonSide::revoked() {
  std::vector<AttemptId> attempts;
  for (const auto& line : lines()) {
    if (const auto* one = std::get_if<Revoked>(&line.body)) attempts.push_back(one->attempt);
  }
  return attempts;
}

std::vector<FromLead> DaemonSide::lines() {
  LineReader reader(paths_.from_lead());
  std::vector<FromLead> messages;
  const auto texts = reader.look();
  REQUIRE(texts);
  for (const auto& text : *texts) {
    auto message = decode_from_lead(text);
    if (!message) {
      // A full disk has cut it; it comes again as a whole.
      REQUIRE_MESSAGE(!text.ends_with("}"), text);
      continue;
    }
    messages.push_back(*std::move(message));
  }
  return messages;
}

std::optional<Ended> DaemonSide::ended(AttemptId attempt) {
  std::optional<Ended> found;
  for (const auto& line : lines()) {
    const auto* ended = std::get_if<Ended>(&line.body);
    if (ended == nullptr || ended->attempt != attempt) continue;
    REQUIRE_MESSAGE(!found, "attempt ended twice");
    found = *ended;
  }
  return found;
}

std::string DaemonSide::bye() {
  for (const auto& line : lines()) {
    if (const auto* bye = std::get_if<Bye>(&line.body)) return bye->why;
  }
  return "";
}

Ended DaemonSide::wait_ended(AttemptId attempt) {
  std::optional<Ended> found;
  const bool in_time = wait_until([&] { return (found = ended(attempt)).has_value(); });
  REQUIRE_MESSAGE(in_time, "attempt " << attempt << " did not end: " << log());
  return *found;
}

std::vector<pid_t> DaemonSide::marked() const {
  std::vector<pid_t> pids;
  for (const auto& process : find_marked([&](std::string_view marker) {
         return marker.starts_with(spec.token + "/") && !marker.ends_with("/agent");
       }).found)
    pids.push_back(process.pid);
  return pids;
}

std::vector<pid_t> DaemonSide::agents() const {
  std::vector<pid_t> pids;
  for (const auto& process :
      find_marked([&](std::string_view marker) { return marker == spec.token + "/agent"; }).found)
    pids.push_back(process.pid);
  return pids;
}

bool DaemonSide::wait_marked(std::size_t count) {
  return wait_until([&] { return marked().size() >= count; });
}

void DaemonSide::wait_steps(const Assign& attempt, int count) {
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

bool DaemonSide::wait_clean() const {
  return wait_until([&] { return marked().empty(); });
}

}  // namespace shardsweep::test
