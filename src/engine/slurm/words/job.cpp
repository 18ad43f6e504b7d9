// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/job.hpp"

#include "slurm/words/array.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep::slurm {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::string_view line : split(text, '\n')) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

constexpr std::size_t queue_columns = 5;

/// Rows that end with a separator and a line break. The name of a job of ours may have line
/// breaks too: it must not hide the other jobs. The last row is the rest, whole or not.
std::vector<std::string_view> rows_of(std::string_view text, std::size_t columns) {
  std::vector<std::string_view> rows;
  while (text.find_first_not_of("\r\n") != std::string_view::npos) {
    text.remove_prefix(text.find_first_not_of("\r\n"));
    std::size_t end = 0;
    for (std::size_t column = 0; column < columns && end != std::string_view::npos; ++column)
      end = text.find(separator, column == 0 ? 0 : end + 1);
    const std::size_t line_end =
        end == std::string_view::npos ? end : text.find_first_of("\r\n", end);
    rows.push_back(text.substr(0, line_end));
    text.remove_prefix(std::min(line_end, text.size()));
  }
  return rows;
}

/// 123, 123_4, 123+1 and 123_[5-9]: it begins with a digit and holds nothing odd.
bool is_job_id(std::string_view text) {
  constexpr std::string_view allowed = "0123456789_+.[]-,%";
  return !text.empty() && text.size() < 128 && text.front() >= '0' && text.front() <= '9' &&
      text.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_state(std::string_view text) {
  const auto upper = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
  const std::string_view word = text.substr(0, text.find(' '));
  return !word.empty() && std::all_of(word.begin(), word.end(), upper);
}

tl::unexpected<Fault> garbage(std::string_view program, std::string_view line) {
  return fault(FaultKind::unavailable, "{} printed a line that does not describe a job: '{}'",
      program, one_line(line, 200));
}

/// Strips what may follow a known word of sacct: "CANCELLED+" if a column was too narrow.
std::string_view word_of(std::string_view state) {
  std::string_view word = state.substr(0, state.find(' '));
  while (!word.empty() && word.back() == '+')
    word.remove_suffix(1);
  return word;
}

struct StateRow {
  std::string_view word;
  JobState state;
  std::optional<Outcome> outcome;
};

/// job_state_codes: 12 base states, then the flags that take their place in squeue. An
/// allocation that is being taken down (COMPLETING) still has its nodes.
constexpr std::array<StateRow, 31> states{{
    {"PENDING", JobState::pending, std::nullopt},
    {"RUNNING", JobState::running, std::nullopt},
    {"SUSPENDED", JobState::running, std::nullopt},
    {"COMPLETED", JobState::ended, std::nullopt},
    {"CANCELLED", JobState::ended, Outcome::reaped},
    {"FAILED", JobState::ended, std::nullopt},
    {"TIMEOUT", JobState::ended, Outcome::timeout},
    {"NODE_FAIL", JobState::ended, Outcome::node_failure},
    {"PREEMPTED", JobState::ended, Outcome::preempted},
    {"BOOT_FAIL", JobState::ended, Outcome::node_failure},
    {"DEADLINE", JobState::ended, Outcome::timeout},
    {"OUT_OF_MEMORY", JobState::ended, Outcome::oom},
    {"COMPLETING", JobState::running, std::nullopt},
    {"CONFIGURING", JobState::pending, std::nullopt},
    {"RESIZING", JobState::running, std::nullopt},
    {"REQUEUED", JobState::pending, std::nullopt},
    {"REQUEUE_HOLD", JobState::pending, std::nullopt},
    {"REQUEUE_FED", JobState::pending, std::nullopt},
    {"SPECIAL_EXIT", JobState::pending, std::nullopt},
    {"STOPPED", JobState::running, std::nullopt},
    {"SIGNALING", JobState::running, std::nullopt},
    {"STAGE_OUT", JobState::running, std::nullopt},
    {"REVOKED", JobState::unknown, std::nullopt},
    {"RESV_DEL_HOLD", JobState::pending, std::nullopt},
    {"POWER_UP_NODE", JobState::pending, std::nullopt},
    {"LAUNCH_FAILED", JobState::pending, std::nullopt},
    {"RECONFIG_FAIL", JobState::ended, Outcome::node_failure},
    {"UPDATE_DB", JobState::running, std::nullopt},
    {"EXPEDITING", JobState::pending, std::nullopt},
    {"NO_SHELL", JobState::unknown, std::nullopt},
    {"UNKNOWN", JobState::unknown, std::nullopt},
}};

/// "CANCELLED by 1000"
std::optional<std::int64_t> canceller(std::string_view state) {
  constexpr std::string_view by = " by ";
  const std::size_t at = state.find(by);
  if (at == std::string_view::npos) return std::nullopt;
  return number_from<std::int64_t>(state.substr(at + by.size()));
}

/// squeue prints the text with spaces, scontrol and REST with underscores.
bool same_reason(std::string_view reason, std::string_view known) {
  return std::equal(reason.begin(), reason.end(), known.begin(), known.end(),
      [](char a, char b) { return a == b || (a == '_' && b == ' '); });
}

struct ReasonRow {
  std::string_view reason;
  bool stuck;  ///< no time and no other job's end will start it
  std::string_view advice;
};

constexpr std::array<ReasonRow, 27> reasons{{
    {"Resources", false, "waits for nodes to become free: it is next"},
    {"Priority", false, "other jobs are in front of it"},
    {"Dependency", false, "waits for another job"},
    {"DependencyNeverSatisfied", true, "waits for a job that has failed"},
    {"BeginTime", false, "its begin time has not come"},
    {"launch failed requeued held", true, "the node's prolog failed, so Slurm holds the job"},
    {"JobHeldUser", false, "held: 'scontrol release' releases it"},
    {"JobHeldAdmin", false, "held by an administrator: ask them"},
    {"JobHoldMaxRequeue", true, "Slurm holds the job, because it was started too often"},
    {"BadConstraints", true, "no node fits its request: see the site file's constraint"},
    {"ReqNodeNotAvail", false, "a node that it needs is down, drained or reserved: see 'sinfo -R'"},
    {"NodeDown", false, "a node that it needs is down: see 'sinfo -R'"},
    {"PartitionDown", false, "the partition does not start jobs at the moment"},
    {"PartitionInactive", false, "the partition is switched off"},
    {"PartitionNodeLimit", false,
        "it asks for more (or fewer) nodes than the partition allows: use another partition"},
    {"PartitionTimeLimit", false,
        "it asks for more time than the partition allows: set lane.max_time or another partition"},
    {"Licenses", false, "waits for licenses"},
    {"Reservation", false, "waits for its reservation to begin"},
    {"InvalidAccount", true, "its account is not valid: see the site file's account"},
    {"InvalidQOS", true, "its QOS is not valid: see the site file's qos"},
    {"QOSMaxJobsPerUserLimit", false, "you have reached the QOS's limit of running jobs"},
    {"QOSMaxNodePerUserLimit", false, "you have reached the QOS's limit of nodes"},
    {"QOSGrpNodeLimit", false, "the QOS has reached its limit of nodes"},
    {"QOSMaxWallDurationPerJobLimit", false,
        "it asks for more time than the QOS allows: set lane.max_time"},
    {"AssocGrpGRESMinutes", false, "the account's GPU minutes are spent"},
    {"AssocMaxJobsLimit", false, "you have reached your account's limit of running jobs"},
    {"AssocGrpNodeLimit", false, "your account has reached its limit of nodes"},
}};

const ReasonRow* find_reason(std::string_view reason) {
  // "ReqNodeNotAvail, UnavailableNodes:n3", "ReqNodeNotAvail(Unavailable:…)"
  const std::string_view head = reason.substr(0, reason.find_first_of(",("));
  const auto* found = std::find_if(reasons.begin(), reasons.end(),
      [&](const ReasonRow& row) { return same_reason(head, row.reason); });
  return found == reasons.end() ? nullptr : found;
}

/// Exit code for Slurm's own failure to set a job up: it says nothing about the trials.
constexpr int cannot_open_output = 53;

}  // namespace

std::string queue_format() {
  constexpr char s = separator;
  return fmt::format("%i{0}%T{0}%r{0}%N{0}%j{0}", s);
}

std::string accounting_format() {
  return "JobID,State,Reason,NodeList,ExitCode,JobName";
}

Result<std::vector<Job>> parse_queue(std::string_view text) {
  std::vector<Job> jobs;
  for (const std::string_view row : rows_of(text, queue_columns)) {
    const auto part = split(row, separator);
    const bool whole = part.size() == queue_columns + 1 && part.back().empty();
    if (!whole || !is_job_id(part[0]) || !is_state(part[1])) {
      return garbage("squeue", row);
    }
    jobs.push_back({.id = std::string(part[0]),
        .name = allocation_name(part[4], part[0]),
        .state = std::string(part[1]),
        .reason = std::string(part[2]),
        .nodes = std::string(part[3]),
        .source = Source::queue});
  }
  return jobs;
}

Result<std::vector<Job>> parse_accounting(std::string_view text) {
  std::vector<Job> jobs;
  for (const std::string_view line : lines_of(text)) {
    const auto part = split(line, separator);
    if (part.size() != 6 || !is_job_id(part[0]) || !is_state(part[1])) {
      return garbage("sacct", line);
    }
    const auto code = split(part[4], ':');
    const auto exit_code = number_from<int>(code[0]);
    const auto signal = code.size() == 2 ? number_from<int>(code[1]) : std::nullopt;
    if (!exit_code || !signal) return garbage("sacct", line);
    // Elements that never started share a line.
    for (const std::string& id : element_ids(part[0])) {
      jobs.push_back({.id = id,
          .name = allocation_name(part[5], id),
          .state = std::string(part[1]),
          .reason = std::string(part[2]),
          .nodes = std::string(part[3]),
          .exit_code = *exit_code,
          .signal = *signal,
          .names_canceller = true,
          .source = Source::accounting});
    }
  }
  return jobs;
}

JobReading read_state(const Job& job, std::int64_t own_uid) {
  const std::string_view word = word_of(job.state);
  const auto* row = std::find_if(
      states.begin(), states.end(), [&](const StateRow& state) { return state.word == word; });
  if (row == states.end()) return {};
  JobReading reading{row->state, row->outcome, false, std::nullopt, false, Hold::nobody};
  if (word == "SUSPENDED" || word == "STOPPED") reading.hold = Hold::suspended;
  reading.unexplained = job.source == Source::queue && (word == "CANCELLED" || word == "FAILED");
  if (word == "CANCELLED") {
    reading.cancelled_by = canceller(job.state);
    if (reading.cancelled_by == own_uid) reading.outcome = Outcome::cancelled;
  }
  if (reading.state == JobState::pending) {
    if (job.reason == "JobHeldUser") reading.hold = Hold::user;
    const ReasonRow* reason = find_reason(job.reason);
    reading.stuck = (reason != nullptr && reason->stuck) || word == "REQUEUE_HOLD" ||
        word == "SPECIAL_EXIT" || word == "LAUNCH_FAILED";
  }
  return reading;
}

std::string describe(const Job& job, std::int64_t own_uid) {
  if (word_of(job.state) == "CANCELLED" && canceller(job.state) == own_uid)
    return "cancelled by you (scancel)";
  std::string text = job.state;
  // Accounting keeps why a job once waited, also when it has ended since.
  const bool reason = !job.reason.empty() && job.reason != "None" && job.source == Source::queue;
  if (reason) text += fmt::format(" ({})", job.reason);
  if (word_of(job.state) != "FAILED") return text;
  if (job.source == Source::accounting) {
    text += fmt::format(", exit code {}:{}", job.exit_code, job.signal);
  }
  const bool not_launched =
      job.reason == "JobLaunchFailure" || (job.exit_code == 0 && job.signal == cannot_open_output);
  if (not_launched) {
    text += ": Slurm could not write the job's output file or enter its folder on the node";
  }
  return text;
}

std::string explain_reason(std::string_view reason) {
  const ReasonRow* row = find_reason(reason);
  return row == nullptr ? "" : std::string(row->advice);
}

}  // namespace shardsweep::slurm
