// SPDX-License-Identifier: Apache-2.0
#include "domain/classify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <utility>

namespace shardsweep {
namespace {

// A broken connection is noticed before the death that broke it is told: what is seen this long
// after a secondary failure can still be its cause.
constexpr Timestamp notice_window_us = 2'000'000;

Evidence with_class(const RunnerExitInfo& info) {
  Evidence evidence;
  evidence.outcome = info.outcome.value_or(Outcome::comm_error);
  evidence.only_a_witness = !info.outcome;
  evidence.secondary = evidence.outcome == Outcome::comm_error;
  return evidence;
}

const Evidence* earliest(const std::vector<Evidence>& all, bool witnesses, bool secondaries) {
  const Evidence* first = nullptr;
  for (const auto& one : all) {
    if (one.only_a_witness != witnesses) continue;
    if (one.secondary && !secondaries && !witnesses) continue;
    if (first == nullptr || one.at < first->at) first = &one;
  }
  return first;
}

/// A rank, or the Slurm step that holds them all.
std::string who(int rank) {
  return rank < 0 ? "the step" : fmt::format("rank {}", rank);
}

/// What a rank recorded, with the exit code that it left with.
Evidence with_exit(Evidence first, const std::vector<Evidence>& all) {
  if (first.rank < 0 || first.exit_code >= 0 || first.signal != 0) return first;
  for (const auto& one : all) {
    if (one.rank != first.rank || (one.exit_code < 0 && one.signal == 0)) continue;
    first.exit_code = one.exit_code;
    first.signal = one.signal;
    break;
  }
  return first;
}

}  // namespace

std::string signal_name(int number) {
  const char* abbreviation = ::sigabbrev_np(number);
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation)
                                 : fmt::format("signal {}", number);
}

Evidence evidence_of_error(const Record& record, int rank, Timestamp at) {
  const auto known = runner_exit_class(record.error_class);
  Evidence evidence = known ? with_class(*known) : Evidence{};
  if (known && known->code == RunnerExit::ok) evidence.outcome = Outcome::crashed;
  evidence.at = record.t > 0 && record.t < at ? record.t : at;
  evidence.source = "runner";
  evidence.rank = rank;
  evidence.cause =
      fmt::format("rank {}: {}: {}", rank,
                  record.error_class.empty() ? "error" : record.error_class, record.message);
  return evidence;
}

std::optional<Evidence> evidence_of_exit(int rank, int exit_code, Timestamp at,
                                         const std::string& last_line) {
  if (exit_code == 0) return std::nullopt;
  const auto known = runner_exit(exit_code);
  Evidence evidence = known ? with_class(*known) : Evidence{};
  evidence.at = at;
  evidence.source = "exit";
  evidence.rank = rank;
  evidence.exit_code = exit_code;
  evidence.cause = fmt::format("{} exited with {}", who(rank), exit_code);
  if (known) evidence.cause += fmt::format(" ({})", known->error_class);
  if (!last_line.empty()) evidence.cause += ": " + last_line;
  return evidence;
}

Evidence evidence_of_signal(int rank, int signal, Timestamp at, bool told) {
  Evidence evidence;
  evidence.at = at;
  evidence.source = "exit";
  evidence.rank = rank;
  evidence.signal = signal;
  evidence.cause = fmt::format("{} was ended by {}", who(rank), signal_name(signal));
  if (told && signal == SIGTERM) {
    evidence.outcome = Outcome::preempted;
    evidence.source = "agent";
    evidence.cause = "the allocation was told to stop (SIGTERM)";
  }
  return evidence;
}

Evidence evidence_of_memory_kill(int rank, Timestamp at) {
  Evidence evidence = evidence_of_signal(rank, SIGKILL, at, false);
  evidence.outcome = Outcome::oom;
  evidence.cause = fmt::format(
      "{} was killed by the kernel: the job's memory on its node was used up", who(rank));
  return evidence;
}

namespace {

/// "n3: task 5: Exited with exit code 11", "n1: tasks 0-1: Terminated": the first rank and what
/// became of it.
std::optional<std::pair<int, std::string_view>> task_in(std::string_view line) {
  constexpr std::string_view complaint = "srun: error: ";
  if (!line.starts_with(complaint)) return std::nullopt;
  std::size_t at = line.find(": task");
  if (at == std::string_view::npos) return std::nullopt;
  at = line.find(' ', at + 2);
  if (at == std::string_view::npos) return std::nullopt;
  int rank = -1;
  const auto [stop, error] =
      std::from_chars(line.data() + at + 1, line.data() + line.size(), rank);
  const std::size_t end = line.find(": ", at);
  if (error != std::errc() || rank < 0 || end == std::string_view::npos) return std::nullopt;
  return std::pair{rank, line.substr(end + 2)};
}

Evidence evidence_of_task(int rank, std::string_view fate, Timestamp at, bool told) {
  constexpr std::string_view exited = "Exited with exit code ";
  if (fate.starts_with(exited)) {
    const std::string_view number = fate.substr(exited.size());
    int code = 0;
    (void)std::from_chars(number.data(), number.data() + number.size(), code);
    if (auto evidence = evidence_of_exit(rank, code, at, "")) return *evidence;
  }
  if (fate == "Out Of Memory") return evidence_of_memory_kill(rank, at);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* description = ::sigdescr_np(signal);
    if (description != nullptr && fate.starts_with(description))
      return evidence_of_signal(rank, signal, at, told);
  }
  Evidence evidence;
  evidence.at = at;
  evidence.source = "exit";
  evidence.rank = rank;
  evidence.cause = fmt::format("rank {}: {}", rank, fate);
  return evidence;
}

}  // namespace

Evidence evidence_of_step(std::string_view output, int exit_code, Timestamp at, bool told) {
  std::string_view last;
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    if (end > 0) last = output.substr(0, end);
    if (const auto task = task_in(output.substr(0, end)))
      return evidence_of_task(task->first, task->second, at, told);
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  constexpr int killed = 128;
  if (exit_code > killed) return evidence_of_signal(-1, exit_code - killed, at, told);
  return evidence_of_exit(-1, exit_code, at, std::string(last)).value_or(Evidence{});
}

Evidence evidence_of_node(const NodeEnded& ended) {
  Evidence evidence;
  evidence.at = ended.at;
  evidence.outcome = ended.outcome;
  evidence.cause = ended.cause;
  evidence.source = ended.source;
  evidence.exit_code = ended.exit_code;
  evidence.signal = ended.signal;
  evidence.secondary = ended.outcome == Outcome::comm_error;
  return evidence;
}

Classified classify(const std::vector<Evidence>& evidence, bool measured, bool result_due) {
  const Evidence* first = earliest(evidence, false, true);
  if (first != nullptr && first->secondary) {
    const Evidence* primary = earliest(evidence, false, false);
    if (primary != nullptr && primary->at <= first->at + notice_window_us) first = primary;
  }
  if (first == nullptr) first = earliest(evidence, true, true);
  if (measured) {
    Classified done{Outcome::completed, {}};
    done.first.outcome = Outcome::completed;
    done.first.source = "runner";
    done.first.exit_code = 0;
    if (first != nullptr) done.first.cause = "after the result: " + first->cause;
    return done;
  }
  if (first != nullptr) return {first->outcome, with_exit(*first, evidence)};
  Classified silent;
  silent.outcome = result_due ? Outcome::crashed : Outcome::completed;
  silent.first.outcome = silent.outcome;
  silent.first.exit_code = 0;
  silent.first.source = "exit";
  if (result_due) silent.first.cause = "exited 0 without a result";
  return silent;
}

}  // namespace shardsweep
