// SPDX-License-Identifier: Apache-2.0
#include "attempt/node_machine.hpp"

#include "text/secrets.hpp"

#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

constexpr int exit_ok = 0;
constexpr int exit_node_dirty = 70;  // a process could not be ended
constexpr int exit_alone = 71;       // lead or guard is gone

/// Values of the secrets in a spec.
std::map<std::string, std::string> secrets_in(const AttemptSpec& spec) {
  std::map<std::string, std::string> secrets;
  for (const std::string& name : spec.secrets) {
    if (const auto found = spec.env.find(name); found != spec.env.end()) secrets.insert(*found);
  }
  return secrets;
}

/// A cause may be a line of a log.
void hide_secrets(const AttemptSpec& spec, Ending& ending) {
  const auto secrets = secrets_in(spec);
  ending.cause = masked(std::move(ending.cause), secrets);
  ending.also = masked(std::move(ending.also), secrets);
}

}  // namespace

NodeMachine::NodeMachine(NodeOptions options, NodeOutside& outside)
    : options_(std::move(options)),
      outside_(outside),
      now_s_(outside.now().s),
      heard_s_(now_s_),
      beat_s_(now_s_) {}

void NodeMachine::round(const NodeSenses& senses) {
  keep_time();
  take_signals(senses.signals);
  for (const ToNodeBody& message : senses.heard) {
    heard_s_ = now_s_;
    std::visit([this](const auto& body) { take(body); }, message);
  }
  if (senses.guard_is_gone) leave(Outcome::node_failure, "the guard process has ended", exit_alone);
  if (senses.closed) leave(Outcome::lost, "the lead has ended", exit_alone);
  if (now_s_ - heard_s_ > options_.lease_s)
    leave(Outcome::lost, fmt::format("the lead sent nothing for {:.1f} s", now_s_ - heard_s_),
        exit_alone);
  step_waiting();
  step_attempt();
}

int NodeMachine::exit_code(bool clean) const {
  return clean ? leaving_.value_or(exit_ok) : exit_node_dirty;
}

/// A loop that stood still (suspended, starved) has seen nothing in that time and holds it
/// against nobody.
void NodeMachine::keep_time() {
  const double now_s = outside_.now().s;
  const double gap_s = now_s - now_s_;
  now_s_ = now_s;
  if (gap_s > 3 * std::max(options_.beat_s, options_.watch_s)) {
    outside_.log(fmt::format("stood still for {:.1f} s", gap_s));
    heard_s_ += gap_s;
    if (attempt_) attempt_->stretch(gap_s);
  }
  if (now_s - beat_s_ < options_.beat_s) return;
  beat_s_ = now_s;
  outside_.say(attempt_ ? attempt_->beat() : NodeBeat{});
}

void NodeMachine::take_signals(const std::vector<int>& signals) {
  for (const int number : signals) {
    if (number == SIGCHLD) continue;
    outside_.log("got " + signal_name(number));
    if (attempt_ && number == SIGTERM) attempt_->told_to_stop();
  }
}

void NodeMachine::take(const EndAttempt& end) {
  if (attempt_ && attempt_->id() == end.attempt) {
    if (end.cut_short) attempt_->set_cut_elsewhere();
    attempt_->end(end.outcome, end.why);
  }
  if (waiting_ && waiting_->spec.attempt == end.attempt) {
    waiting_.reset();
    outside_.stop_container();
    refuse(end.attempt, end.outcome, end.why);
  }
}

void NodeMachine::take(const AskProgress& question) {
  const bool running = attempt_ && attempt_->id() == question.attempt;
  outside_.say(NoProgress{question.attempt, running ? attempt_->still_s() : -1});
}

void NodeMachine::take(const TimedSteps& news) {
  if (attempt_ && attempt_->id() == news.attempt) attempt_->begin_timed();
}

void NodeMachine::take(const CheckNode& order) {
  const std::string fault = outside_.begin_check(order);
  if (fault.empty()) return;
  NodeChecked checked{order.time, order.round, {}};
  checked.facts.wrong = {"check: " + fault};
  outside_.say(std::move(checked));
}

/// Takes a sign of life; it says nothing else.
void NodeMachine::take(const LeadBeat&) {}

void NodeMachine::take(const Quit&) {
  leave(Outcome::cancelled, "the lead has left", exit_ok);
}

/// Takes the places of nodes. An agent of a step places all ranks; any other agent takes only its
/// own place.
void NodeMachine::take(const Place& place) {
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

void NodeMachine::refuse(
    AttemptId attempt, Outcome outcome, const std::string& why, int start_error) {
  outside_.log(fmt::format("attempt {} not started: {}", attempt, why));
  NodeEnded ended{.attempt = attempt, .at = outside_.now().at};
  ended.ending = {.outcome = outcome,
      .cause = "not started: " + why,
      .source = SaidBy::agent,
      .node = options_.node.name,
      .start_error = start_error};
  outside_.say(ended);
}

void NodeMachine::take(const Launch& launch) {
  const auto refuse_it = [&](const std::string& why) {
    refuse(launch.attempt, Outcome::node_failure, why);
  };
  if (attempt_) return refuse_it(fmt::format("attempt {} is running", attempt_->id()));
  if (waiting_) return refuse_it(fmt::format("attempt {} waits", waiting_->spec.attempt));
  if (leaving_) return refuse_it("the node agent is leaving");
  auto spec = outside_.read_spec(launch.dir);
  if (!spec) return refuse_it(spec.error().what);
  if (spec->attempt != launch.attempt) return refuse_it("its spec.json belongs to another attempt");
  if (spec->ranks_per_node > options_.node.slots)
    return refuse_it(
        fmt::format("{} ranks for {} slots", spec->ranks_per_node, options_.node.slots));
  if (!clean(outside_.clean_up(launch.dir), launch.attempt)) return;
  waiting_ = Waiting{*std::move(spec), launch.dir, launch.meet, now_s_};
  step_waiting();
}

/// Tells what was left here; false if something of it can't be ended.
bool NodeMachine::clean(const NodeCheck& check, AttemptId attempt) {
  if (!check.ended.empty())
    outside_.say(NodeFinding{EvidenceKind::leaked,
        fmt::format("ended leftover processes of earlier attempts ({}), such as '{}'",
            check.ended.size(), check.ended.front())});
  if (!check.removed.empty())
    outside_.say(NodeFinding{EvidenceKind::leaked,
        fmt::format("removed leftover segments of shared memory ({}), such as {}",
            check.removed.size(), check.removed.front())});
  if (check.stuck.empty()) return true;
  outside_.say(NodeFinding{EvidenceKind::dirty, "can't be ended: " + check.stuck.front()});
  refuse(attempt, Outcome::node_failure,
      "a process of an earlier attempt can't be ended: " + check.stuck.front());
  leave(Outcome::node_failure, "a process could not be ended", exit_node_dirty);
  return false;
}

/// Memory of a process that has ended comes back within seconds; if it does not, no attempt
/// would find what its layout needs.
void NodeMachine::step_waiting() {
  if (!waiting_) return;
  if (leaving_) {
    const AttemptId attempt = std::exchange(waiting_, std::nullopt)->spec.attempt;
    return refuse(attempt, Outcome::lost, "the node agent is leaving");
  }
  if (!container_is_ready()) return;
  const AttemptSpec& spec = waiting_->spec;
  GpuFindings found;
  if (spec.limits.gpu_release_s > 0) found = outside_.look_at_gpus(spec.limits.gpu_slack_bytes);
  if (found.held.empty()) return start(*std::exchange(waiting_, std::nullopt), found.others);
  const double waited_s = now_s_ - waiting_->since_s;
  if (waited_s < spec.limits.gpu_release_s) return;
  const std::string why =
      fmt::format("GPU memory was not freed within {:.0f} s: {}", waited_s, found.held);
  const AttemptId attempt = std::exchange(waiting_, std::nullopt)->spec.attempt;
  outside_.say(NodeFinding{EvidenceKind::dirty, why});
  refuse(attempt, Outcome::node_failure, why);
  leave(Outcome::node_failure, "GPU memory is still in use", exit_node_dirty);
}

/// Makes the container. An image's fault is the same on each node; a full disk is one node's fault.
bool NodeMachine::container_is_ready() {
  const ContainerState state = outside_.container(waiting_->spec, waiting_->dir);
  if (state != ContainerState::failed) return state == ContainerState::ready;
  const AttemptSpec spec = std::exchange(waiting_, std::nullopt)->spec;
  const std::string why = outside_.container_fault();
  const bool disk = why.find("No space left on device") != std::string::npos;
  refuse(spec.attempt, disk ? Outcome::node_failure : Outcome::lost,
      fmt::format("cannot make the container from {}: {}", spec.container->image, why),
      disk ? 0 : ENOENT);
  return false;
}

void NodeMachine::start(Waiting waiting, const std::string& others) {
  const AttemptId attempt = waiting.spec.attempt;
  gpus_shared_with_ = others;
  INVARIANT(!attempt_, "a node runs one attempt at a time", attempt_->id(), attempt);
  AttemptSpec spec = learnt_.applied_to(std::move(waiting.spec));
  auto ranks = outside_.ranks_of(options_.node, spec, waiting.dir, waiting.meet);
  attempt_.emplace(
      std::move(spec), options_.node.index == 0, options_.node.ranks_are_step, std::move(ranks));
  attempt_->launch();
  outside_.say(NodeLaunched{attempt});
}

void NodeMachine::step_attempt() {
  if (!attempt_) return;
  attempt_->round();
  if (auto suspicion = attempt_->suspicion()) outside_.say(*std::move(suspicion));
  if (!attempt_->over()) return;
  NodeEnded ended = attempt_->ended();
  hide_secrets(attempt_->spec(), ended.ending);
  note_gpus(ended);
  // The node of rank 0 has seen its records, and those are the world's.
  if (ended.ending.outcome == Outcome::completed && options_.node.index == 0)
    learnt_.learn(attempt_->spec(), attempt_->longest_still_s());
  const bool stuck = attempt_->stuck();
  attempt_.reset();
  outside_.remove_segments();
  outside_.say(ended);
  if (stuck)
    outside_.say(NodeFinding{EvidenceKind::dirty, "a process of an attempt can't be ended"});
  if (stuck) leave(Outcome::node_failure, "a process could not be ended", exit_node_dirty);
}

/// Notes foreign processes on the GPUs. All of ours are gone, so whoever is there now, or was at
/// the start, used them beside us.
void NodeMachine::note_gpus(NodeEnded& ended) {
  if (attempt_->spec().limits.gpu_release_s <= 0) return;
  const std::string now = outside_.look_at_gpus(attempt_->spec().limits.gpu_slack_bytes).others;
  const std::string& others = gpus_shared_with_.empty() ? now : gpus_shared_with_;
  if (others.empty()) return;
  ended.ending.mark = Mark::contaminated;
  add_clause(ended.ending.also, others);
}

void NodeMachine::leave(Outcome outcome, const std::string& why, int exit_code) {
  if (leaving_) return;
  outside_.log("leaving: " + why);
  leaving_ = exit_code;
  // Report first: without the guard Slurm takes the task for ended, and later messages are lost.
  if (outcome == Outcome::node_failure) outside_.say(NodeFinding{EvidenceKind::leaving, why});
  if (attempt_) attempt_->end(outcome, why);
}

}  // namespace shardsweep
