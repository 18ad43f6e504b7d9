// SPDX-License-Identifier: Apache-2.0
#include "attempt/findings.hpp"

#include "attempt/hang.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <utility>

namespace shardsweep {
namespace {

// A SIGTERM within this time of our own came from the same sender.
constexpr double told_window_s = 2;
// Slurm signals the ranks first, and us within 10 ms; a busy node takes longer.
constexpr double told_wait_s = 1;
constexpr std::size_t shown_leftovers = 3;

}  // namespace

void Findings::add_failure(Evidence evidence, double now_s) {
  add(std::move(evidence));
  if (!failed_at_s_) failed_at_s_ = now_s;
}

void Findings::see_early_exit(int rank, Timestamp at) {
  if (!early_exit_) early_exit_ = evidence_of_early_exit(rank, at);
}

void Findings::see_termination(double now_s) {
  if (!terminated_at_s_) terminated_at_s_ = now_s;
}

void Findings::told_to_stop(double now_s) {
  told_at_s_ = now_s;
  if (!terminated_at_s_ || now_s - *terminated_at_s_ >= told_window_s) return;
  for (Evidence& evidence : evidence_) {
    if (evidence.ending.signal == SIGTERM)
      evidence = evidence_of_signal(evidence.rank, SIGTERM, evidence.at, true);
  }
}

void Findings::stretch(double gap_s) {
  if (terminated_at_s_) *terminated_at_s_ += gap_s;
}

void Findings::refuse(Evidence evidence) {
  refused_ = true;
  add(std::move(evidence));
}

bool Findings::was_told_just_now(double now_s) const {
  return told_at_s_ && now_s - *told_at_s_ < told_window_s;
}

bool Findings::may_be_told_next(double now_s) const {
  return terminated_at_s_ && !told_at_s_ && now_s - *terminated_at_s_ < told_wait_s;
}

std::string Findings::with_early_exit(
    const std::string& why, const std::vector<int>& living) const {
  if (!early_exit_ || (measured_ && living.empty())) return why;
  const std::string ranks =
      living.empty() ? "others" : (living.size() == 1 ? "rank " : "ranks ") + list_of_ranks(living);
  const std::string left =
      measured_ ? fmt::format("rank {} exited 0", early_exit_->rank) : early_exit_->ending.cause;
  return fmt::format("{}, {} ran on: {}", left, ranks, why);
}

Evidence Findings::verdict(bool result_due) const {
  const bool measured = measured_ && !refused_;
  std::vector<Evidence> evidence = evidence_;
  // The result is at rank 0's node. Elsewhere an exit with 0 explains failures of other ranks, and
  // is no failure itself.
  if (early_exit_ && !measured_ && !refused_ && (result_due || !evidence.empty()))
    evidence.push_back(*early_exit_);
  Evidence found = classify(evidence, measured, result_due);
  if (measured && early_exit_) say_who_ran_on(found.ending, evidence_);
  return found;
}

void Beside::add_leftover(const std::string& cmdline) {
  if (static_cast<std::size_t>(facts.leaked++) < shown_leftovers)
    leftovers += fmt::format("{}'{}'", leftovers.empty() ? "" : ", ", cmdline);
}

void Beside::tell(Ending& ending) const {
  add_beside(ending, facts);
  const auto add = [&](const std::string& text) { add_clause(ending.cause, text); };
  if (facts.leaked > 0)
    add(fmt::format("ended leftover processes ({}): {}", facts.leaked, leftovers));
  if (garbage > 0)
    add(garbage == 1 ? "1 line in the records is not a JSON record"
                     : fmt::format("{} lines in the records are not JSON records", garbage));
  if (one_host_only) add("leftover processes were looked for on one host only");
  if (ending.outcome == Outcome::comm_error) add(nccl);
  if (stuck) add("a process could not be ended");
}

}  // namespace shardsweep
