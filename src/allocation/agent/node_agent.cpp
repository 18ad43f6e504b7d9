// SPDX-License-Identifier: Apache-2.0
#include "agent/node_agent.hpp"

#include "agent/containers.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/guard.hpp"
#include "agent/reap.hpp"
#include "agent/running_attempt.hpp"
#include "agent/spawn.hpp"
#include "attempt/abandoned.hpp"
#include "attempt/topology.hpp"
#include "machine/descriptor.hpp"
#include "machine/host_name.hpp"
#include "machine/processes.hpp"
#include "node/shared_memory.hpp"
#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

namespace shardsweep::agent {

namespace {

constexpr int grace_ms = 1000;  // time to leave a communicator and release a GPU
constexpr int stuck_wait_ms = 2000;
constexpr std::size_t longest_list = 16 << 20;  // limit of a list of jobs: a million and more

std::vector<MarkerSighting> markers_of(const std::vector<MarkedProcess>& marked) {
  std::vector<MarkerSighting> seen;
  seen.reserve(marked.size());
  for (const MarkedProcess& one : marked)
    seen.push_back({one.marker, one.in_step});
  return seen;
}

void find_marked_left(const CheckedNode& node, const Log& log, std::vector<ProcessEntry>& left) {
  const auto marked = marked_processes();
  const auto seen = markers_of(marked);
  if (abandoned(seen, {}, node.token, node.name, 0).empty()) return;
  const auto later = markers_of(marked_processes());
  for (const std::size_t at : abandoned(seen, later, node.token, node.name, 0)) {
    left.push_back(marked[at].process);
    log.line(fmt::format("process {} is left over from attempt {}: {}", left.back().pid,
        marked[at].marker, left.back().cmdline));
  }
}

/// Jobs that have ended can't start again: what carries their number has been left.
void find_left_of_jobs(const CheckedNode& node, const Log& log, std::vector<ProcessEntry>& left) {
  std::vector<JobProcess> others = job_processes();
  std::erase_if(others, [&](const JobProcess& one) {
    return one.job == node.job || one.in_step || one.cluster != node.cluster;
  });
  if (others.empty()) return;
  const auto list = read_own_file(node.ended_jobs, longest_list);
  if (!list) return;  // no job of ours has ended yet
  for (const JobProcess& one : others) {
    if (!lists_job(*list, one.job)) continue;
    left.push_back(one.process);
    log.line(fmt::format("process {} is left over from job {}, which has ended: {}",
        one.process.pid, one.job, one.process.cmdline));
  }
}

}  // namespace

NodeCheck check_node(const CheckedNode& node, const Log& log) {
  std::vector<ProcessEntry> left;
  find_marked_left(node, log, left);
  find_left_of_jobs(node, log, left);
  NodeCheck check;
  const auto stuck = end_processes(left, grace_ms, stuck_wait_ms);
  for (const ProcessEntry& process : left) {
    const bool is_stuck = std::any_of(
        stuck.begin(), stuck.end(), [&](const auto& other) { return other.pid == process.pid; });
    (is_stuck ? check.stuck : check.ended).push_back(process.cmdline);
  }
  for (const SharedFile& file : remove_abandoned_segments()) {
    check.removed.push_back(fmt::format("{} ({} bytes)", file.name, file.bytes));
    log.line(fmt::format("removed the leftover /dev/shm/{}", check.removed.back()));
  }
  return check;
}

namespace {

/// An image may be fetched with them.
Environment with_secrets_of(const AttemptSpec& spec, Environment environment) {
  for (const std::string& name : spec.secrets) {
    if (const auto found = spec.env.find(name); found != spec.env.end())
      environment.push_back(fmt::format("{}={}", found->first, found->second));
  }
  return environment;
}

constexpr double reap_poll_s = 0.002;
// A lead that does not read for a second has stopped, and its lease ends everything here.
constexpr int last_word_tries = 10;
constexpr int last_word_wait_ms = 100;
constexpr double guard_removal_s = 20;

/// Ranks get no descriptor of the channel, and what a library prints goes to the log.
Descriptor take_over_stdout() {
  Descriptor own(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return own;
}

/// The guard may be the next to be killed: the lead decides once it has ended.
void report_killed(const std::string& node, int signal) {
  // Start a new line: the agent's last one may lack its end.
  Channel channel(STDIN_FILENO, STDOUT_FILENO);
  channel.send("\n" + encode(FromNode{node, finding_of_killed_agent(node, signal)}));
  const pollfd writable = channel.writable();
  for (int tries = 0; channel.has_unsent() && tries < last_word_tries; ++tries) {
    pollfd wait = writable;
    (void)::poll(&wait, 1, last_word_wait_ms);
    channel.flush();
  }
}

/// Removes the containers that a killed agent can no longer remove.
void remove_left_containers(const Descriptor& from_agent, const Clock& clock) {
  std::array<char, 4096> words{};
  const ssize_t count = ::read(from_agent.get(), words.data(), words.size());
  if (count <= 0) return;
  std::vector<std::string> command;
  for (const auto word : split({words.data(), static_cast<std::size_t>(count)}, '\n'))
    command.emplace_back(word);
  if (!run_removal(command, current_environment(), clock, guard_removal_s))
    std::fputs("guard: containers of killed ranks could not be removed\n", stderr);
}

}  // namespace

NodeAgent::NodeAgent(NodeOptions options, const Clock& clock, pid_t guard, Descriptor to_guard)
    : token_(options.node.token),
      watch_s_(options.watch_s),
      clock_(clock),
      log_(clock, "node " + options.node.name),
      guard_(guard),
      guard_handle_(open_pidfd(guard)),
      to_guard_(std::move(to_guard)),
      container_owner_(container_owner(guard).text()),
      out_(take_over_stdout()),
      channel_(STDIN_FILENO, out_.get()),
      environment_(current_environment()),
      devices_(visible_devices(environment_, options.node.slots, has_gpus())),
      gpus_(devices_, log_),
      machine_(std::move(options), *this) {}

int NodeAgent::run() {
  say_ready();
  while (true) {
    machine_.round(look());
    step_check();
    if (machine_.over()) break;
    wait();
  }
  channel_.flush();
  containers_.remove_all(environment_, container_place(), clock_);
  return machine_.exit_code(kill_all_children(clock_, 1));
}

void NodeAgent::say_ready() {
  const NodeIdentity& node = machine_.node();
  fail_point("node.ready");
  say(NodeReady{node.name, host_name(), ::getpid(), node.index, gpu_models(devices_, log_),
      switches_in(value_in(environment_, "SLURM_TOPOLOGY_ADDR").value_or(""),
          value_in(environment_, "SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""))});
  fail_point("node.ready_said");
}

NodeSenses NodeAgent::look() {
  NodeSenses seen;
  seen.signals = signals_.take();
  for (const auto& line : channel_.receive()) {
    auto message = decode_to_node(line);
    if (message) {
      seen.heard.push_back(*std::move(message));
    } else {
      log_.line(message.error().what);
    }
  }
  seen.guard_is_gone = ::getppid() != guard_;
  seen.closed = channel_.closed() || channel_.broken();
  return seen;
}

Moment NodeAgent::now() const {
  return {seconds_of(clock_), clock_.now()};
}

void NodeAgent::say(FromNodeBody body) {
  const bool launched = std::holds_alternative<NodeLaunched>(body);
  const bool ended = std::holds_alternative<NodeEnded>(body);
  if (launched) fail_point("node.launched");
  if (ended) fail_point("node.ended");
  if (std::holds_alternative<NodeBeat>(body)) fail_point("node.beat");
  if (std::holds_alternative<Suspect>(body)) fail_point("node.suspect");
  channel_.send(encode(FromNode{machine_.node().name, std::move(body)}));
  if (launched) fail_point("node.launched_said");
  if (ended) fail_point("node.ended_said");
}

// ---- attempts

Result<AttemptSpec> NodeAgent::read_spec(const std::string& dir) {
  return read_own_file(AttemptPaths{dir}.spec()).and_then([](const std::string& text) {
    return decode_attempt_spec(text).and_then(with_secrets);
  });
}

NodeCheck NodeAgent::clean_up(const std::string& dir) {
  const std::filesystem::path folder(dir);
  return check_node({.token = token_,
                        .name = machine_.node().name,
                        .job = job_id_of(value_in(environment_, "SLURM_JOB_ID").value_or(""),
                            value_in(environment_, "SLURM_ARRAY_JOB_ID").value_or(""),
                            value_in(environment_, "SLURM_ARRAY_TASK_ID").value_or("")),
                        .cluster = value_in(environment_, "SLURM_CLUSTER_NAME").value_or(""),
                        .ended_jobs = folder.parent_path().parent_path() / ended_jobs_file},
      log_);
}

ContainerPlace NodeAgent::container_place() const {
  ContainerPlace place =
      place_of_container(environment_, token_, !devices_.empty(), container_owner_);
  if (place.node.empty()) place.node = machine_.node().name;
  return place;
}

/// A line per word, in one write: a pipe takes it whole.
void NodeAgent::tell_guard(const std::vector<std::string>& removal) {
  if (removal.empty() || !to_guard_.valid()) return;
  const std::string words = fmt::format("{}", fmt::join(removal, "\n"));
  if (::write(to_guard_.get(), words.data(), words.size()) < 0)
    log_.line(errno_fault("cannot send the guard the command that removes the container").what);
  to_guard_.reset();
}

ContainerState NodeAgent::container(const AttemptSpec& spec, const std::string& dir) {
  if (spec.container) tell_guard(remove_left_command(*spec.container, container_owner_));
  return containers_.step(spec, AttemptPaths{dir}, with_secrets_of(spec, environment_),
      container_place(), seconds_of(clock_));
}

std::unique_ptr<RanksOutside> NodeAgent::ranks_of(const NodeIdentity& node, const AttemptSpec& spec,
    const std::string& dir, const std::string& meet) {
  OfNode given{.environment = node.in_a_shell ? passed_on(environment_) : environment_,
      .devices = devices_,
      .gpus = gpus_,
      .meet = meet};
  if (spec.container) given.image_digest = containers_.digest_of(*spec.container);
  given.container_owner = container_owner_;
  return std::make_unique<RunningAttempt>(
      node, clock_, log_, spec, AttemptPaths{dir}, std::move(given));
}

void NodeAgent::remove_segments() {
  for (const SharedFile& file : remove_abandoned_segments())
    log_.line(fmt::format("removed the leftover /dev/shm/{} ({} bytes)", file.name, file.bytes));
}

// ---- the check of this node

std::string NodeAgent::begin_check(const CheckNode& order) {
  // End an earlier check: the lead has its answer, or no longer waits for it.
  end_check();
  auto child = own_program().and_then([&](const std::string& program) {
    return start_piped(
        {program, "check", "--dir", order.dir, "--name", machine_.node().name, "--time",
            std::string(word_of(order.time)), "--round", std::to_string(order.round)},
        environment_);
  });
  if (!child) return child.error().what;
  checking_.emplace(*std::move(child));
  return "";
}

/// Passes on the lines of the check as this agent's own.
void NodeAgent::step_check() {
  if (!checking_) return;
  for (const std::string& line : checking_->said.receive()) {
    if (decode_from_node(line)) channel_.send(line);
  }
  if (checking_->said.closed()) end_check();
}

/// Ends the check. Its remains are ended later, with all children of this process.
void NodeAgent::end_check() {
  if (!checking_) return;
  ::kill(checking_->child.pid, SIGKILL);
  ::waitpid(checking_->child.pid, nullptr, 0);
  checking_.reset();
}

void NodeAgent::wait() {
  double timeout_s = machine_.next_beat_s() - seconds_of(clock_);
  if (machine_.is_busy()) timeout_s = std::min(timeout_s, watch_s_);
  // Children come and go without a SIGCHLD each while a tree is being ended.
  if (machine_.cleaning()) timeout_s = reap_poll_s;
  std::vector<pollfd> polled;
  polled.push_back({signals_.descriptor(), POLLIN, 0});
  if (!channel_.closed()) polled.push_back(channel_.readable());
  if (checking_) polled.push_back(checking_->said.readable());
  if (channel_.has_unsent()) polled.push_back(channel_.writable());
  if (guard_handle_.valid() && !machine_.is_leaving())
    polled.push_back({guard_handle_.get(), POLLIN, 0});
  const int timeout_ms = std::max(1, static_cast<int>(timeout_s * 1000));
  (void)::poll(polled.data(), polled.size(), timeout_ms);
  channel_.flush();
}

int run_node(const NodeOptions& options, const Clock& clock) {
  const pid_t guard = ::getpid();
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) std::perror("guard: cannot make a pipe");
  const Descriptor from_agent(ends[0]);
  Descriptor to_guard(ends[1]);
  return run_guard(clock,
      [&] {
        become_subreaper();
        // Wakes the loop, which then finds that its parent is another one.
        ::prctl(PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0);
        return NodeAgent(options, clock, guard, std::move(to_guard)).run();
      },
      {[&](int signal) { report_killed(options.node.name, signal); },
          [&] { remove_left_containers(from_agent, clock); }});
}

}  // namespace shardsweep::agent
