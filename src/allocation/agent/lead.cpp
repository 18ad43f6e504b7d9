// SPDX-License-Identifier: Apache-2.0
// Decision: After an OOM the lead skips larger micro-batches by itself, by a rule in the
// assignment: no GPU waits for a tick of the daemon.
#include "agent/lead.hpp"

#include "agent/gpu_models.hpp"
#include "agent/reap.hpp"
#include "machine/descriptor.hpp"
#include "machine/host_name.hpp"
#include "node/nvml.hpp"
#include "text/node_list.hpp"

#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace shardsweep::agent {
namespace {

// Beyond the grace of a running attempt: node agents that have been told to leave.
constexpr double quit_limit_s = 10;
constexpr double last_kill_s = 60;
// srun has closed its output, and has only to exit.
constexpr double srun_exit_s = 5;
// By how much the controller's clock may be ahead of ours.
constexpr double end_tolerance_s = 5;
// The daemon's file is worth waiting for when everything else is over.
constexpr double last_words_s = 60;

std::vector<std::string> nodes_of_job(const AllocationSpec& spec) {
  if (spec.launch == LaunchMode::local) return {};
  return nodes_in(value_in(current_environment(), "SLURM_JOB_NODELIST").value_or(""));
}

/// Where the ranks of a trainer meet, PyTorch's MASTER_ADDR and MASTER_PORT: "host:port" of
/// this host, where rank 0 runs, with a port that was free a moment ago. Ranks that are all on
/// one host need no name of it. Empty for a runner, whose ranks need none.
Result<std::string> meeting_place_of(const AttemptSpec& spec) {
  if (!spec.trainer && !spec.container) return std::string();
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof any;
  auto* address = reinterpret_cast<sockaddr*>(&any);  // bind's signature
  if (socket.get() < 0 || ::bind(socket.get(), address, size) != 0 ||
      ::getsockname(socket.get(), address, &size) != 0)
    return fault(FaultKind::unavailable,
                 fmt::format("no free port for MASTER_PORT: {}", std::strerror(errno)));
  const bool alone = spec.world <= spec.ranks_per_node;
  return fmt::format("{}:{}", alone ? "127.0.0.1" : host_name(), ntohs(any.sin_port));
}

}  // namespace

Lead::Lead(AllocationPaths paths, AllocationSpec spec, LineWriter from_lead, const Clock& clock,
           PipedChild nodes, JobEnd job_end)
    : paths_(std::move(paths)),
      spec_(std::move(spec)),
      from_lead_(paths_.from_lead(), std::move(from_lead)),
      gate_(paths_.dir),
      to_lead_(paths_.to_lead()),
      clock_(clock),
      log_(clock, "lead"),
      child_(std::move(nodes)),
      channel_(child_.from.get(), child_.to.get()),
      nodes_(spec_.launch == LaunchMode::agents ? spec_.nodes : 1, nodes_of_job(spec_),
             spec_.launch == LaunchMode::srun, seconds_of(clock)),
      job_end_(std::move(job_end)),
      job_report_(spec_.launch == LaunchMode::local ? Environment{} : current_environment()),
      topology_(current_environment(), nodes_.by_step() && nodes_.job_nodes().size() > 1),
      now_s_(seconds_of(clock)),
      nodes_checked_(!spec_.check),
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
    check_nodes();
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
    busy_s_ += gap_s;
    nodes_.stretch(gap_s);
    if (checking_) checking_->since_s += gap_s;
    if (running_) running_->stretch(gap_s);
  }
  beat();
  from_lead_.step(now_s, log_);
  if (now_s - file_beat_s_ < spec_.limits.file_beat_s) return;
  file_beat_s_ = now_s;
  say(running_ ? running_->beat() : Beat{}, false);
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
    if (!message) {
      log_.line("foreign output: " + message.error().what);
      continue;
    }
    const bool known = nodes_.hear(message->node, now_s_);
    if (!known && !std::holds_alternative<NodeReady>(message->body))
      log_.line("node " + message->node + " sent a message before it was ready");
    std::visit([&](const auto& body) { take(message->node, body); }, message->body);
  }
}

void Lead::take(const std::string& node, const NodeReady& ready) {
  nodes_.come(ready);
  fail_point("lead.node_seen");
  say(NodeSeen{ready.node, ready.host, ready.pid, ready.switches}, false);
  // The ranks of a step are on all nodes, of which one has a node agent. A host is called as
  // its node, if an administrator has said nothing else.
  for (const std::string& other : nodes_.job_nodes()) {
    if (nodes_.by_step() && other != node) say(NodeSeen{other, other, 0}, false);
  }
  check_gpu(ready);
  for (const Place& place : nodes_.place())
    tell(place);
}

void Lead::take(const std::string& node, const NodeBeat& beat) {
  if (!running_ || !running_->see(node, beat)) return;
  if (nodes_.agents() > 1) tell(TimedSteps{beat.attempt});
}

/// That a node was heard is all that this says.
void Lead::take(const std::string&, const NodeLaunched&) {}

void Lead::take(const std::string&, const Suspect& suspicion) {
  if (running_ && running_->see(suspicion, now_s_)) tell(AskProgress{suspicion.attempt});
}

/// Between suspicion and verdict lie two lines each way: milliseconds.
void Lead::take(const std::string& node, const NoProgress& still) {
  if (!running_) return;
  running_->see(node, still);
  const auto why = running_->hung_because(nodes_.agents(), now_s_);
  if (!why) return;
  job_report_.ask(AttemptPaths{running_->assign().dir}, log_);
  end_running(Outcome::hung, *why, SaidBy::policy);
}

void Lead::take(const std::string& node, const NodeFinding& found) {
  const bool killed = found.kind == EvidenceKind::killed;
  if (killed || found.kind == EvidenceKind::leaving) nodes_.leave(node, found.detail, killed);
  // Whether all of the step was killed, so that its node is not to blame, shows at its end.
  say(FoundOnNode{node, killed ? EvidenceKind::leaving : found.kind, found.detail}, true);
}

void Lead::take(const std::string& node, const NodeEnded& ended) {
  if (!running_ || ended.attempt != running_->id()) return;
  // There rank 0 is gone: nobody elsewhere has anything left to do.
  if (ended.cut_short)
    tell(EndAttempt{ended.attempt, Outcome::cancelled, "the attempt was cut short", true});
  running_->see(node, ended, now_s_);
}

/// Before anything has run there: a number of another GPU's would pass for this one's.
void Lead::check_gpu(const NodeReady& ready) {
  if (spec_.gpu.empty() || ready.gpu.empty() || same_gpu(spec_.gpu, ready.gpu)) return;
  leave(fmt::format("node {} has '{}', but the sweep's cluster has '{}'", ready.node, ready.gpu,
                    spec_.gpu));
}

/// For the ranks of steps: their one node agent has srun place them.
void Lead::place_job_nodes() {
  if (!nodes_.is_complete()) return;
  const auto switches = topology_.step(clock_, log_);
  if (!switches) return;
  for (const std::string& node : nodes_.job_nodes()) {
    const auto found = switches->find(node);
    if (found != switches->end() && !found->second.empty())
      say(NodeSeen{node, node, 0, found->second}, false);
  }
  for (const Place& place : nodes_.place_by(*switches))
    tell(place);
}

// ---- the check of nodes

/// The allocation's first act. Nobody but the lead has to be there for it: a node that fails is
/// named, and the rest goes back to whoever has assigned it.
void Lead::check_nodes() {
  if (nodes_checked_ || leaving_ || nodes_lost_ || !nodes_.is_complete()) return;
  busy_s_ = now_s_;
  if (!checking_) return ask_for_check(CheckTime::before);
  const double limit_s =
      checking_->network
          ? round_limit_s(spec_.limits) + 1
          : spec_.limits.check_limit_s +
                spec_.limits.check_hook_s * static_cast<double>(spec_.check->before.size());
  const bool all = checking_->network
                       ? checking_->network->all_answered()
                       : static_cast<int>(checking_->facts.size()) >= nodes_.agents();
  if (!all && now_s_ - checking_->since_s < limit_s) return;
  if (ask_for_pairs(limit_s)) return;
  nodes_checked_ = true;
  if (const std::string why = judge_check(limit_s); !why.empty()) leave(why);
}

/// False: the network is checked, or nobody has asked for it.
bool Lead::ask_for_pairs(double limit_s) {
  if (spec_.limits.check_allreduce <= 0) return false;
  if (!checking_->network) {
    note_silent(limit_s);
    checking_->network.emplace(spec_.limits, *spec_.check, checking_->facts);
  }
  const auto pairs = checking_->network->next();
  checking_->facts = checking_->network->facts();
  if (pairs.empty()) return false;
  const int round = checking_->network->round();
  const auto written = write_own_file(paths_.pairs(round), encode_pairs(pairs), Readers::owner);
  if (!written) {
    log_.line(written.error().what);
    return false;
  }
  checking_->since_s = now_s_;
  tell(CheckNode{paths_.dir.string(), CheckTime::pairs, round});
  return true;
}

void Lead::note_silent(double limit_s) {
  for (const auto& [index, name] : nodes_.names_by_index()) {
    if (!checking_->facts.contains(name))
      checking_->facts[name].wrong = {fmt::format("answer: none within {:.0f} s", limit_s)};
  }
}

void Lead::ask_for_check(CheckTime time) {
  checking_ = Checking{.time = time, .since_s = now_s_};
  tell(CheckNode{paths_.dir.string(), time, 0});
}

void Lead::take(const std::string& node, const NodeChecked& checked) {
  if (!checking_) return;
  if (checked.time == CheckTime::pairs && checking_->network)
    return checking_->network->take(node, checked.round, checked.facts);
  if (checking_->time == checked.time && !checking_->network)
    checking_->facts[node] = checked.facts;
}

/// Tells what was found; why the allocation is of no use, or empty.
std::string Lead::judge_check(double limit_s) {
  note_silent(limit_s);
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

/// What the site runs after the last attempt: while the nodes still hear us.
void Lead::check_last() {
  if (!spec_.check || spec_.check->after.empty() || nodes_lost_ || *leaving_ == "signal")
    return;
  ask_for_check(CheckTime::after);
  const double limit_s =
      spec_.limits.check_hook_s * static_cast<double>(spec_.check->after.size()) + 1;
  const auto told_to_stop = [this] {
    const auto numbers = signals_.take();
    return std::any_of(numbers.begin(), numbers.end(), [](int one) { return one != SIGCHLD; });
  };
  while (!channel_.closed() && static_cast<int>(checking_->facts.size()) < nodes_.count() &&
         now_s_ - checking_->since_s < limit_s && !told_to_stop()) {
    wait();
    keep_time();
    read_nodes();
  }
  (void)judge_check(limit_s);
}

void Lead::watch_nodes() {
  if (nodes_lost_) return;
  if (channel_.closed()) return lose_nodes(nodes_.loss_of_all(agents_were_killed()));
  if (const auto loss =
          nodes_.loss(now_s_, spec_.limits.agents_limit_s, spec_.limits.node_lease_s))
    return lose_nodes(*loss);
  if (!running_) return;
  if (const auto others = running_->end_others(now_s_)) tell(*others);
}

/// srun exits with the highest code of its tasks. Its own death says nothing of them.
bool Lead::agents_were_killed() const {
  constexpr int by_sigkill = 128 + SIGKILL;
  if (spec_.launch != LaunchMode::agents) return false;
  const auto status = exit_status(child_.pid, clock_, srun_exit_s);
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == by_sigkill;
}

/// What ran there is ended with our one child (guard or srun) before anybody reads or packs
/// what it wrote.
void Lead::lose_nodes(const NodeLoss& loss) {
  for (const std::string& node : loss.absent)
    say(FoundOnNode{node, EvidenceKind::silent, "its node agent did not start"}, true);
  nodes_lost_ = true;
  log_.line(loss.why);
  if (!kill_all_children(clock_, last_kill_s)) log_.line("processes remain on this node");
  if (loss.killed) say(FoundOnNode{loss.node, EvidenceKind::killed, loss.why}, true);
  // The attempt's end tells it too.
  if (!loss.node.empty() && !loss.killed && !running_)
    say(FoundOnNode{loss.node, EvidenceKind::silent, loss.why}, true);
  if (running_) {
    // It was lost when it fell silent: what ranks elsewhere noticed since follows from that.
    Evidence lost{
        clock_.now() - to_microseconds(loss.silent_s),
        {loss.killed ? Outcome::reaped : Outcome::node_failure, loss.why, SaidBy::agent}};
    if (!loss.killed) lost.ending.node = loss.node;
    running_->hold_against_it(std::move(lost));
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
  while (!running_ && !leaving_ && nodes_checked_ && nodes_.is_complete() &&
         !topology_.is_due() && !job_end_.first_answer_due(clock_)) {
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
    running_.emplace(next->assign, *spec);
    channel_.send(line);
    fail_point("lead.launched");
  }
}

Result<AttemptSpec> Lead::read_spec(const Assign& assign) const {
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(AttemptPaths{assign.dir}.spec()));
  SHARDSWEEP_ASSIGN(AttemptSpec spec, decode_attempt_spec(text));
  if (spec.attempt != assign.attempt || spec.nonce != assign.nonce)
    return fault(FaultKind::corrupt, "spec.json belongs to another attempt");
  // No node is to blame for a value that is not there.
  SHARDSWEEP_TRY(secrets_of(spec));
  return spec;
}

void Lead::end_running(Outcome outcome, const std::string& why, SaidBy source) {
  if (running_ && running_->hold_against_it({clock_.now(), {outcome, why, source}}))
    tell(EndAttempt{running_->id(), outcome, why});
}

void Lead::finish_if_ended() {
  if (running_ && running_->has_ended_on(nodes_.count()))
    finish(*std::exchange(running_, std::nullopt));
}

/// Nothing starts until its files are packed.
void Lead::finish(const AttemptOnNodes& running) {
  INVARIANT(!settling_, "one attempt after the other is settled", running.id());
  job_report_.end();
  settling_.emplace(EndedAttempt{.assign = running.assign(),
                                 .spec = running.spec(),
                                 .own = running.own(),
                                 .nodes = running.ended(),
                                 .names = nodes_.names_by_index(),
                                 .is_step = nodes_.by_step(),
                                 .time_is_up = time_is_up()},
                    log_);
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
  if (ending.outcome == Outcome::completed) ended.nodes = nodes_.in_order();
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
  check_last();
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
