// SPDX-License-Identifier: Apache-2.0
// Decision: After an OOM the lead skips larger micro-batches by itself, by a rule in the
// assignment: no GPU waits for a tick of the daemon.
// Decision: A node with another GPU model than the cluster's starts nothing: its numbers would
// stand under a false name.
#include "attempt/lead_machine.hpp"

#include "attempt/gpu_use.hpp"
#include "attempt/node_verdict.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace shardsweep {
namespace {

// Wait for node agents to leave, beyond the grace of a running attempt.
constexpr double quit_limit_s = 10;
// Tolerance for a controller's clock that is ahead of ours.
constexpr double end_tolerance_s = 5;
// The daemon's file is worth waiting for when everything else is over.
constexpr double last_words_s = 60;

bool is_told(const std::vector<int>& signals) {
  return std::any_of(signals.begin(), signals.end(), [](int one) { return one != SIGCHLD; });
}

}  // namespace

LeadMachine::LeadMachine(std::string folder, AllocationSpec spec,
    std::vector<std::string> job_nodes, LeadOutside& outside)
    : folder_(std::move(folder)),
      spec_(std::move(spec)),
      outside_(outside),
      nodes_(spec_.launch == LaunchMode::agents ? spec_.nodes : 1, std::move(job_nodes),
          spec_.launch == LaunchMode::srun, outside.now().s),
      now_s_(outside.now().s),
      nodes_checked_(!spec_.check),
      beat_s_(now_s_),
      file_beat_s_(now_s_),
      busy_s_(now_s_) {}

void LeadMachine::round(LeadSenses senses) {
  senses_ = std::move(senses);
  switch (stage_) {
    case Stage::working:
      return work();
    case Stage::checking_last:
      keep_time();
      read_nodes();
      return go_on_checking(is_told(senses_.signals));
    case Stage::quitting:
      return go_on_quitting();
    case Stage::last_words:
      return go_on_with_last_words(senses_.all_written, !senses_.signals.empty());
    case Stage::gone:
      return;
  }
}

void LeadMachine::work() {
  keep_time();
  take_signals();
  read_nodes();
  watch_nodes();
  read_orders();
  place_job_nodes();
  check_nodes();
  keep_wall_time();
  finish_if_ended();
  take_settled();
  if (leaving_ && !is_busy()) return depart();
  start_next();
  if (is_busy()) busy_s_ = now_s_;
  if (!is_busy() && assignments_.draining()) leave("drained");
  if (!is_busy() && now_s_ - busy_s_ > spec_.limits.idle_limit_s) leave("idle");
}

/// Beats, and a gap in our own loop (suspended, starved) stretches every limit.
void LeadMachine::keep_time() {
  const double now_s = outside_.now().s;
  const double gap_s = now_s - now_s_;
  now_s_ = now_s;
  if (gap_s > 3 * spec_.limits.beat_s) {
    outside_.log(fmt::format("stood still for {:.1f} s", gap_s));
    busy_s_ += gap_s;
    nodes_.stretch(gap_s);
    // Node agents may have heard us for the last time two beats earlier.
    if (gap_s + 2 * spec_.limits.beat_s >= spec_.limits.agent_lease_s)
      nodes_.leave_alone(now_s + spec_.limits.agent_lease_s);
    if (checking_) checking_->since_s += gap_s;
    if (running_) running_->stretch(gap_s);
  }
  beat();
  if (now_s - file_beat_s_ < spec_.limits.file_beat_s) return;
  file_beat_s_ = now_s;
  say(running_ ? running_->beat() : Beat{}, false);
}

void LeadMachine::beat() {
  const double now_s = outside_.now().s;
  if (now_s - beat_s_ < spec_.limits.beat_s) return;
  beat_s_ = now_s;
  outside_.tell(LeadBeat{});
}

void LeadMachine::take_signals() {
  for (const int number : senses_.signals) {
    if (number == SIGCHLD) continue;
    outside_.log("got " + signal_name(number));
    const bool stop =
        number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGXCPU;
    if (!stop || leaving_) continue;
    end_running(Outcome::preempted,
        fmt::format("the allocation was told to stop ({})", signal_name(number)), SaidBy::agent);
    leave("signal");
  }
}

// ---- the daemon's file

/// Each look opens a file, on a network file system a question to its server; thousands of
/// node agents wake this loop more often than that.
void LeadMachine::read_orders() {
  if (now_s_ - orders_read_s_ < spec_.limits.watch_interval_s) return;
  orders_read_s_ = now_s_;
  for (const ToLead& line : outside_.orders())
    take(line);
}

void LeadMachine::take(const ToLead& line) {
  const AssignmentNews news = assignments_.apply(line);
  for (const AttemptId attempt : news.revoked)
    say(Revoked{attempt}, true);
  for (const auto& [assign, why] : news.cancelled)
    end_unstarted(assign, Outcome::cancelled, why, SaidBy::request);
  if (news.end_running) end_running(Outcome::cancelled, news.end_running->why, SaidBy::request);
  busy_s_ = now_s_;
}

// ---- the nodes

void LeadMachine::read_nodes() {
  for (const auto& [node, said] : senses_.heard) {
    const bool known = nodes_.hear(node, now_s_);
    if (!known && !std::holds_alternative<NodeReady>(said))
      outside_.log("node " + node + " sent a message before it was ready");
    std::visit([this, &name = node](const auto& body) { take(name, body); }, said);
  }
}

void LeadMachine::take(const std::string& node, const NodeReady& ready) {
  nodes_.come(ready);
  say(NodeSeen{ready.node, ready.host, ready.pid, ready.switches}, false);
  // The ranks of a step are on all nodes, of which one has a node agent. A host is called as
  // its node, if an administrator has said nothing else.
  for (const std::string& other : nodes_.job_nodes()) {
    if (nodes_.by_step() && other != node) say(NodeSeen{other, other, 0}, false);
  }
  check_gpu(ready);
  for (const Place& place : nodes_.place())
    outside_.tell(place);
}

void LeadMachine::take(const std::string& node, const NodeBeat& beat) {
  if (!running_ || !running_->see(node, beat)) return;
  if (nodes_.agents() > 1) outside_.tell(TimedSteps{beat.attempt});
}

/// Takes a sign of life; it says nothing else.
void LeadMachine::take(const std::string&, const NodeLaunched&) {}

void LeadMachine::take(const std::string&, const Suspect& suspicion) {
  if (running_ && running_->see(suspicion, now_s_)) outside_.tell(AskProgress{suspicion.attempt});
}

/// Answers arrive within milliseconds: suspicion and verdict are two lines each way.
void LeadMachine::take(const std::string& node, const NoProgress& still) {
  if (!running_) return;
  running_->see(node, still);
  const auto why = running_->hung_because(nodes_.agents(), now_s_);
  if (!why) return;
  outside_.ask_about_job(running_->assign());
  end_running(Outcome::hung, *why, SaidBy::policy);
}

void LeadMachine::take(const std::string& node, const NodeFinding& found) {
  const bool killed = found.kind == EvidenceKind::killed;
  if (killed || found.kind == EvidenceKind::leaving) nodes_.leave(node, found.detail, killed);
  // A kill of the whole step, which does not blame the node, shows only at the step's end.
  say(FoundOnNode{node, killed ? EvidenceKind::leaving : found.kind, found.detail}, true);
}

void LeadMachine::take(const std::string& node, const NodeEnded& ended) {
  if (!running_ || ended.attempt != running_->id()) return;
  // Rank 0 has exited: no other node can finish.
  if (ended.cut_short)
    outside_.tell(EndAttempt{ended.attempt, Outcome::cancelled, "the attempt was cut short", true});
  running_->see(node, ended, now_s_);
}

/// Compares GPUs before anything runs: figures of another GPU model would pass for this one's.
void LeadMachine::check_gpu(const NodeReady& ready) {
  if (spec_.gpu.empty() || ready.gpu.empty() || same_gpu(spec_.gpu, ready.gpu)) return;
  leave(fmt::format(
      "node {} has '{}', but the sweep's cluster has '{}'", ready.node, ready.gpu, spec_.gpu));
}

/// Orders the ranks of steps, whose one node agent has srun place them.
void LeadMachine::place_job_nodes() {
  if (!nodes_.is_complete()) return;
  const auto switches = outside_.topology();
  if (!switches) return;
  for (const std::string& node : nodes_.job_nodes()) {
    const auto found = switches->find(node);
    if (found != switches->end() && !found->second.empty())
      say(NodeSeen{node, node, 0, found->second}, false);
  }
  for (const Place& place : nodes_.place_by(*switches))
    outside_.tell(place);
}

// ---- the check of nodes

/// The allocation's first act. Nobody but the lead has to be there for it: a node that fails is
/// named, and the rest goes back to whoever has assigned it.
void LeadMachine::check_nodes() {
  if (nodes_checked_ || leaving_ || nodes_lost_ || !nodes_.is_complete()) return;
  busy_s_ = now_s_;
  if (!checking_) return ask_for_check(CheckTime::before);
  const bool all = checking_->network
      ? checking_->network->all_answered()
      : static_cast<int>(checking_->facts.size()) >= nodes_.agents();
  if (!all && now_s_ - checking_->since_s < check_limit_s()) return;
  if (ask_for_pairs()) return;
  nodes_checked_ = true;
  if (const std::string why = judge_check(); !why.empty()) leave(why);
}

/// False: the network is checked, or nobody has asked for it.
bool LeadMachine::ask_for_pairs() {
  if (spec_.limits.check_allreduce <= 0) return false;
  if (!checking_->network) {
    note_silent();
    checking_->network.emplace(spec_.limits, *spec_.check, checking_->facts);
  }
  const auto pairs = checking_->network->next();
  checking_->facts = checking_->network->facts();
  if (pairs.empty()) return false;
  const int round = checking_->network->round();
  if (!outside_.leave_pairs(round, pairs)) return false;
  checking_->since_s = now_s_;
  outside_.tell(CheckNode{folder_, CheckTime::pairs, round});
  return true;
}

void LeadMachine::note_silent() {
  const double limit_s = check_limit_s();
  for (const auto& [index, name] : nodes_.names_by_index()) {
    if (!checking_->facts.contains(name))
      checking_->facts[name].wrong = {fmt::format("answer: none within {:.0f} s", limit_s)};
  }
}

void LeadMachine::ask_for_check(CheckTime time) {
  checking_ = Checking{.time = time, .since_s = now_s_};
  outside_.tell(CheckNode{folder_, time, 0});
}

double LeadMachine::check_limit_s() const {
  const auto hooks = [this](const std::vector<std::string>& all) {
    return spec_.limits.check_hook_s * static_cast<double>(all.size());
  };
  if (checking_->network) return round_limit_s(spec_.limits) + 1;
  return checking_->time == CheckTime::before
      ? spec_.limits.check_limit_s + hooks(spec_.check->before)
      : hooks(spec_.check->after) + 1;
}

void LeadMachine::take(const std::string& node, const NodeChecked& checked) {
  if (!checking_) return;
  if (checked.time == CheckTime::pairs && checking_->network)
    return checking_->network->take(node, checked.round, checked.facts);
  if (checking_->time == checked.time && !checking_->network)
    checking_->facts[node] = checked.facts;
}

/// Tells what was found; why the allocation is of no use, or empty.
std::string LeadMachine::judge_check() {
  note_silent();
  const CheckTime time = checking_->time;
  auto facts = std::exchange(checking_, std::nullopt)->facts;
  const CheckVerdict verdict = judge_checks(spec_.limits, *spec_.check, facts);
  for (auto& [name, of_node] : facts) {
    const NodeVerdict& its = verdict.nodes.at(name);
    of_node.unmade = its.unmade;
    of_node.meet.clear();
    const std::string failed = sentences(its.failed);
    if (time == CheckTime::before) say(Checked{name, of_node, failed, its.blamed}, true);
    if (its.blamed) say(FoundOnNode{name, EvidenceKind::check, failed}, true);
    if (its.suspected) say(FoundOnNode{name, EvidenceKind::slow_pair, failed}, true);
  }
  return verdict.why();
}

void LeadMachine::watch_nodes() {
  if (nodes_lost_) return;
  auto loss = senses_.closed
      ? std::optional(nodes_.loss_of_all(outside_.agents_were_killed()))
      : nodes_.loss(now_s_, spec_.limits.agents_limit_s, spec_.limits.node_lease_s);
  if (loss) {
    // srun ends the agents of all nodes because of one, and says because of which.
    if (const auto lost = outside_.lost_by_launcher(); lost && nodes_.holds(lost->ending.node))
      loss = NodeLoss{lost->ending.cause, lost->ending.node};
    return lose_nodes(*loss);
  }
  if (!running_) return;
  if (const auto others = running_->end_others(now_s_)) outside_.tell(*others);
}

/// Gives up lost nodes. The end of our one child (guard or srun) has ended their ranks, before
/// anybody reads or packs files.
void LeadMachine::lose_nodes(const NodeLoss& loss) {
  for (const std::string& node : loss.absent)
    say(FoundOnNode{node, EvidenceKind::silent, "its node agent did not start"}, true);
  nodes_lost_ = true;
  outside_.log(loss.why);
  if (!outside_.end_all()) outside_.log("processes remain on this node");
  if (loss.killed) say(FoundOnNode{loss.node, EvidenceKind::killed, loss.why}, true);
  // The attempt's end tells it too.
  if (!loss.node.empty() && !loss.killed && !running_)
    say(FoundOnNode{loss.node, EvidenceKind::silent, loss.why}, true);
  if (running_) {
    // Date the loss back to the start of the silence: what other ranks noticed since follows from
    // it.
    Evidence lost{outside_.now().at - to_microseconds(loss.silent_s),
        {loss.killed ? Outcome::reaped : Outcome::node_failure, loss.why, SaidBy::agent}};
    if (!loss.killed) lost.ending.node = loss.node;
    running_->hold_against_it(std::move(lost));
    finish(*std::exchange(running_, std::nullopt));
  }
  leave("node lost");
}

/// Gives back trials that can't end before the job does: another allocation may take them while
/// this one is still busy.
void LeadMachine::keep_wall_time() {
  if (leaving_) return;
  const WallTime time = wall_time_of(spec_, senses_.left_s);
  // Slurm ends a job within minutes of its limit: one that still begins has not reached it.
  constexpr double wrong_clock_s = 600;
  const bool looked = std::exchange(end_was_seen_, end_was_seen_ || time.left_s.has_value());
  if (!looked && time.left_s && *time.left_s < -wrong_clock_s && !is_busy())
    return leave(
        fmt::format("wrong clock: by the clock of this node the job's time limit passed {:.0f} s "
                    "ago, though the job has only begun; set the clock of this node",
            -*time.left_s));
  for (const AttemptId attempt : assignments_.give_back_unfit(time)) {
    outside_.log(fmt::format("attempt {} needs more time than the {:.0f} s that the job has left",
        attempt, *time.left_s));
    short_of_time_ = true;
    say(Revoked{attempt}, true);
  }
  if (!is_busy() && assignments_.empty() && (short_of_time_ || time.is_up())) leave("wall time");
}

// ---- attempts

/// Nodes that only wait are given back in time.
bool LeadMachine::may_start() {
  const bool open = gate_.is_open(
      now_s_, [this](bool doubted) { return outside_.storage_fault(doubted); },
      [this](const std::string& line) { outside_.log(line); });
  if (open) return true;
  const bool waited = now_s_ - busy_s_ > spec_.limits.idle_limit_s;
  if (waited && !gate_.storage_fault().empty()) leave(gate_.storage_fault());
  return false;
}

void LeadMachine::start_next() {
  if (is_busy() || leaving_ || assignments_.empty() || !may_start()) return;
  while (!running_ && !leaving_ && nodes_checked_ && nodes_.is_complete() &&
      !outside_.topology_is_due() && !senses_.end_is_due) {
    const auto next = assignments_.next();
    if (!next) return;
    busy_s_ = now_s_;
    if (!next->skipped_because.empty()) {
      end_unstarted(next->assign, Outcome::skipped, next->skipped_because, SaidBy::policy);
    } else {
      start(next->assign);
    }
  }
}

void LeadMachine::start(const Assign& assign) {
  auto prepared = outside_.prepare(assign);
  if (!prepared)
    return end_unstarted(
        assign, Outcome::lost, "not started: " + prepared.error().what, SaidBy::agent);
  const AttemptSpec& spec = prepared->spec;
  const bool fresh = started_.insert(spec.attempt).second;
  INVARIANT(fresh && !ended_.contains(spec.attempt), "an attempt is started once", spec.attempt,
      spec_.token);
  outside_.log(fmt::format("attempt {} ({}) starts", spec.attempt, spec.trial));
  say(Started{spec.attempt, spec.nonce}, true);
  running_.emplace(assign, spec);
  outside_.tell(Launch{assign.attempt, assign.dir, prepared->meet});
}

void LeadMachine::end_running(Outcome outcome, const std::string& why, SaidBy source) {
  if (running_ && running_->hold_against_it({outside_.now().at, {outcome, why, source}}))
    outside_.tell(EndAttempt{running_->id(), outcome, why});
}

void LeadMachine::finish_if_ended() {
  if (running_ && running_->has_ended_on(nodes_.count()))
    finish(*std::exchange(running_, std::nullopt));
}

/// Settles an attempt. Nothing else starts until its files are packed.
void LeadMachine::finish(const AttemptOnNodes& running) {
  INVARIANT(!settling_, "one attempt after the other is settled", running.id());
  outside_.stop_asking();
  settling_ = true;
  outside_.settle({.assign = running.assign(),
      .spec = running.spec(),
      .own = running.own(),
      .nodes = running.ended(),
      .names = nodes_.names_by_index(),
      .is_step = nodes_.by_step(),
      .time_is_up = time_is_up()});
}

void LeadMachine::take_settled() {
  if (!senses_.settled) return;
  const Settlement settled = *std::exchange(senses_.settled, std::nullopt);
  settling_ = false;
  if (!settled.packed) gate_.doubt_storage();
  write_ended(settled);
  gate_.note_end(settled.ending, now_s_);
  if (const std::string why = gate_.start_fault(); !why.empty()) leave(why);
  // A failed node's agent leaves, can't start anything or can't end something: the next attempt
  // would fail the same way.
  if (settled.node_failed) leave("node lost");
  // Slurm signals the ranks before us: nothing is started in between.
  if (settled.told_to_stop) leave("signal");
}

/// Slurm sends the same SIGTERM for the time limit as for everything else.
bool LeadMachine::time_is_up() const {
  return senses_.left_s && *senses_.left_s < end_tolerance_s;
}

/// Reports an attempt that never started. Each one costs some syncs, so beats are sent in between.
void LeadMachine::end_unstarted(
    const Assign& assign, Outcome outcome, const std::string& cause, SaidBy source) {
  Settlement settled{.assign = assign, .ending = {outcome, cause, source}};
  settled.packed = outside_.pack(assign);
  if (!settled.packed) gate_.doubt_storage();
  write_ended(settled);
  beat();
}

void LeadMachine::write_ended(const Settlement& settled) {
  const auto& [assign, ending, node_failed, told_to_stop, packed, pace] = settled;
  const bool fresh = ended_.insert(assign.attempt).second;
  INVARIANT(fresh, "an attempt ends once", assign.attempt, ending.outcome, spec_.token);
  Ended ended{.attempt = assign.attempt, .nonce = assign.nonce, .ending = ending};
  if (ending.outcome == Outcome::completed) ended.nodes = nodes_.in_order();
  ended.sm_clock_mhz = pace.sm_clock_mhz;
  ended.power_w = pace.power_w;
  ended.throttled = fmt::format("{}", fmt::join(throttle_words(pace.held_back), ", "));
  if (packed) ended.pack = AttemptPaths{assign.dir}.pack().filename().string();
  outside_.log(fmt::format("attempt {} ended {}{}{}", assign.attempt, name(ending.outcome),
      ending.cause.empty() ? "" : ": ", ending.cause));
  say(ended, true);
  assignments_.ended(assign, ending.fragmented ? Outcome::crashed : ending.outcome);
  busy_s_ = now_s_;
}

// ---- the end

void LeadMachine::leave(const std::string& why) {
  if (leaving_) return;
  leaving_ = why;
  for (const AttemptId attempt : assignments_.give_back())
    say(Revoked{attempt}, true);
}

void LeadMachine::depart() {
  outside_.log("leaving: " + *leaving_);
  // Run the site's check after the last attempt while the nodes still hear us.
  const bool check =
      spec_.check && !spec_.check->after.empty() && !nodes_lost_ && *leaving_ != "signal";
  if (!check) return quit();
  stage_ = Stage::checking_last;
  ask_for_check(CheckTime::after);
  go_on_checking(false);
}

void LeadMachine::go_on_checking(bool told_to_stop) {
  const bool all = static_cast<int>(checking_->facts.size()) >= nodes_.count();
  const bool late = now_s_ - checking_->since_s >= check_limit_s();
  if (!senses_.closed && !all && !late && !told_to_stop) return;
  (void)judge_check();
  quit();
}

void LeadMachine::quit() {
  if (!nodes_lost_) outside_.tell(Quit{});
  stage_ = Stage::quitting;
  stage_limit_s_ = outside_.now().s + quit_limit_s;
  go_on_quitting();
}

void LeadMachine::go_on_quitting() {
  if (!senses_.closed && outside_.now().s < stage_limit_s_) return;
  if (!outside_.end_all()) outside_.log("processes remain on this node");
  const bool written = outside_.say(Bye{*leaving_}, true);
  stage_ = Stage::last_words;
  stage_limit_s_ = outside_.now().s + last_words_s;
  go_on_with_last_words(written, false);
}

void LeadMachine::go_on_with_last_words(bool all_written, bool told_to_stop) {
  if (all_written || told_to_stop || outside_.now().s >= stage_limit_s_) stage_ = Stage::gone;
}

void LeadMachine::say(FromLeadBody body, bool durable) {
  if (!outside_.say(std::move(body), durable)) gate_.doubt_storage();
}

}  // namespace shardsweep
