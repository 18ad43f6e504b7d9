// SPDX-License-Identifier: Apache-2.0
#include "attempt/step_output.hpp"

#include "causes/causes.hpp"
#include "text/characters.hpp"
#include "text/node_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

namespace shardsweep {

namespace {

constexpr std::string_view complaint = "srun: error: ";

/// A complaint of srun's, with the node on which it happened.
struct Complaint {
  std::string node{};       ///< empty: several, or not named
  int rank = -1;            ///< first task that it names
  std::string_view what{};  ///< became of the task; of a node: all that srun says
};

/// "n3: task 5: Exited with exit code 11", "n[1-2]: tasks 0-1: Terminated".
std::optional<Complaint> task_in(std::string_view said) {
  std::size_t at = said.find(": task");
  if (at == std::string_view::npos) return std::nullopt;
  Complaint task{.node = only_node_in(said.substr(0, at))};
  at = said.find(' ', at + 2);
  if (at == std::string_view::npos) return std::nullopt;
  const auto [stop, error] =
      std::from_chars(said.data() + at + 1, said.data() + said.size(), task.rank);
  const std::size_t end = said.find(": ", at);
  if (error != std::errc() || task.rank < 0 || end == std::string_view::npos) return std::nullopt;
  task.what = said.substr(end + 2);
  return task;
}

/// True if the node itself has failed: Slurm names one as well for what the user asked wrongly, or
/// for another node's failure.
bool accuses(std::string_view said) {
  const Cause* cause = built_in_causes().find(said, LinePlace::line);
  return cause == nullptr || cause->outcome == Outcome::node_failure;
}

/// "Task launch for StepId=7.0 failed on node n3: …", "Node failure on n3".
std::optional<Complaint> node_in(std::string_view said) {
  const std::string node = node_accused_in(said);
  if (node.empty() || !accuses(said)) return std::nullopt;
  return Complaint{.node = node, .what = said};
}

/// Calls `take` with each message of srun's, without its first words, until that is true.
template <class Take>
void each_complaint(std::string_view output, const Take& take) {
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    const std::string_view line = output.substr(0, end);
    if (line.starts_with(complaint) && take(line.substr(complaint.size()))) return;
    output.remove_prefix(std::min(end + 1, output.size()));
  }
}

std::string last_line_in(std::string_view output) {
  const std::size_t end = output.find_last_not_of('\n');
  if (end == std::string_view::npos) return "";
  output = output.substr(0, end + 1);
  return one_line(output.substr(output.rfind('\n') + 1), longest_quote);  // npos + 1 is 0
}

Evidence evidence_of_task(const Complaint& task, Timestamp at, bool told) {
  constexpr std::string_view exited = "Exited with exit code ";
  if (task.what.starts_with(exited)) {
    const std::string_view number = task.what.substr(exited.size());
    int code = 0;
    (void)std::from_chars(number.data(), number.data() + number.size(), code);
    if (auto evidence = evidence_of_exit(task.rank, code, at, "")) return *evidence;
  }
  if (task.what == "Out Of Memory") return evidence_of_memory_kill(task.rank, at);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* description = ::sigdescr_np(signal);
    if (description != nullptr && task.what.starts_with(description))
      return evidence_of_signal(task.rank, signal, at, told);
  }
  Evidence evidence;
  evidence.at = at;
  evidence.ending.source = SaidBy::exit;
  evidence.rank = task.rank;
  evidence.ending.cause = fmt::format("rank {}: {}", task.rank, one_line(task.what, longest_quote));
  return evidence;
}

Evidence evidence_of_lost_node(const Complaint& lost, Timestamp at) {
  Evidence evidence;
  evidence.at = at;
  evidence.ending.outcome = Outcome::node_failure;
  evidence.ending.source = SaidBy::agent;
  evidence.ending.cause =
      fmt::format("srun lost node {}: {}", lost.node, one_line(lost.what, longest_quote));
  evidence.ending.node = lost.node;
  return evidence;
}

/// True if somebody had cancelled the step by then: slurmstepd says so of no reason but scancel.
/// After a task has failed srun cancels the step itself.
bool was_cancelled(std::string_view output_before) {
  const std::size_t at = output_before.find(": error: *** STEP ");
  if (at == std::string_view::npos) return false;
  const std::string_view line = output_before.substr(at, output_before.find('\n', at) - at);
  return line.find(" CANCELLED AT ") != std::string_view::npos &&
      line.find(" DUE TO ") == std::string_view::npos;
}

/// Says nothing about the trial, as the end of a whole job by somebody. A preemption stays one.
void blame_cancellation(Evidence& killed) {
  if (killed.ending.outcome == Outcome::preempted) return;
  if (killed.ending.signal != SIGKILL && killed.ending.signal != SIGTERM) return;
  killed.ending = {.outcome = Outcome::reaped,
      .cause = "its step was cancelled (scancel)",
      .source = SaidBy::scheduler,
      .signal = killed.ending.signal};
}

}  // namespace

std::optional<Evidence> first_failure_in(std::string_view output, Timestamp at, bool told) {
  std::optional<Evidence> first;
  each_complaint(output, [&](std::string_view said) {
    if (node_in(said)) {
      first = lost_node_in(output, at);
    } else if (const auto task = task_in(said)) {
      first = evidence_of_task(*task, at, told);
      if (was_cancelled(output.substr(0, static_cast<std::size_t>(said.data() - output.data()))))
        blame_cancellation(*first);
      first->ending.node = task->node;
    }
    return first.has_value();
  });
  return first;
}

std::optional<Evidence> lost_node_in(std::string_view output, Timestamp at) {
  std::optional<Evidence> lost;
  each_complaint(output, [&](std::string_view said) {
    const auto node = node_in(said);
    if (!node) return false;
    const bool several = lost && lost->ending.node != node->node;
    if (!lost) lost = evidence_of_lost_node(*node, at);
    if (!several) return false;
    // Accuses nobody: srun reaches none of them, and any may be the sick one.
    lost->ending.outcome = Outcome::comm_error;
    lost->ending.node.clear();
    lost->ending.cause = fmt::format("srun lost several nodes: {}", one_line(said, longest_quote));
    return true;
  });
  return lost;
}

Evidence evidence_of_step(std::string_view output, int exit_code, Timestamp at, bool told) {
  if (auto first = first_failure_in(output, at, told)) return *std::move(first);
  constexpr int killed = 128;
  if (exit_code > killed) return evidence_of_signal(-1, exit_code - killed, at, told);
  return evidence_of_exit(-1, exit_code, at, last_line_in(output)).value_or(Evidence{});
}

Evidence evidence_of_no_step(std::string_view output, const std::string& why, Timestamp at) {
  auto lost = lost_node_in(output, at);
  Evidence evidence = lost ? *std::move(lost) : Evidence{.at = at};
  if (evidence.ending.node.empty()) {
    // Slurm had no step to give: report it as a program that can't be started.
    const std::string said = last_line_in(output);
    evidence.ending = {Outcome::lost, said.empty() ? why : said, SaidBy::agent};
    evidence.ending.start_error = EAGAIN;
  }
  evidence.ending.cause = "the step did not start: " + evidence.ending.cause;
  return evidence;
}

namespace {

constexpr std::size_t longest = 300;

// "node1:4711:4802 [3] transport/net_ib.cc:1234 NCCL WARN NET/IB : Got completion from peer …"
// and "node1:4711:4802 [3] NCCL INFO misc/socket.cc:541 -> 6": the call stack of a failure.
constexpr std::array<std::string_view, 6> words{
    " NCCL WARN ", " error", " Error", " failed", " Failed", " timed out"};

bool is_complaint(std::string_view line) {
  const bool by_nccl = line.find(" NCCL ") != std::string_view::npos;
  return by_nccl && std::any_of(words.begin(), words.end(), [line](std::string_view word) {
    return line.find(word) != std::string_view::npos;
  });
}

/// Text after the bracketed device.
std::string_view without_origin(std::string_view line) {
  const std::size_t open = line.find(" [");
  const std::size_t close = line.find("] ", open);
  const bool found = open != std::string_view::npos && close != std::string_view::npos &&
      close - open < 8 && open < line.find(" NCCL ");
  return found ? line.substr(close + 2) : line;
}

}  // namespace

std::vector<std::string> nccl_complaints(std::string_view log, std::size_t most) {
  std::vector<std::string> found;
  while (!log.empty() && found.size() < most) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (!is_complaint(line)) continue;
    std::string text = one_line(without_origin(line), longest);
    if (std::find(found.begin(), found.end(), text) == found.end())
      found.push_back(std::move(text));
  }
  return found;
}

}  // namespace shardsweep
