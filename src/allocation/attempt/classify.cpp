// SPDX-License-Identifier: Apache-2.0
// Decision: In one log the first cause wins. A broken connection is a symptom and loses against
// every cause.
#include "attempt/classify.hpp"

#include "causes/fragmentation.hpp"
#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace shardsweep {
namespace {

// Peers notice a broken connection before the death that broke it is reported. A failure that is
// seen up to this long after a secondary one can be its cause.
constexpr Timestamp notice_window_us = 2'000'000;

/// Evidence of a class of error, if the runner's contract knows it.
Evidence of_class(
    const std::optional<RunnerExitInfo>& info, SaidBy source, int rank, Timestamp at) {
  Evidence evidence{.at = at, .rank = rank};
  evidence.ending.source = source;
  if (info) evidence.ending.outcome = info->outcome.value_or(Outcome::comm_error);
  evidence.only_a_witness = info && !info->outcome;
  evidence.secondary = evidence.ending.outcome == Outcome::comm_error;
  return evidence;
}

const Evidence* earliest(const std::vector<Evidence>& all, bool witnesses, bool secondaries) {
  const Evidence* first = nullptr;
  for (const auto& one : all) {
    if (one.aside || one.only_a_witness != witnesses) continue;
    if (one.secondary && !secondaries && !witnesses) continue;
    if (first == nullptr || one.at < first->at) first = &one;
  }
  return first;
}

/// A rank, or the Slurm step that holds them all.
std::string who(int rank) {
  return rank < 0 ? "the step" : fmt::format("rank {}", rank);
}

/// Adds the exit code or signal that a rank left with to what it recorded.
Evidence with_exit(Evidence first, const std::vector<Evidence>& all) {
  for (const auto& one : all) {
    if (first.ending.exit_code >= 0 || first.ending.signal != 0) break;
    if (first.rank < 0 || one.rank != first.rank) continue;
    first.ending.exit_code = one.ending.exit_code;
    first.ending.signal = one.ending.signal;
  }
  return first;
}

/// A runner that says why it could not write is no crash of its layout.
void excuse_storage(Evidence& evidence) {
  const Cause* cause = built_in_causes().find(evidence.ending.cause, LinePlace::line);
  if (evidence.ending.outcome == Outcome::crashed && cause != nullptr &&
      cause->outcome == Outcome::node_failure && cause->weight == Strength::late)
    evidence.ending.outcome = Outcome::lost;
}

template <class Fact>
void join(Fact& fact, const Fact& more) {
  if constexpr (std::is_same_v<Fact, std::string>) {
    add_clause(fact, more);
  } else if constexpr (std::is_same_v<Fact, std::int32_t>) {
    fact += more;
  } else if (more != Fact{}) {
    fact = std::max(fact, more);
  }
}

/// An exit code or signal that any failure can lead to.
bool tells_nothing(const Evidence& one) {
  if (one.ending.source != SaidBy::exit || one.ending.outcome != Outcome::crashed) return false;
  // The codes of a program that does not keep to the contract tell nothing either.
  const auto row = runner_exit(one.ending.exit_code);
  const bool means_that = row && row->outcome == one.ending.outcome;
  // 126 and 127 are a shell's and our own: what could not be started is said with them.
  const bool is_shells = one.ending.exit_code == 126 || one.ending.exit_code == 127;
  return one.ending.signal != 0 || (!means_that && !is_shells);
}

void take_over(Evidence& one, int rank, const LogFinding& finding) {
  if (finding.rule.empty() ||
      finding.strength == Strength::hint) {  // another rank's log may still explain a step
    const std::string end = one.ending.signal != 0
        ? "was ended by " + signal_name(one.ending.signal)
        : fmt::format("exited with {}", one.ending.exit_code);
    one.ending.cause = fmt::format("{} {}: {}", who(rank), end, finding.line);
    return;
  }
  if (one.rank < 0) one.rank = rank;
  one.ending.outcome = finding.outcome;
  one.ending.fragmented = !finding.fragmentation.empty();
  one.ending.source = SaidBy::log;
  one.secondary = finding.strength == Strength::symptom || finding.outcome == Outcome::comm_error;
  one.only_a_witness = finding.strength == Strength::symptom;
  const std::string why =
      one.ending.fragmented ? " by fragmentation: " + finding.fragmentation : "";
  one.ending.cause = fmt::format("{}: {}{}: {}", who(rank), finding.rule, why, finding.line);
  add_clause(one.ending.cause, finding.remedy);
}

/// Time of a cause that nobody has noticed. It is before a watch's verdict, or the failure
/// elsewhere that the rank was ended for, else right after what is known.
Timestamp time_unnoticed(const std::vector<Evidence>& evidence, Timestamp now) {
  Timestamp at = now;
  for (const Evidence& one : evidence) {
    if (one.aside) continue;
    // The lead tells of verdicts and of others' failures a while after them.
    const bool told = one.ending.source == SaidBy::policy || one.ending.source == SaidBy::request;
    at = std::min(at, told ? one.at - notice_window_us : one.at + 1);
  }
  return at;
}

/// Evidence about a rank that still needs an explanation, else the first about it. A step names no
/// rank, so the first log that tells something explains it.
Evidence* evidence_about(std::vector<Evidence>& evidence, int rank) {
  Evidence* known = nullptr;
  for (Evidence& one : evidence) {
    // A watch names whom it waited for, not what that one did.
    const bool own = one.rank == rank && one.ending.source != SaidBy::policy;
    if (one.aside || (!own && (one.rank >= 0 || one.ending.source != SaidBy::exit))) continue;
    if (tells_nothing(one)) return &one;
    if (known == nullptr && one.rank >= 0) known = &one;
  }
  return known;
}

/// True if nobody failed: the end was asked for, or the scheduler wanted the nodes back.
bool ended_on_purpose(const Evidence& one) {
  return one.ending.outcome == Outcome::cancelled || one.ending.outcome == Outcome::preempted;
}

/// Evidence that says something else than the verdict, and does not follow from the first cause.
std::string contradictions(const Evidence& verdict, const std::vector<Evidence>& all) {
  constexpr int most = 3;
  std::string text;
  int count = 0;
  for (const Evidence& one : all) {
    const bool follows = one.secondary || one.only_a_witness ||
        one.ending.source == SaidBy::request || (one.rank >= 0 && one.rank == verdict.rank);
    if (one.ending.outcome == verdict.ending.outcome || (follows && !one.aside)) continue;
    if (verdict.ending.outcome == Outcome::completed && !one.aside) continue;  // the cause has it
    if (++count > most) break;
    add_clause(text, fmt::format("{}: {}", name(one.ending.outcome), one.ending.cause));
  }
  return text;
}

Evidence verdict_of(const std::vector<Evidence>& evidence, bool measured, bool result_due) {
  const Evidence* first = earliest(evidence, false, true);
  if (first != nullptr && first->secondary) {
    const Evidence* primary = earliest(evidence, false, false);
    // An early exit explains lost peers, however long ago it was, and nothing else.
    const bool early = first->ending.source == SaidBy::exit && first->ending.exit_code == 0;
    if (primary != nullptr && (early || primary->at <= first->at + notice_window_us))
      first = primary;
  }
  if (first == nullptr) first = earliest(evidence, true, true);
  if (measured) {
    const std::string cause = first == nullptr ? "" : "after the result: " + first->ending.cause;
    return {.ending{Outcome::completed, cause, SaidBy::runner, 0}};
  }
  if (first != nullptr) return with_exit(*first, evidence);
  if (!result_due) return {.ending{Outcome::completed, "", SaidBy::exit, 0}};
  return {.ending{Outcome::crashed, "exited 0 without a result", SaidBy::exit, 0}};
}

}  // namespace

void add_clause(std::string& text, const std::string& more) {
  if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
}

void add_beside(Ending& ending, const Ending& seen) {
  visit_fields<Ending>([&](const auto& field) {
    if (field.is(Flag::beside)) join(ending.*field.member, seen.*field.member);
  });
}

std::string signal_name(int number) {
  const char* abbreviation = ::sigabbrev_np(number);
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation)
                                 : fmt::format("signal {}", number);
}

Evidence evidence_of_error(const Record& record, int rank, Timestamp at) {
  const auto known = runner_exit_class(record.error_class);
  Evidence evidence =
      of_class(known, SaidBy::runner, rank, record.t > 0 ? std::min(record.t, at) : at);
  if (known && known->code == RunnerExit::ok) evidence.ending.outcome = Outcome::crashed;
  evidence.ending.cause = fmt::format("rank {}: {}: {}", rank,
      record.error_class.empty() ? "error" : record.error_class, record.message);
  if (evidence.ending.outcome == Outcome::oom)
    evidence.ending.fragmented = fragmentation_in(record.message).has_value();
  excuse_storage(evidence);
  return evidence;
}

std::optional<Evidence> evidence_of_exit(
    int rank, int exit_code, Timestamp at, const std::string& last_line, ExitCodes codes) {
  if (exit_code == 0) return std::nullopt;
  const auto known = codes == ExitCodes::contract ? runner_exit(exit_code) : std::nullopt;
  Evidence evidence = of_class(known, SaidBy::exit, rank, at);
  evidence.ending.exit_code = exit_code;
  evidence.ending.cause = fmt::format("{} exited with {}", who(rank), exit_code);
  if (known) evidence.ending.cause += fmt::format(" ({})", known->error_class);
  if (!last_line.empty()) evidence.ending.cause += ": " + one_line(last_line, longest_quote);
  excuse_storage(evidence);
  return evidence;
}

Evidence evidence_of_early_exit(int rank, Timestamp at) {
  return {at, {Outcome::crashed, who(rank) + " exited 0 without a result", SaidBy::exit, 0}, rank,
      true};
}

Evidence evidence_of_signal(int rank, int signal, Timestamp at, bool told) {
  Ending ending{Outcome::crashed, who(rank) + " was ended by " + signal_name(signal), SaidBy::exit};
  if (told && signal == SIGTERM)
    ending = {Outcome::preempted, "the allocation was told to stop (SIGTERM)", SaidBy::agent};
  ending.signal = signal;
  return {at, std::move(ending), rank};
}

Evidence evidence_of_no_start(int rank, int error, const std::string& what, Timestamp at) {
  Ending ending{Outcome::lost, fmt::format("rank {} did not start: {}", rank, what), SaidBy::agent};
  ending.start_error = error;
  return {at, std::move(ending), rank};
}

std::optional<Evidence> evidence_of_no_container(
    int rank, int exit_code, const std::string& last_line, Timestamp at, bool has_begun) {
  constexpr int runtime_failed = 125;  // 126: it can't start the program
  constexpr int no_such_program = 127;
  if (has_begun || exit_code < runtime_failed || exit_code > no_such_program ||
      !last_line.starts_with("Error: "))
    return std::nullopt;
  return evidence_of_no_start(rank, ENOEXEC, one_line(last_line, longest_quote), at);
}

void blame_storage(std::vector<Evidence>& evidence, const std::string& why, Timestamp at) {
  const auto is_verdict = [](const Evidence& one) {
    const bool recorded =
        one.ending.source == SaidBy::runner && one.ending.outcome != Outcome::lost;
    return recorded || one.ending.start_error != 0 || !one.ending.found_code.empty() ||
        one.ending.outcome == Outcome::oom || one.ending.outcome == Outcome::rejected ||
        ended_on_purpose(one);
  };
  for (Evidence& one : evidence) {
    at = std::min(at, one.at);
    if (!is_verdict(one)) one.aside = true;
  }
  if (std::any_of(evidence.begin(), evidence.end(), is_verdict)) return;
  evidence.push_back({at, {Outcome::lost, why, SaidBy::agent}});
}

Evidence evidence_of_memory_kill(int rank, Timestamp at) {
  Evidence evidence = evidence_of_signal(rank, SIGKILL, at, false);
  evidence.ending.outcome = Outcome::oom;
  evidence.ending.cause =
      who(rank) + " was killed by the kernel: the job's memory on its node was used up";
  return evidence;
}

Evidence evidence_of_node(const NodeEnded& ended, const std::string& node) {
  Evidence evidence{.at = ended.at, .ending = ended.ending};
  if (evidence.ending.node.empty()) evidence.ending.node = node;
  visit_fields<Ending>([&](const auto& field) {
    if (field.is(Flag::beside)) evidence.ending.*field.member = Ending{}.*field.member;
  });
  evidence.secondary = ended.ending.outcome == Outcome::comm_error;
  return evidence;
}

// ---- logs

void join_log(std::vector<Evidence>& evidence, int rank, const std::optional<LogFinding>& finding,
    Timestamp now, bool alone) {
  if (std::any_of(evidence.begin(), evidence.end(), ended_on_purpose)) return;
  Evidence* known = evidence_about(evidence, rank);
  if (!finding) return;
  const bool open = known != nullptr && tells_nothing(*known);
  if (open || (known != nullptr && finding->own)) return take_over(*known, rank, *finding);
  if (finding->strength > Strength::end) return;
  if (known != nullptr && known->ending.outcome == finding->outcome) return;
  Evidence found{.at = time_unnoticed(evidence, now), .rank = rank};
  take_over(found, rank, *finding);
  found.aside = known != nullptr || (evidence.empty() && !alone);
  evidence.push_back(std::move(found));
}

void apply_own_causes(std::vector<Evidence>& evidence, std::span<const Cause> own) {
  const CauseIndex index(own);
  for (Evidence& one : evidence) {
    if (one.ending.source != SaidBy::runner && one.ending.source != SaidBy::exit) continue;
    const Cause* cause = index.find(one.ending.cause, LinePlace::exception);
    if (cause == nullptr) continue;
    one.ending.outcome = cause->outcome;
    one.ending.fragmented = false;
    one.secondary = one.only_a_witness = false;
    one.ending.cause = fmt::format("{}: {}", cause->name, one.ending.cause);
    add_clause(one.ending.cause, cause->remedy);
  }
}

// ---- verdict

void say_who_ran_on(Ending& ending, const std::vector<Evidence>& all) {
  if (ending.outcome != Outcome::completed) return;
  for (const Evidence& one : all) {
    if (one.ending.outcome != Outcome::hung) continue;
    if (ending.cause.ends_with(one.ending.cause)) ending.cause.clear();
    add_clause(ending.also,
        fmt::format("hung{}{}: {}", one.ending.node.empty() ? "" : " on ", one.ending.node,
            one.ending.cause));
  }
}

Evidence classify(const std::vector<Evidence>& evidence, bool measured, bool result_due) {
  // A result of another program is none of this attempt, and its failures are not either.
  const auto other = std::find_if(evidence.begin(), evidence.end(),
      [](const Evidence& one) { return !one.ending.found_code.empty(); });
  if (other != evidence.end()) return *other;
  Evidence verdict = verdict_of(evidence, measured, result_due);
  verdict.ending.also = contradictions(verdict, evidence);
  return verdict;
}

}  // namespace shardsweep
