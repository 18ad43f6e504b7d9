// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_lead.hpp"

#include "rundir/run_directory.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <utility>

namespace shardsweep::testing {

PlayedLead::PlayedLead(
    const std::filesystem::path& dir, std::string job_id, PlayedAttempts& attempts)
    : paths_{dir}, job_id_(std::move(job_id)), attempts_(attempts), orders_(paths_.to_lead()) {}

bool PlayedLead::claim(Timestamp now) {
  const auto won = claim_allocation(paths_, "claim" + job_id_);
  REQUIRE(won);
  claimed_ = *won;
  if (claimed_)
    say(Claimed{.token = "",
            .claim = "claim" + job_id_,
            .host = "n1",
            .pid = 1,
            .pid_start = 1,
            .job_id = job_id_},
        now);
  for (const std::string& node : nodes)
    if (claimed_) say(NodeSeen{.node = node, .host = node, .pid = 1}, now);
  return claimed_;
}

void PlayedLead::say(FromLeadBody body, Timestamp now) {
  auto writer = LineWriter::open(paths_.from_lead());
  REQUIRE(writer);
  if (attempts_.said) attempts_.said(body);
  REQUIRE(writer->append(encode(FromLead{++n_, now, std::move(body)}), false));
  spoke_at_ = now;
}

void PlayedLead::leave_result() {
  if (running_) attempts_.write_result(running_->nonce, running_->dir);
}

void PlayedLead::end(Outcome outcome, Timestamp now, Mark mark, const std::string& node) {
  end(Ended{.ending = {.outcome = outcome,
                .cause = "played",
                .source = SaidBy::agent,
                .node = node,
                .mark = mark}},
      now);
}

void PlayedLead::end(Ended said, Timestamp now, double speed) {
  const Assign assign = *std::exchange(running_, std::nullopt);
  PlayedAttempt& attempt = attempts_.by_nonce[assign.nonce];
  if (said.ending.outcome == Outcome::completed)
    attempts_.write_result(assign.nonce, assign.dir, speed);
  attempt.said = said.ending.outcome;
  attempt.ended = now;
  attempt.marked = said.ending.mark != Mark::none;
  work_.ended(assign, said.ending.outcome);
  said.attempt = assign.attempt;
  said.nonce = assign.nonce;
  say(std::move(said), now);
}

void PlayedLead::hear(std::mt19937_64& random, Timestamp now) {
  const auto lines = orders_.look();
  REQUIRE(lines);
  for (const std::string& text : *lines) {
    const auto line = decode_to_lead(text);
    REQUIRE(line);
    if (attempts_.heard) attempts_.heard(*line);
    const AssignmentNews news = work_.apply(*line);
    for (const AttemptId attempt : news.revoked)
      say(Revoked{attempt}, now);
    for (const auto& [assign, why] : news.cancelled)
      say(Ended{.attempt = assign.attempt,
              .nonce = assign.nonce,
              .ending = {.outcome = Outcome::cancelled, .cause = why, .source = SaidBy::request}},
          now);
    if (news.end_running && running_)
      end(random() % 3 == 0 ? Outcome::completed : Outcome::cancelled, now);
  }
}

bool PlayedLead::start_next(Timestamp now) {
  auto next = work_.next();
  if (!next) return false;
  running_ = next->assign;
  PlayedAttempt& attempt = attempts_.by_nonce[next->assign.nonce];
  attempt.id = next->assign.attempt;
  attempt.nonce = next->assign.nonce;
  if (!next->skipped_because.empty()) {
    end(Outcome::skipped, now);
    return true;
  }
  attempt.started = now;
  say(Started{next->assign.attempt, next->assign.nonce}, now);
  return true;
}

void PlayedLead::leave(const std::string& why, Timestamp now) {
  say(Bye{why}, now);
}

}  // namespace shardsweep::testing
