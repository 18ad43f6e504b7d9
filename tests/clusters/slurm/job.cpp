// SPDX-License-Identifier: Apache-2.0
#include "clusters/slurm/job.hpp"

#include "machine/descriptor.hpp"
#include "machine/processes.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

namespace shardsweep::test {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  REQUIRE_MESSAGE(value != nullptr, name << " is not set: run tests/clusters/slurm/agent");
  return value;
}

const passwd& user() {
  const passwd* found = ::getpwnam(variable("SLURM_CLUSTER_USER").c_str());
  REQUIRE(found != nullptr);
  return *found;
}

void give_to_user(const std::filesystem::path& path) {
  REQUIRE(::chown(path.c_str(), user().pw_uid, user().pw_gid) == 0);
}

/// A build folder need not be reachable for the cluster's user.
std::filesystem::path copied_programs() {
  static const Folder folder;
  static const bool copied = [] {
    for (const char* name : {"shardsweep-agent", "agent_test_rank", "shardbench-cpu"})
      std::filesystem::copy_file(
          std::filesystem::path(SHARDSWEEP_BIN_DIR) / name, folder.path() / name);
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
    return true;
  }();
  (void)copied;
  return folder.path();
}

std::string environment_value(pid_t pid, const std::string& name) {
  const Descriptor file(
      ::open(("/proc/" + std::to_string(pid) + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(1 << 17, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t at = ('\0' + text).find('\0' + name + "=");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 1;
  return text.substr(begin, text.find('\0', begin) - begin);
}

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

}  // namespace

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "re");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  REQUIRE_MESSAGE(status == 0, command);
  return trimmed(text);
}

Job::Job(int nodes) : DaemonSide(copied_programs()) {
  std::filesystem::permissions(folder().path(), std::filesystem::perms(0755));
  give_to_user(folder().path());
  spec.launch = LaunchMode::agents;
  spec.nodes = nodes;
  spec.slots_per_node = 2;
  spec.limits.beat_s = 0.2;
  spec.limits.agent_lease_s = no_lease_s;
  spec.limits.node_lease_s = no_lease_s;
  every.ranks_per_node = 2;
  // A test that is about one of these sets it.
  auto& limits = every.limits;
  limits.start_limit_s = limits.rendezvous_limit_s = limits.init_limit_s = no_lease_s;
  limits.first_step_limit_s = limits.step_limit_s = limits.attempt_limit_s = no_lease_s;
}

Job::~Job() {
  if (id_.empty()) return;
  if (std::uncaught_exceptions() > 0) std::fprintf(stderr, "%s\n", log().c_str());
  const int cancelled = std::system(("scancel " + id_).c_str());
  if (cancelled != 0) std::fprintf(stderr, "scancel %s: %d\n", id_.c_str(), cancelled);
  wait_gone();
}

void Job::hand_over(const std::filesystem::path& path) const {
  give_to_user(path);
}

std::string Job::submit() {
  REQUIRE(write_file_durably(paths().spec(), encode(spec)));
  give_to_user(paths().dir);
  std::string script = "#!/bin/bash\n";
  for (const std::string& option : {"--job-name=" + spec.job_name,
           "--nodes=" + std::to_string(spec.nodes), std::string("--ntasks-per-node=1"),
           std::string("--gpus-per-node=2"), std::string("--exclusive"), std::string("--mem=0"),
           std::string("--no-requeue"), std::string("--no-kill"), std::string("--open-mode=append"),
           "--output=" + paths().log().string()})
    script += "#SBATCH " + option + "\n";
  for (const std::string& option : options)
    script += "#SBATCH " + option + "\n";
  script += "set -euo pipefail\nexport PATH=/usr/bin:/bin\n" + prolog + "\ntrap '' USR1 USR2\n";
  script += "exec " + (programs() / "shardsweep-agent").string() + " lead --dir " +
      paths().dir.string() + "\n";
  const auto file = folder().write("script", script);
  std::string id = output_of(variable("SLURM_CLUSTER") + " as-user -- sbatch --parsable " +
      "--propagate=NONE --export=NIL '" + file.string() + "'");
  if (id_.empty()) id_ = id;
  return id;
}

std::vector<std::string> Job::wait_nodes() {
  std::map<std::string, bool> seen;
  const bool in_time = wait_until([&] {
    for (const auto& line : lines()) {
      if (const auto* node = std::get_if<NodeSeen>(&line.body)) seen[node->node] = true;
    }
    return seen.size() == static_cast<std::size_t>(spec.nodes);
  });
  REQUIRE_MESSAGE(in_time, "no node agents: " << log());
  std::vector<std::string> names;
  names.reserve(seen.size());
  for (const auto& [name, there] : seen)
    names.push_back(name);
  return names;
}

std::string Job::state(const std::string& id) const {
  const std::string job = id.empty() ? id_ : id;
  return output_of("squeue -h -t all -j " + job + " -o %T 2>/dev/null || true");
}

bool Job::wait_state(const std::string& word) {
  return wait_until([&] { return state() == word; }, patience_s, 100);
}

pid_t Job::lead() {
  for (const auto& line : lines()) {
    if (const auto* claimed = std::get_if<Claimed>(&line.body))
      return static_cast<pid_t>(claimed->pid);
  }
  return 0;
}

pid_t Job::srun() {
  for (const pid_t pid : children_of(lead())) {
    if (process_cmdline(pid).starts_with("/usr/bin/srun ")) return pid;
  }
  return 0;
}

pid_t Job::guard(const std::string& node) const {
  const std::string begin = (programs() / "shardsweep-agent").string() + " node ";
  std::map<pid_t, bool> agents;
  for (const auto& process :
      find_marked([&](std::string_view marker) { return marker == spec.token + "/agent"; }).found) {
    if (process.cmdline.starts_with(begin) &&
        environment_value(process.pid, "SLURMD_NODENAME") == node)
      agents[process.pid] = true;
  }
  for (const auto& [pid, one] : agents) {
    if (!agents.contains(process_stat(pid).value_or(ProcessStat{}).parent)) return pid;
  }
  return 0;
}

pid_t Job::node_agent(const std::string& node) const {
  const auto children = children_of(guard(node));
  return children.empty() ? 0 : children.front();
}

pid_t Job::stepd(const std::string& node) const {
  const pid_t pid = process_stat(guard(node)).value_or(ProcessStat{}).parent;
  return process_cmdline(pid).starts_with("slurmstepd") ? pid : 0;
}

std::vector<pid_t> Job::ranks(const std::string& node) const {
  std::vector<pid_t> pids;
  for (const auto& process : find_marked([&](std::string_view marker) {
         return marker.starts_with(spec.token + "/") && marker.ends_with("/" + node);
       }).found)
    pids.push_back(process.pid);
  return pids;
}

std::vector<TaskPlace> Job::places(const Assign& attempt) const {
  std::istringstream lines(
      output_of("tar -xOf '" + attempt.dir + ".tar' --wildcards '*rank.*.out' | sort -n -k 2"));
  std::vector<TaskPlace> places;
  std::string word;
  std::size_t rank = 0;
  std::string marker;
  TaskPlace place;
  while (lines >> word >> rank >> place.local_rank >> place.device >> marker >> place.inherited >>
      place.scheduler) {
    REQUIRE(rank == places.size());
    const std::string head = spec.token + "/" + std::to_string(attempt.attempt) + "/";
    REQUIRE(marker.starts_with(head));
    place.node = marker.substr(head.size());
    places.push_back(place);
  }
  REQUIRE(places.size() == 2 * static_cast<std::size_t>(spec.nodes));
  return places;
}

bool Job::wait_gone() {
  const pid_t leader = lead();
  return wait_until(
      [&] {
        const auto stat = process_stat(leader);
        return (!stat || stat->state == 'Z') && find_marked([&](std::string_view marker) {
          return marker.starts_with(spec.token + "/");
        }).found.empty();
      },
      patience_s, 50);
}

void Job::check_account(const std::string& why) {
  std::map<AttemptId, int> started;
  std::map<AttemptId, int> over;
  for (const auto& line : lines()) {
    if (const auto* one = std::get_if<Started>(&line.body)) ++started[one->attempt];
    if (const auto* one = std::get_if<Ended>(&line.body)) ++over[one->attempt];
    if (const auto* one = std::get_if<Revoked>(&line.body)) ++over[one->attempt];
  }
  for (AttemptId attempt = 1; attempt <= assigned(); ++attempt) {
    CHECK_MESSAGE(over[attempt] == 1, "attempt " << attempt);
    CHECK_MESSAGE(started[attempt] <= 1, "attempt " << attempt);
  }
  CHECK(bye() == why);
}

pid_t slurmd(const std::string& node) {
  return std::atoi(
      output_of("cut -d' ' -f1 " + variable("SLURM_CLUSTER_DIR") + "/pids/" + node).c_str());
}

bool is_saved(const std::string& job_name) {
  return std::system((
             "grep -qs " + job_name + " " + variable("SLURM_CLUSTER_DIR") + "/spool/ctld/job_state")
                         .c_str()) == 0;
}

void slurm_cluster(const std::string& arguments) {
  (void)output_of(variable("SLURM_CLUSTER") + " " + arguments + " >/dev/null");
}

}  // namespace shardsweep::test
