// SPDX-License-Identifier: Apache-2.0
#include "agent/node_agent.hpp"

#include "agent/container_rank.hpp"
#include "agent/gpu_models.hpp"
#include "agent/guard.hpp"
#include "agent/reap.hpp"
#include "agent/spawn.hpp"
#include "attempt/abandoned.hpp"
#include "attempt/topology.hpp"
#include "machine/descriptor.hpp"
#include "machine/host_name.hpp"
#include "machine/processes.hpp"
#include "node/shared_memory.hpp"
#include "text/secrets.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

namespace shardsweep::agent {
namespace {

/// Of the spec that starts ranks.
Secrets secrets_in(const AttemptSpec& spec) {
  Secrets secrets;
  for (const std::string& name : spec.secrets) {
    if (const auto found = spec.env.find(name); found != spec.env.end()) secrets.insert(*found);
  }
  return secrets;
}

/// An image may be fetched with them.
Environment with_secrets_of(const AttemptSpec& spec, Environment environment) {
  for (const auto& [name, value] : secrets_in(spec))
    environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

/// A cause may be a line of a log.
void hide_secrets(const AttemptSpec& spec, Ending& ending) {
  const Secrets secrets = secrets_in(spec);
  ending.cause = masked(std::move(ending.cause), secrets);
  ending.also = masked(std::move(ending.also), secrets);
}

constexpr int exit_ok = 0;
constexpr int exit_node_dirty = 70;  // a process could not be ended
constexpr int exit_alone = 71;       // lead or guard is gone
constexpr double reap_poll_s = 0.002;
// A lead that does not read for a second has stopped, and its lease ends everything here.
constexpr int last_word_tries = 10;
constexpr int last_word_wait_ms = 100;

/// Ranks get no descriptor of the channel, and what a library prints goes to the log.
Descriptor take_over_stdout() {
  Descriptor own(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return own;
}

/// The guard's own word: an agent that is killed names no cause, and its node would be one of
/// several that have ended. Called before the guard leaves, while the channel is open. The
/// guard may be the next to be killed: the lead decides once it has ended.
void report_killed(const std::string& node, int signal) {
  const NodeFinding finding{
      EvidenceKind::killed,
      fmt::format("the node agent of {} was ended by {}", node, signal_name(signal))};
  // What the agent has said last may lack its end.
  Channel channel(STDIN_FILENO, STDOUT_FILENO);
  channel.send("\n" + encode(FromNode{node, finding}));
  const pollfd writable = channel.writable();
  for (int tries = 0; channel.has_unsent() && tries < last_word_tries; ++tries) {
    pollfd wait = writable;
    (void)::poll(&wait, 1, last_word_wait_ms);
    channel.flush();
  }
}

}  // namespace

NodeAgent::NodeAgent(NodeOptions options, const Clock& clock, pid_t guard)
    : options_(std::move(options)),
      clock_(clock),
      log_(clock, "node " + options_.node.name),
      guard_(guard),
      guard_handle_(open_pidfd(guard)),
      out_(take_over_stdout()),
      channel_(STDIN_FILENO, out_.get()),
      environment_(current_environment()),
      devices_(visible_devices(environment_, options_.node.slots, has_gpus())),
      gpus_(devices_, log_),
      now_s_(seconds_of(clock)),
      heard_s_(now_s_),
      beat_s_(now_s_) {}

int NodeAgent::run() {
  fail_point("node.ready");
  say(NodeReady{
      options_.node.name, host_name(), ::getpid(), options_.node.index,
      gpu_models(devices_, log_),
      switches_in(value_in(environment_, "SLURM_TOPOLOGY_ADDR").value_or(""),
                  value_in(environment_, "SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""))});
  fail_point("node.ready_said");
  while (true) {
    keep_time();
    take_signals();
    for (const auto& line : channel_.receive())
      take_line(line);
    if (::getppid() != guard_)
      leave(Outcome::node_failure, "the guard process has ended", exit_alone);
    if (channel_.closed() || channel_.broken())
      leave(Outcome::lost, "the lead has ended", exit_alone);
    if (now_s_ - heard_s_ > options_.lease_s)
      leave(Outcome::lost, fmt::format("the lead sent nothing for {:.1f} s", now_s_ - heard_s_),
            exit_alone);
    step_waiting();
    step_attempt();
    step_check();
    if (leaving_ && !attempt_) break;
    wait();
  }
  channel_.flush();
  containers_.remove_all(environment_, container_place(), clock_);
  const bool clean = kill_all_children(clock_, 1);
  return clean ? *leaving_ : exit_node_dirty;
}

/// A loop that stood still (suspended, starved) has seen nothing in that time and holds it
/// against nobody.
void NodeAgent::keep_time() {
  const double now_s = seconds_of(clock_);
  const double gap_s = now_s - now_s_;
  now_s_ = now_s;
  if (gap_s > 3 * std::max(options_.beat_s, options_.watch_s)) {
    log_.line(fmt::format("stood still for {:.1f} s", gap_s));
    heard_s_ += gap_s;
    if (attempt_) attempt_->stretch(gap_s);
  }
  if (now_s - beat_s_ < options_.beat_s) return;
  beat_s_ = now_s;
  fail_point("node.beat");
  say(attempt_ ? attempt_->beat() : NodeBeat{});
}

void NodeAgent::take_signals() {
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) continue;
    log_.line("got " + signal_name(number));
    if (attempt_ && number == SIGTERM) attempt_->told_to_stop();
  }
}

void NodeAgent::take_line(const std::string& line) {
  const auto message = decode_to_node(line);
  if (!message) return log_.line(message.error().what);
  heard_s_ = now_s_;
  std::visit([this](const auto& body) { take(body); }, *message);
}

void NodeAgent::take(const EndAttempt& end) {
  if (attempt_ && attempt_->id() == end.attempt) {
    if (end.cut_short) attempt_->set_cut_elsewhere();
    attempt_->end(end.outcome, end.why);
  }
  if (waiting_ && waiting_->spec.attempt == end.attempt) {
    waiting_.reset();
    containers_.stop();
    refuse(end.attempt, end.outcome, end.why);
  }
}

void NodeAgent::take(const AskProgress& question) {
  const bool running = attempt_ && attempt_->id() == question.attempt;
  say(NoProgress{question.attempt, running ? attempt_->still_s() : -1});
}

void NodeAgent::take(const TimedSteps& news) {
  if (attempt_ && attempt_->id() == news.attempt) attempt_->begin_timed();
}

void NodeAgent::take(const CheckNode& order) {
  if (checking_) return;
  auto child = own_program().and_then([&](const std::string& program) {
    return start_piped(
        {program, "check", "--dir", order.dir, "--name", options_.node.name, "--time",
         std::string(word_of(order.time)), "--round", std::to_string(order.round)},
        environment_);
  });
  if (!child) {
    NodeChecked checked{order.time, order.round, {}};
    checked.facts.wrong = {"check: " + child.error().what};
    return say(std::move(checked));
  }
  checking_.emplace(*std::move(child));
}

/// Its line is ours. What it may have left behind goes as all that this process is left with.
void NodeAgent::step_check() {
  if (!checking_) return;
  for (const std::string& line : checking_->said.receive()) {
    if (decode_from_node(line)) channel_.send(line);
  }
  if (!checking_->said.closed()) return;
  ::kill(checking_->child.pid, SIGKILL);
  ::waitpid(checking_->child.pid, nullptr, 0);
  checking_.reset();
}

/// That the lead was heard is all that this says.
void NodeAgent::take(const LeadBeat&) {}

void NodeAgent::take(const Quit&) {
  leave(Outcome::cancelled, "the lead has left", exit_ok);
}

/// Of a step's ranks this agent places all; else each agent knows its own.
void NodeAgent::take(const Place& place) {
  NodeIdentity& node = options_.node;
  if (!node.ranks_are_step) {
    if (place.node == node.name) node.index = place.index;
    return;
  }
  const auto index = static_cast<std::size_t>(place.index);
  if (place.index < 0 || index >= node.job_nodes.size()) return;
  node.job_nodes[index] = place.node;
  node.is_reordered = true;
}

void NodeAgent::refuse(AttemptId attempt, Outcome outcome, const std::string& why,
                       int start_error) {
  log_.line(fmt::format("attempt {} not started: {}", attempt, why));
  NodeEnded ended{.attempt = attempt, .at = clock_.now()};
  ended.ending = {.outcome = outcome,
                  .cause = "not started: " + why,
                  .source = SaidBy::agent,
                  .node = options_.node.name,
                  .start_error = start_error};
  say(ended);
}

void NodeAgent::take(const Launch& launch) {
  const auto refuse_it = [&](const std::string& why) {
    refuse(launch.attempt, Outcome::node_failure, why);
  };
  if (attempt_) return refuse_it(fmt::format("attempt {} is running", attempt_->id()));
  if (waiting_) return refuse_it(fmt::format("attempt {} waits", waiting_->spec.attempt));
  if (leaving_) return refuse_it("the node agent is leaving");
  AttemptPaths paths{launch.dir};
  const auto spec = read_own_file(paths.spec()).and_then([](const std::string& text) {
    return decode_attempt_spec(text).and_then(with_secrets);
  });
  if (!spec) return refuse_it(spec.error().what);
  if (spec->attempt != launch.attempt)
    return refuse_it("its spec.json belongs to another attempt");
  if (spec->ranks_per_node > options_.node.slots)
    return refuse_it(
        fmt::format("{} ranks for {} slots", spec->ranks_per_node, options_.node.slots));
  ended_jobs_ = paths.dir.parent_path().parent_path() / ended_jobs_file;
  if (!clean(check(), launch.attempt)) return;
  waiting_ = Waiting{*spec, std::move(paths), launch.meet, now_s_};
  step_waiting();
}

NodeCheck NodeAgent::check() const {
  return check_node(
      {.token = options_.node.token,
       .name = options_.node.name,
       .job = job_id_of(value_in(environment_, "SLURM_JOB_ID").value_or(""),
                        value_in(environment_, "SLURM_ARRAY_JOB_ID").value_or(""),
                        value_in(environment_, "SLURM_ARRAY_TASK_ID").value_or("")),
       .cluster = value_in(environment_, "SLURM_CLUSTER_NAME").value_or(""),
       .ended_jobs = ended_jobs_},
      log_);
}

/// Tells what was left here; false where something of it can't be ended.
bool NodeAgent::clean(const NodeCheck& check, AttemptId attempt) {
  if (!check.ended.empty())
    say(NodeFinding{
        EvidenceKind::leaked,
        fmt::format("ended leftover processes of earlier attempts ({}), such as '{}'",
                    check.ended.size(), check.ended.front())});
  if (!check.removed.empty())
    say(NodeFinding{EvidenceKind::leaked,
                    fmt::format("removed leftover segments of shared memory ({}), such as {}",
                                check.removed.size(), check.removed.front())});
  if (check.stuck.empty()) return true;
  say(NodeFinding{EvidenceKind::dirty, "can't be ended: " + check.stuck.front()});
  refuse(attempt, Outcome::node_failure,
         "a process of an earlier attempt can't be ended: " + check.stuck.front());
  leave(Outcome::node_failure, "a process could not be ended", exit_node_dirty);
  return false;
}

/// Memory of a process that has ended comes back within seconds; where it does not, no attempt
/// would find what its layout needs.
void NodeAgent::step_waiting() {
  if (!waiting_) return;
  if (leaving_) {
    const AttemptId attempt = std::exchange(waiting_, std::nullopt)->spec.attempt;
    return refuse(attempt, Outcome::lost, "the node agent is leaving");
  }
  if (!container_is_ready()) return;
  const AttemptSpec& spec = waiting_->spec;
  GpuFindings found;
  if (spec.limits.gpu_release_s > 0) found = gpus_.look(spec.limits.gpu_slack_bytes);
  if (found.held.empty()) return start(*std::exchange(waiting_, std::nullopt), found.others);
  const double waited_s = now_s_ - waiting_->since_s;
  if (waited_s < spec.limits.gpu_release_s) return;
  const std::string why =
      fmt::format("GPU memory was not freed within {:.0f} s: {}", waited_s, found.held);
  const AttemptId attempt = std::exchange(waiting_, std::nullopt)->spec.attempt;
  say(NodeFinding{EvidenceKind::dirty, why});
  refuse(attempt, Outcome::node_failure, why);
  leave(Outcome::node_failure, "GPU memory is still in use", exit_node_dirty);
}

ContainerPlace NodeAgent::container_place() const {
  ContainerPlace place =
      place_of_container(environment_, options_.node.token, !devices_.empty());
  if (place.node.empty()) place.node = options_.node.name;
  return place;
}

/// What the image lacks it lacks on each node; a node's own disk may be full.
bool NodeAgent::container_is_ready() {
  const auto state = containers_.step(waiting_->spec, waiting_->paths,
                                      with_secrets_of(waiting_->spec, environment_),
                                      container_place(), now_s_);
  if (state == ContainerMaker::State::making) return false;
  if (state == ContainerMaker::State::ready) return true;
  const AttemptSpec spec = std::exchange(waiting_, std::nullopt)->spec;
  const bool disk = containers_.why().find("No space left on device") != std::string::npos;
  const std::string why = containers_.take_fault();
  refuse(spec.attempt, disk ? Outcome::node_failure : Outcome::lost,
         fmt::format("its container could not be made from {}: {}", spec.container->image, why),
         disk ? 0 : ENOENT);
  return false;
}

void NodeAgent::start(Waiting waiting, const std::string& others) {
  const AttemptId attempt = waiting.spec.attempt;
  gpus_shared_with_ = others;
  INVARIANT(!attempt_, "a node runs one attempt at a time", attempt_->id(), attempt);
  attempt_.emplace(options_.node, clock_, log_, learnt_.applied_to(std::move(waiting.spec)),
                   std::move(waiting.paths));
  attempt_->watch_gpus(gpus_);
  if (const auto& container = attempt_->spec().container)
    attempt_->set_image_digest(containers_.digest_of(*container));
  attempt_->launch(options_.node.in_a_shell ? passed_on(environment_) : environment_, devices_,
                   waiting.meet);
  fail_point("node.launched");
  say(NodeLaunched{attempt});
  fail_point("node.launched_said");
}

void NodeAgent::step_attempt() {
  if (!attempt_) return;
  attempt_->step();
  if (auto suspicion = attempt_->suspicion()) {
    fail_point("node.suspect");
    say(*std::move(suspicion));
  }
  if (!attempt_->over()) return;
  NodeEnded ended = attempt_->ended();
  hide_secrets(attempt_->spec(), ended.ending);
  note_gpus(ended);
  // The node of rank 0 has seen its records, and those are the world's.
  if (ended.ending.outcome == Outcome::completed && options_.node.index == 0)
    learnt_.learn(attempt_->spec(), attempt_->longest_still_s());
  const bool stuck = attempt_->stuck();
  attempt_.reset();
  for (const SharedFile& file : remove_abandoned_segments())
    log_.line(
        fmt::format("removed the leftover /dev/shm/{} ({} bytes)", file.name, file.bytes));
  fail_point("node.ended");
  say(ended);
  fail_point("node.ended_said");
  if (stuck) say(NodeFinding{EvidenceKind::dirty, "a process of an attempt can't be ended"});
  if (stuck) leave(Outcome::node_failure, "a process could not be ended", exit_node_dirty);
}

/// All of ours is gone: who is there now, or was when it began, has used them beside us.
void NodeAgent::note_gpus(NodeEnded& ended) {
  if (attempt_->spec().limits.gpu_release_s <= 0) return;
  const std::string now = gpus_.look(attempt_->spec().limits.gpu_slack_bytes).others;
  const std::string& others = gpus_shared_with_.empty() ? now : gpus_shared_with_;
  if (others.empty()) return;
  ended.ending.mark = Mark::contaminated;
  add_clause(ended.ending.also, others);
}

void NodeAgent::leave(Outcome outcome, const std::string& why, int exit_code) {
  if (leaving_) return;
  log_.line("leaving: " + why);
  leaving_ = exit_code;
  // At once: without the guard Slurm takes the task for ended, and what is said later is lost.
  if (outcome == Outcome::node_failure) say(NodeFinding{EvidenceKind::leaving, why});
  if (attempt_) attempt_->end(outcome, why);
}

void NodeAgent::wait() {
  double timeout_s = options_.beat_s - (now_s_ - beat_s_);
  if (attempt_ || waiting_) timeout_s = std::min(timeout_s, options_.watch_s);
  // Children come and go without a SIGCHLD each while a tree is being ended.
  if (attempt_ && attempt_->cleaning()) timeout_s = reap_poll_s;
  std::vector<pollfd> polled;
  polled.push_back({signals_.descriptor(), POLLIN, 0});
  if (!channel_.closed()) polled.push_back(channel_.readable());
  if (checking_) polled.push_back(checking_->said.readable());
  if (channel_.has_unsent()) polled.push_back(channel_.writable());
  if (guard_handle_.valid() && !leaving_) polled.push_back({guard_handle_.get(), POLLIN, 0});
  const int timeout_ms = std::max(1, static_cast<int>(timeout_s * 1000));
  (void)::poll(polled.data(), polled.size(), timeout_ms);
  channel_.flush();
}

void NodeAgent::say(FromNodeBody body) {
  channel_.send(encode(FromNode{options_.node.name, std::move(body)}));
}

int run_node(const NodeOptions& options, const Clock& clock) {
  const pid_t guard = ::getpid();
  return run_guard(
      clock,
      [&] {
        become_subreaper();
        // Wakes the loop, which then finds that its parent is another one.
        ::prctl(PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0);
        return NodeAgent(options, clock, guard).run();
      },
      [&](int signal) { report_killed(options.node.name, signal); });
}

}  // namespace shardsweep::agent
