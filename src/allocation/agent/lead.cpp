// SPDX-License-Identifier: Apache-2.0
#include "agent/lead.hpp"

#include "agent/gpu_models.hpp"
#include "agent/meeting_place.hpp"
#include "agent/reap.hpp"
#include "node/nvml.hpp"
#include "text/node_list.hpp"

#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace shardsweep::agent {
namespace {

// The ranks on other nodes notice, say so and leave; then they are ended.
constexpr double peers_grace_s = 2;
// Beyond the grace of a running attempt: node agents that have been told to leave.
constexpr double quit_limit_s = 10;
constexpr double last_kill_s = 60;
// By how much the controller's clock may be ahead of ours.
constexpr double end_tolerance_s = 5;
// The daemon's file is worth waiting for when everything else is over.
constexpr double last_words_s = 60;

std::vector<std::string> nodes_of_job(const AllocationSpec& spec) {
  if (spec.launch == LaunchMode::local) return {};
  return nodes_in(value_in(current_environment(), "SLURM_JOB_NODELIST").value_or(""));
}

}  // namespace

Lead::Lead(AllocationPaths paths, AllocationSpec spec, LineWriter from_lead, const Clock& clock,
           PipedChild nodes, JobEnd job_end)
    : paths_(std::move(paths)),
      spec_(std::move(spec)),
      agents_(spec_.launch == LaunchMode::agents ? spec_.nodes : 1),
      job_nodes_(nodes_of_job(spec_)),
      from_lead_(paths_.from_lead(), std::move(from_lead)),
      gate_(paths_.dir),
      to_lead_(paths_.to_lead()),
      clock_(clock),
      log_(clock, "lead"),
      child_(std::move(nodes)),
      channel_(child_.from.get(), child_.to.get()),
      job_end_(std::move(job_end)),
      job_report_(spec_.launch == LaunchMode::local ? Environment{} : current_environment()),
      topology_(current_environment(), is_step_launch() && job_nodes_.size() > 1),
      now_s_(seconds_of(clock)),
      started_s_(now_s_),
      beat_s_(now_s_),
      file_beat_s_(now_s_),
      busy_s_(now_s_) {}

int Lead::run() {
  while (true) {
    keep_time();
    take_signals();
    read_nodes();
    watch_nodes();
    read_assignments();
    place_job_nodes();
    keep_wall_time();
    finish_if_ended();
    take_settled();
    if (leaving_ && !is_busy()) return depart();
    start_next();
    if (is_busy()) busy_s_ = now_s_;
    if (!is_busy() && assignments_.draining()) leave("drained");
    if (!is_busy() && now_s_ - busy_s_ > spec_.limits.idle_limit_s) leave("idle");
    wait();
  }
}

/// Beats, and a gap in our own loop (suspended, starved) stretches every limit.
void Lead::keep_time() {
  const double now_s = seconds_of(clock_);
  const double gap_s = now_s - now_s_;
  now_s_ = now_s;
  if (gap_s > 3 * spec_.limits.beat_s) {
    log_.line(fmt::format("stood still for {:.1f} s", gap_s));
    started_s_ += gap_s;
    busy_s_ += gap_s;
    for (auto& [name, node] : nodes_)
      node.heard_s += gap_s;
    if (running_ && running_->end_others_at_s) *running_->end_others_at_s += gap_s;
  }
  beat();
  from_lead_.step(now_s, log_);
  if (now_s - file_beat_s_ < spec_.limits.file_beat_s) return;
  file_beat_s_ = now_s;
  Beat beat;
  if (running_) {
    beat.attempt = running_->assign.attempt;
    for (const auto& [name, node] : nodes_) {
      if (node.step < beat.step || node.phase.empty()) continue;
      beat.phase = node.phase;
      beat.step = node.step;
    }
  }
  say(beat, false);
}

void Lead::beat() {
  const double now_s = seconds_of(clock_);
  if (now_s - beat_s_ < spec_.limits.beat_s) return;
  beat_s_ = now_s;
  tell(LeadBeat{});
}

void Lead::take_signals() {
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) continue;
    log_.line("got " + signal_name(number));
    const bool stop =
        number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGXCPU;
    if (!stop || leaving_) continue;
    end_running(Outcome::preempted,
                fmt::format("the allocation was told to stop ({})", signal_name(number)),
                SaidBy::agent);
    leave("signal");
  }
}

// ---- the daemon's file

/// Each look opens a file, on a network file system a question to its server; thousands of
/// node agents wake this loop more often than that.
void Lead::read_assignments() {
  if (now_s_ - assignments_read_s_ < spec_.limits.watch_interval_s) return;
  assignments_read_s_ = now_s_;
  const auto lines = to_lead_.look();
  if (!lines) return log_.line(lines.error().what);
  for (const auto& line : *lines) {
    if (line.empty()) continue;
    const auto message = decode_to_lead(line);
    if (message) {
      take(*message);
    } else {
      log_.line(message.error().what);
    }
  }
}

void Lead::take(const ToLead& line) {
  const AssignmentNews news = assignments_.apply(line);
  for (const AttemptId attempt : news.revoked)
    say(Revoked{attempt}, true);
  for (const auto& [assign, why] : news.cancelled)
    end_unstarted(assign, Outcome::cancelled, why, SaidBy::request);
  if (news.end_running) end_running(Outcome::cancelled, news.end_running->why, SaidBy::request);
  busy_s_ = now_s_;
}

// ---- the nodes

void Lead::read_nodes() {
  for (const auto& line : channel_.receive()) {
    if (line.empty()) continue;
    const auto message = decode_from_node(line);
    if (message) {
      take(*message);
    } else {
      log_.line("foreign output: " + message.error().what);
    }
  }
}

void Lead::take(const FromNode& message) {
  const bool fresh = !nodes_.contains(message.node);
  Node& node = nodes_[message.node];
  node.heard_s = now_s_;
  if (const auto* ready = std::get_if<NodeReady>(&message.body)) {
    node.index = ready->index;
    node.switches = ready->switches;
    fail_point("lead.node_seen");
    say(NodeSeen{ready->node, ready->host, ready->pid, ready->switches}, false);
    if (is_step_launch()) say_job_nodes(ready->node);
    check_gpu(*ready);
    place_nodes();
  } else if (fresh) {
    log_.line("node " + message.node + " sent a message before it was ready");
  }
  if (const auto* beat = std::get_if<NodeBeat>(&message.body)) {
    node.phase = beat->phase;
    node.step = beat->step;
    const bool begins = running_ && beat->timed && !running_->timed &&
                        beat->attempt == running_->assign.attempt;
    if (begins && agents_ > 1) tell(TimedSteps{beat->attempt});
    if (begins) running_->timed = true;
  }
  if (const auto* suspicion = std::get_if<Suspect>(&message.body)) {
    const bool ask = running_ && !running_->own &&
                     suspicion->attempt == running_->assign.attempt &&
                     running_->hang.suspect(*suspicion, now_s_);
    if (ask) tell(AskProgress{suspicion->attempt});
  }
  if (const auto* still = std::get_if<NoProgress>(&message.body)) {
    if (running_) running_->hang.answer(message.node, *still);
    judge_hang();
  }
  if (const auto* found = std::get_if<NodeFinding>(&message.body)) {
    if (found->kind == EvidenceKind::leaving) node.leaving = found->detail;
    say(FoundOnNode{message.node, found->kind, found->detail}, true);
  }
  const auto* ended = std::get_if<NodeEnded>(&message.body);
  if (ended == nullptr || !running_ || ended->attempt != running_->assign.attempt) return;
  node.ended = *ended;
  // There rank 0 is gone: nobody elsewhere has anything left to do.
  if (ended->cut_short)
    tell(EndAttempt{ended->attempt, Outcome::cancelled, "the attempt was cut short", true});
  // The ranks of one node are through: those of the others should be too. Where they have
  // failed, the others notice.
  const bool completed = ended->ending.outcome == Outcome::completed;
  const double wait_s = completed ? running_->spec.limits.teardown_limit_s : peers_grace_s;
  if (completed && wait_s <= 0) return;
  const double at_s = now_s_ + wait_s;
  if (!running_->end_others_at_s || at_s < *running_->end_others_at_s)
    running_->end_others_at_s = at_s;
}

/// Between suspicion and verdict lie two lines each way: milliseconds.
void Lead::judge_hang() {
  if (!running_ || running_->own) return;
  const auto why = running_->hang.verdict(agents_, now_s_);
  if (!why) return;
  job_report_.ask(AttemptPaths{running_->assign.dir}, log_);
  end_running(Outcome::hung, *why, SaidBy::policy);
}

/// Before anything has run there: a number of another GPU's would pass for this one's.
void Lead::check_gpu(const NodeReady& ready) {
  if (spec_.gpu.empty() || ready.gpu.empty() || same_gpu(spec_.gpu, ready.gpu)) return;
  leave(fmt::format("node {} has '{}', but the sweep's cluster has '{}'", ready.node, ready.gpu,
                    spec_.gpu));
}

void Lead::watch_nodes() {
  if (nodes_lost_) return;
  if (channel_.closed()) return lose_all_nodes();
  if (!nodes_ready() && now_s_ - started_s_ > spec_.limits.agents_limit_s)
    return lose_absent_nodes();
  for (const auto& [name, node] : nodes_) {
    const double silent_s = now_s_ - node.heard_s;
    if (silent_s <= spec_.limits.node_lease_s) continue;
    std::string why = node.leaving;
    add_sentence(why, fmt::format("node {} sent nothing for {:.1f} s", name, silent_s));
    return lose_nodes(why, name, silent_s);
  }
  if (running_ && running_->end_others_at_s && now_s_ > *running_->end_others_at_s) {
    const bool failed = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
      return node.second.ended && node.second.ended->ending.outcome != Outcome::completed;
    });
    if (failed) {
      tell(EndAttempt{running_->assign.attempt, Outcome::crashed,
                      "a rank elsewhere has failed"});
    } else {
      tell(EndAttempt{running_->assign.attempt, Outcome::hung,
                      "the ranks of other nodes had ended long before"});
    }
    running_->end_others_at_s.reset();
  }
}

bool Lead::nodes_ready() const {
  return static_cast<int>(nodes_.size()) >= agents_;
}

/// srun gives up the whole step where the connection to one node breaks in the middle of a
/// message, as when a guard dies: the node that had begun to leave is the cause.
void Lead::lose_all_nodes() {
  if (nodes_.empty()) return lose_nodes("no node agent has started");
  const bool alone = nodes_.size() == 1 && agents_ == 1;
  for (const auto& [name, node] : nodes_) {
    if (alone && node.leaving.empty())
      return lose_nodes(fmt::format("the node agent of {} has ended", name), name);
    if (alone) return lose_nodes(node.leaving, name);
    if (!node.leaving.empty())
      return lose_nodes(node.leaving + "; the other node agents ended too", name);
  }
  lose_nodes(fmt::format(
      "all node agents have ended; it is not known on which of {} nodes this began", agents_));
}

/// Where others have started, their absence speaks against these. Where none has, srun or
/// Slurm's controller may be the cause.
void Lead::lose_absent_nodes() {
  const auto absent = agents_ - static_cast<int>(nodes_.size());
  std::string why = fmt::format("{} of {} node agents did not start", absent, agents_);
  std::string names;
  for (const std::string& node : job_nodes_) {
    if (nodes_.contains(node) || nodes_.empty()) continue;
    names += (names.empty() ? ": " : ", ") + node;
    say(FoundOnNode{node, EvidenceKind::silent, "its node agent did not start"}, true);
  }
  lose_nodes(why + names);
}

/// Silence is the only death notice. What ran there is ended with our one child (guard or
/// srun) before anybody reads or packs what it wrote.
void Lead::lose_nodes(const std::string& why, const std::string& node, double silent_s) {
  nodes_lost_ = true;
  log_.line(why);
  if (!kill_all_children(clock_, last_kill_s)) log_.line("processes remain on this node");
  // The attempt's end tells it too.
  if (!node.empty() && !running_) say(FoundOnNode{node, EvidenceKind::silent, why}, true);
  if (running_) {
    if (!running_->own) {
      // It was lost when it fell silent: what ranks elsewhere noticed since follows from that.
      const auto since = clock_.now() - to_microseconds(silent_s);
      running_->own = Evidence{since, {Outcome::node_failure, why, SaidBy::agent}};
      running_->own->ending.node = node;
    }
    finish(*std::exchange(running_, std::nullopt));
  }
  leave("node lost");
}

/// What can't end before the job does goes back at once: another allocation may take it while
/// this one is still busy.
void Lead::keep_wall_time() {
  job_end_.step(clock_, log_);
  if (leaving_) return;
  const WallTime time = wall_time_of(spec_, job_end_.left_s(clock_));
  for (const AttemptId attempt : assignments_.give_back_unfit(time)) {
    log_.line(fmt::format("attempt {} does not fit into the {:.0f} s that are left", attempt,
                          *time.left_s));
    short_of_time_ = true;
    say(Revoked{attempt}, true);
  }
  if (!is_busy() && assignments_.empty() && (short_of_time_ || time.is_up()))
    leave("wall time");
}

// ---- attempts

/// Nodes that only wait are given back in time.
bool Lead::may_start() {
  if (gate_.is_open(now_s_, log_)) return true;
  const bool waited = now_s_ - busy_s_ > spec_.limits.idle_limit_s;
  if (waited && !gate_.storage_fault().empty()) leave(gate_.storage_fault());
  return false;
}

void Lead::start_next() {
  if (is_busy() || leaving_ || assignments_.empty() || !may_start()) return;
  while (!running_ && !leaving_ && nodes_ready() && !topology_.is_due() &&
         !job_end_.first_answer_due(clock_)) {
    auto next = assignments_.next();
    if (!next) return;
    busy_s_ = now_s_;
    if (!next->skipped_because.empty()) {
      end_unstarted(next->assign, Outcome::skipped, next->skipped_because, SaidBy::policy);
      continue;
    }
    const auto spec = read_spec(next->assign);
    const auto meet = spec ? meeting_place_of(*spec) : Result<std::string>();
    const std::string line =
        encode(ToNodeBody{Launch{next->assign.attempt, next->assign.dir, meet.value_or("")}});
    if (!spec || !meet || line.size() >= max_line) {
      const std::string why = !spec   ? spec.error().what
                              : !meet ? meet.error().what
                                      : "the folder's name is too long";
      end_unstarted(next->assign, Outcome::lost, "not started: " + why, SaidBy::agent);
      continue;
    }
    const bool fresh = started_.insert(spec->attempt).second;
    INVARIANT(fresh && !ended_.contains(spec->attempt), "an attempt is started once",
              spec->attempt, spec_.token);
    log_.line(fmt::format("attempt {} ({}) starts", spec->attempt, spec->trial));
    fail_point("lead.started");
    say(Started{spec->attempt, spec->nonce}, true);
    fail_point("lead.started_written");
    for (auto& [name, node] : nodes_) {
      node.ended.reset();
      node.phase.clear();
      node.step = 0;
    }
    running_.emplace(Running{next->assign, *spec, {}, {}, {}, false});
    channel_.send(line);
    fail_point("lead.launched");
  }
}

Result<AttemptSpec> Lead::read_spec(const Assign& assign) const {
  SHARDSWEEP_ASSIGN(const std::string text, read_file(AttemptPaths{assign.dir}.spec()));
  SHARDSWEEP_ASSIGN(AttemptSpec spec, decode_attempt_spec(text));
  if (spec.attempt != assign.attempt || spec.nonce != assign.nonce)
    return fault(FaultKind::corrupt, "spec.json belongs to another attempt");
  return spec;
}

void Lead::end_running(Outcome outcome, const std::string& why, SaidBy source) {
  if (!running_ || running_->own) return;
  running_->own = Evidence{clock_.now(), {outcome, why, source}};
  tell(EndAttempt{running_->assign.attempt, outcome, why});
}

void Lead::finish_if_ended() {
  if (!running_) return;
  const bool all = std::all_of(nodes_.begin(), nodes_.end(),
                               [](const auto& node) { return node.second.ended.has_value(); });
  if (all) finish(*std::exchange(running_, std::nullopt));
}

/// Nothing starts until its files are packed.
void Lead::finish(Running running) {
  INVARIANT(!settling_, "one attempt after the other is settled", running.assign.attempt);
  job_report_.end();
  EndedAttempt attempt{.assign = std::move(running.assign),
                       .spec = std::move(running.spec),
                       .own = std::move(running.own),
                       .names = names_by_index(),
                       .is_step = is_step_launch(),
                       .time_is_up = time_is_up()};
  for (const auto& [name, node] : nodes_) {
    if (node.ended) attempt.nodes.emplace(name, *node.ended);
  }
  settling_.emplace(std::move(attempt), log_);
}

void Lead::take_settled() {
  if (!settling_) return;
  const auto settled = settling_->take();
  if (!settled) return;
  settling_.reset();
  if (!settled->packed) gate_.doubt_storage();
  write_ended(*settled);
  gate_.note_end(settled->ending, now_s_);
  if (const std::string why = gate_.start_fault(); !why.empty()) leave(why);
  // Its agent leaves, can't start anything or can't end something: the next attempt would only
  // find out the same.
  if (settled->node_failed) leave("node lost");
  // Slurm signals the ranks before us: nothing is started in between.
  if (settled->told_to_stop) leave("signal");
}

/// Slurm sends the same SIGTERM for the time limit as for everything else.
bool Lead::time_is_up() const {
  const auto left_s = job_end_.left_s(clock_);
  return left_s && *left_s < end_tolerance_s;
}

/// Of many that are taken back at once each costs some syncs: the agents hear of us in between.
void Lead::end_unstarted(const Assign& assign, Outcome outcome, const std::string& cause,
                         SaidBy source) {
  Settled settled{.assign = assign, .ending = {outcome, cause, source}};
  const auto packed = pack_attempt(AttemptPaths{assign.dir}, 0);
  settled.packed = packed.has_value();
  if (!packed) {
    log_.line(packed.error().what);
    gate_.doubt_storage();
  }
  write_ended(settled);
  beat();
}

void Lead::write_ended(const Settled& settled) {
  const auto& [assign, ending, node_failed, told_to_stop, packed, pace] = settled;
  const bool fresh = ended_.insert(assign.attempt).second;
  INVARIANT(fresh, "an attempt ends once", assign.attempt, ending.outcome, spec_.token);
  Ended ended{.attempt = assign.attempt, .nonce = assign.nonce, .ending = ending};
  if (ending.outcome == Outcome::completed) ended.nodes = nodes_in_order();
  ended.sm_clock_mhz = pace.sm_clock_mhz;
  ended.power_w = pace.power_w;
  ended.throttled = fmt::format("{}", fmt::join(throttle_words(pace.held_back), ", "));
  if (packed) ended.pack = AttemptPaths{assign.dir}.pack().filename().string();
  log_.line(fmt::format("attempt {} ended {}{}{}", assign.attempt, name(ending.outcome),
                        ending.cause.empty() ? "" : ": ", ending.cause));
  fail_point("lead.ended");
  say(ended, true);
  fail_point("lead.ended_written");
  assignments_.ended(assign, ending.fragmented ? Outcome::crashed : ending.outcome);
  busy_s_ = now_s_;
}

// ---- the end

void Lead::leave(const std::string& why) {
  if (leaving_) return;
  leaving_ = why;
  for (const AttemptId attempt : assignments_.give_back())
    say(Revoked{attempt}, true);
}

int Lead::depart() {
  log_.line("leaving: " + *leaving_);
  if (!nodes_lost_) tell(Quit{});
  const double deadline_s = seconds_of(clock_) + quit_limit_s;
  while (!channel_.closed() && seconds_of(clock_) < deadline_s) {
    wait();
    (void)signals_.take();
    (void)channel_.receive();
  }
  if (!kill_all_children(clock_, last_kill_s)) log_.line("processes remain on this node");
  fail_point("lead.bye");
  say(Bye{*leaving_}, true);
  const double last_s = seconds_of(clock_) + last_words_s;
  while (!from_lead_.all_written() && seconds_of(clock_) < last_s && signals_.take().empty()) {
    wait();
    from_lead_.step(seconds_of(clock_), log_);
  }
  return 0;
}

void Lead::wait() {
  double timeout_s = std::min(spec_.limits.beat_s - (seconds_of(clock_) - beat_s_),
                              spec_.limits.watch_interval_s);
  std::vector<pollfd> polled;
  polled.push_back({signals_.descriptor(), POLLIN, 0});
  if (!channel_.closed()) polled.push_back(channel_.readable());
  if (settling_) polled.push_back({settling_->descriptor(), POLLIN, 0});
  if (channel_.has_unsent()) polled.push_back(channel_.writable());
  (void)::poll(polled.data(), polled.size(), std::max(1, static_cast<int>(timeout_s * 1000)));
  channel_.flush();
}

/// A beat that is late says nothing.
void Lead::say(FromLeadBody body, bool durable) {
  if (std::holds_alternative<Beat>(body) && !from_lead_.all_written()) return;
  if (std::holds_alternative<Revoked>(body)) fail_point("lead.revoked");
  if (std::holds_alternative<FoundOnNode>(body)) fail_point("lead.found");
  from_lead_.say(encode(FromLead{++line_, clock_.now(), std::move(body)}), durable,
                 seconds_of(clock_), log_);
  if (!from_lead_.all_written()) gate_.doubt_storage();
}

void Lead::tell(const ToNodeBody& message) {
  channel_.send(encode(message));
}

}  // namespace shardsweep::agent
