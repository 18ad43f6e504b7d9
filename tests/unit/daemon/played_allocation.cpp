// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_allocation.hpp"

#include "rundir/run_directory.hpp"

#include <shardsweep/duration.hpp>
#include <shardsweep/record.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace shardsweep::testing {
namespace {

constexpr double shortest_pass_s = 0.2;  // a lead's own watch interval

}  // namespace

PlayedAllocation::PlayedAllocation(
    std::filesystem::path dir, std::string job_id, std::vector<std::string> nodes, Site site)
    : paths_{std::move(dir)},
      job_id_(std::move(job_id)),
      site_(std::move(site)),
      names_(std::move(nodes)),
      orders_(paths_.to_lead()) {}

bool PlayedAllocation::claim() {
  const auto won = claim_allocation(paths_, "claim" + job_id_);
  REQUIRE(won);
  if (!*won) return false;
  const auto text = read_own_file(paths_.spec());
  REQUIRE(text);
  const auto spec = decode_allocation_spec(*text);
  REQUIRE(spec);
  spec_ = *spec;
  for (const std::string& name : names_) {
    PlayedNode::Around around{.attempts = site_.attempts,
        .now = [this] { return now(); },
        .log = [this](const std::string& line) { log(line); },
        .fate_of = [this](AttemptId attempt, int index) { return fate_of(attempt, index); },
        .is_late = [this] { return one_in(site_.troubles.late_records); },
        .unreadable =
            [this, name] {
              const bool it_is = is_blind(sight_of_nodes_[name]);
              if (it_is) at_fault_.insert(name);
              return it_is;
            }};
    nodes_.push_back(std::make_unique<PlayedNode>(name, spec_.token, spec_,
        static_cast<int>(nodes_.size()), now().s + delay_s(), std::move(around)));
  }
  LeadOutside& outside = *this;
  machine_.emplace(paths_.dir.string(), spec_, names_, outside);
  passed_s_ = now().s;
  (void)say(Claimed{.token = spec_.token,
                .claim = "claim" + job_id_,
                .host = names_.front(),
                .pid = 1,
                .pid_start = 1,
                .job_id = job_id_},
      true);
  return true;
}

Moment PlayedAllocation::now() const {
  const Timestamp at = site_.clock.true_time();
  return {static_cast<double>(at) * 1e-6, at + ahead_};
}

double PlayedAllocation::delay_s() {
  return one_in(site_.troubles.slow_channel) ? static_cast<double>(site_.random() % 80) / 10 : 0;
}

/// What happens, happens on the first node; the others lose their peers.
RankFate PlayedAllocation::fate_of(AttemptId attempt, int index) {
  if (!fate_ || fate_->first != attempt) {
    fate_ = {attempt, site_.fate_of(attempt)};
    if (fate_->second.outcome == Outcome::node_failure) at_fault_.insert(names_.front());
  }
  RankFate fate = fate_->second;
  const bool all_the_same = fate.outcome == Outcome::completed || fate.outcome == Outcome::hung ||
      fate.outcome == Outcome::timeout;
  if (index == 0 || all_the_same) return fate;
  // They notice, or wait for ever.
  fate.waits = attempt % 2 == 0;
  fate.seconds += 0.5;
  fate.outcome = Outcome::comm_error;
  fate.not_started = fate.other_programs = false;
  return fate;
}

void PlayedAllocation::pass(bool lead_acts) {
  const double passed_s = now().s - passed_s_;
  if (!machine_ || passed_s < shortest_pass_s) return;
  passed_s_ = now().s;
  // What needs several lines each way takes milliseconds.
  constexpr int rounds = 3;
  for (int i = 0; i < rounds; ++i) {
    let_nodes_act();
    site_.attempts.rounds += static_cast<std::int64_t>(nodes_.size());
    if (!lead_acts || over()) continue;
    machine_->round(look());
    ++site_.attempts.rounds;
  }
  hold_owners(passed_s);
  if (over() || now().s >= flush_at_s_) flush();
}

/// One connection to all: what is late holds up what comes after it.
void PlayedAllocation::let_nodes_act() {
  const double now_s = now().s;
  for (; !to_nodes_.empty() && to_nodes_.front().due_s <= now_s; to_nodes_.pop_front()) {
    for (const auto& node : nodes_)
      node->hear(to_nodes_.front().message);
  }
  for (const auto& node : nodes_) {
    if (over()) node->close();
    node->act();
    for (FromNode& said : node->take_said()) {
      const double due_s = now_s + delay_s();
      from_nodes_.push_back(
          {from_nodes_.empty() ? due_s : std::max(due_s, from_nodes_.back().due_s),
              std::move(said)});
    }
  }
}

/// What runs has an agent with its guard and a lead that lives, or is ended within the leases.
void PlayedAllocation::hold_owners(double passed_s) {
  constexpr double longest_s = 60;
  ownerless_s_ = over() && !is_quiet() ? ownerless_s_ + passed_s : 0;
  unguarded_s_ = std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return node->lacks_guard() && !node->is_stopped(); })
      ? unguarded_s_ + passed_s
      : 0;
  const auto complain = [this](const PlayedNode& node, const char* what) {
    site_.violations.push_back(fmt::format("job {}: {} on {}", job_id_, what, node.name()));
  };
  for (const auto& node : nodes_) {
    if (node->is_gone() && node->has_processes())
      complain(*node, "agent and guard are gone, and processes live");
    if (ownerless_s_ > longest_s && node->has_processes() && !node->is_stopped())
      complain(*node, "the lead is gone for a minute, and processes live");
    if (unguarded_s_ > longest_s && node->lacks_guard() && !node->is_stopped())
      complain(*node, "the guard is gone for a minute, and the agent lives");
  }
}

bool PlayedAllocation::is_quiet() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node->is_dead() || (node->is_gone() && !node->has_processes());
  });
}

LeadSenses PlayedAllocation::look() {
  const double now_s = now().s;
  write();
  LeadSenses seen;
  seen.signals = std::exchange(signals_, {});
  for (; !from_nodes_.empty() && from_nodes_.front().due_s <= now_s; from_nodes_.pop_front())
    seen.heard.push_back(std::move(from_nodes_.front().message));
  seen.closed = from_nodes_.empty() &&
      std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->is_gone(); });
  if (settled_ && settled_->due_s <= now_s) {
    seen.settled = std::move(settled_->message);
    settled_.reset();
  }
  seen.all_written = unwritten_.empty();
  return seen;
}

void PlayedAllocation::log(const std::string& line) {
  // With the daemon's own lines, where a test shows them.
  const std::string text = fmt::format("{} lead {}: {}\n", now().at, job_id_, line);
  (void)!std::fwrite(text.data(), 1, text.size(), stderr);
}

bool PlayedAllocation::say(FromLeadBody body, bool durable) {
  if (std::holds_alternative<Beat>(body) && !unwritten_.empty()) return false;
  if (site_.attempts.said) site_.attempts.said(body);
  if (const auto* started = std::get_if<Started>(&body)) {
    PlayedAttempt& attempt = site_.attempts.by_nonce[started->nonce];
    attempt.id = started->attempt;
    attempt.nonce = started->nonce;
    attempt.started = now().at;
  }
  if (const auto* ended = std::get_if<Ended>(&body)) {
    PlayedAttempt& attempt = site_.attempts.by_nonce[ended->nonce];
    attempt.id = ended->attempt;
    attempt.nonce = ended->nonce;
    attempt.said = ended->ending.outcome;
    attempt.ended = now().at;
    attempt.clock_was_set = clock_was_set_;
    attempt.marked = ended->ending.mark != Mark::none;
    // What the daemon has booked already nobody hears any more.
    const bool heard = !site_.attempts.booked || !site_.attempts.booked(ended->nonce);
    if (ended->ending.outcome == Outcome::node_failure && heard) check_blame(ended->ending.node);
  }
  if (const auto* found = std::get_if<FoundOnNode>(&body)) check_blame(found->node);
  unwritten_.push_back({encode(FromLead{++line_, now().at, std::move(body)}), durable});
  if (unwritten_.size() == 1) write();
  return unwritten_.empty();
}

/// Nobody speaks against a node with which nothing was wrong.
void PlayedAllocation::check_blame(const std::string& node) {
  if (!node.empty() && !at_fault_.contains(node))
    site_.violations.push_back(
        fmt::format("job {}: node {} is blamed, and nothing was wrong with it", job_id_, node));
}

/// As SaidLines: what was torn, or could not be synced, is written again as a whole.
void PlayedAllocation::write() {
  if (unwritten_.empty() || now().s < write_again_s_) return;
  for (; !unwritten_.empty(); unwritten_.pop_front()) {
    const auto& [line, durable] = unwritten_.front();
    if (one_in(site_.troubles.unwritten)) {
      flush();
      if (one_in(2)) append(one_in(2) ? line : line.substr(0, line.size() / 2));
      write_again_s_ = now().s + 1;
      return;
    }
    if (!durable && (!unsynced_.empty() || one_in(site_.troubles.unsynced))) {
      // A client of NFS writes by itself, later.
      if (unsynced_.empty()) flush_at_s_ = now().s + static_cast<double>(site_.random() % 20);
      unsynced_.push_back(line);
      continue;
    }
    flush();
    append(line);
  }
}

void PlayedAllocation::flush() {
  for (; !unsynced_.empty(); unsynced_.pop_front())
    append(unsynced_.front());
}

void PlayedAllocation::append(const std::string& line) {
  if (!from_lead_) {
    auto writer = LineWriter::open(paths_.from_lead());
    REQUIRE(writer);
    from_lead_ = std::move(*writer);
  }
  REQUIRE(from_lead_->append(line, false));
}

/// ESTALE and EIO come and go: what fails once fails for a while.
bool PlayedAllocation::is_blind(Sight& sight) {
  const double now_s = now().s;
  if (now_s >= sight.blind_until_s && one_in(site_.troubles.unreadable))
    sight.blind_until_s = now_s + static_cast<double>(site_.random() % 20);
  return now_s < sight.blind_until_s;
}

void PlayedAllocation::tell(const ToNodeBody& message) {
  const double due_s = now().s + delay_s();
  to_nodes_.push_back(
      {to_nodes_.empty() ? due_s : std::max(due_s, to_nodes_.back().due_s), message});
}

std::vector<ToLead> PlayedAllocation::orders() {
  std::vector<ToLead> all;
  if (one_in(site_.troubles.late_orders) || is_blind(sight_)) return all;
  const auto lines = orders_.look();
  REQUIRE(lines);
  for (const std::string& text : *lines) {
    const auto line = decode_to_lead(text);
    REQUIRE(line);
    if (site_.attempts.heard) site_.attempts.heard(*line);
    all.push_back(*line);
  }
  return all;
}

Result<ReadyAttempt> PlayedAllocation::prepare(const Assign& assign) {
  if (is_blind(sight_)) return fault(FaultKind::unavailable, "spec.json: Stale file handle");
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(AttemptPaths{assign.dir}.spec()));
  SHARDSWEEP_ASSIGN(AttemptSpec spec, decode_attempt_spec(text));
  if (spec.attempt != assign.attempt || spec.nonce != assign.nonce)
    return fault(FaultKind::corrupt, "spec.json belongs to another attempt");
  return ReadyAttempt{std::move(spec), ""};
}

bool PlayedAllocation::pack(const Assign& assign) {
  return !is_blind(sight_) && pack_attempt(AttemptPaths{assign.dir}, 0).has_value();
}

void PlayedAllocation::settle(EndedAttempt attempt) {
  const AttemptPaths paths{attempt.assign.dir};
  const bool blind = is_blind(sight_);
  const auto records = read_attempt_records(paths);
  Settlement settled =
      judge_ended(attempt, !blind && records && has_result(records->text, attempt.assign.nonce),
          [] { return std::optional<RecorderReading>(); });
  settled.packed = !blind && pack_attempt(paths, 0).has_value();
  const double took_s =
      one_in(site_.troubles.slow_settling) ? static_cast<double>(site_.random() % 200) : 0;
  settled_ = Late<Settlement>{now().s + took_s, std::move(settled)};
}

std::string PlayedAllocation::storage_fault(bool) {
  return one_in(site_.troubles.full_disk) ? "the disk of /home is full" : "";
}

bool PlayedAllocation::end_all() {
  for (const auto& node : nodes_)
    node->end();
  return true;
}

// ---- what goes wrong

void PlayedAllocation::find(const std::string& node, EvidenceKind kind) {
  for (const auto& one : nodes_) {
    if (one->name() == node && !one->is_gone()) one->find(kind);
  }
  at_fault_.insert(node);
}

void PlayedAllocation::signal(int number) {
  for (const auto& node : nodes_)
    node->signal(number);
  signals_.push_back(number);
}

LastWrite PlayedAllocation::drawn_last_write() {
  return one_in(2) ? LastWrite::whole : one_in(2) ? LastWrite::torn : LastWrite::none;
}

void PlayedAllocation::kill() {
  flush();
  for (const auto& node : nodes_)
    node->die(drawn_last_write());
  killed_ = true;
}

void PlayedAllocation::lose_power() {
  // Some of it may have been on its way.
  if (!unsynced_.empty() && one_in(2))
    std::ofstream(paths_.from_lead(), std::ios::app)
        << unsynced_.front().substr(0, unsynced_.front().size() / 2);
  unsynced_.clear();
  kill();
}

void PlayedAllocation::set_clock_ahead(Timestamp by) {
  clock_was_set_ = claimed();
  ahead_ = by;
}

void PlayedAllocation::kill_lead() {
  flush();
  killed_ = true;
}

void PlayedAllocation::lose_node() {
  PlayedNode& node = drawn_node();
  at_fault_.insert(node.name());
  node.die(drawn_last_write());
}

void PlayedAllocation::kill_agent() {
  PlayedNode& node = drawn_node();
  at_fault_.insert(node.name());
  node.kill_agent();
}

void PlayedAllocation::kill_guard() {
  PlayedNode& node = drawn_node();
  at_fault_.insert(node.name());
  node.kill_guard();
}

void PlayedAllocation::stop_node() {
  PlayedNode& node = drawn_node();
  at_fault_.insert(node.name());
  node.stop(!node.is_stopped());
}

void PlayedAllocation::stop_nodes(bool stop) {
  for (const auto& node : nodes_)
    node->stop(stop);
}

}  // namespace shardsweep::testing
