// SPDX-License-Identifier: Apache-2.0
// State (where a thing is) and outcome (how it ended): one table says for every outcome which
// exit code of the runner means it, whether it is final and whether it is tried again.
// The names are stored in databases: never renamed, never reordered.
#pragma once

#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardsweep {

enum class State : std::uint8_t { planned, queued, running, ended };
SHARDSWEEP_WORDS(State, "planned", "queued", "running", "ended");

enum class Outcome : std::uint8_t {
  completed,
  oom,
  hung,
  timeout,
  node_failure,
  comm_error,
  preempted,
  crashed,
  reaped,
  cancelled,
  rejected,
  lost,
  skipped,
};

/// Budget that a retry is charged to.
enum class Retry : std::uint8_t {
  never,      ///< the outcome is the answer
  on_trial,   ///< tried again; counts against the trial's budget
  elsewhere,  ///< infrastructure's fault: tried again without counting, within a bound
};

struct OutcomeInfo {
  Outcome outcome;
  std::string_view name;  ///< stored name
  bool final_verdict;     ///< true: a verdict on the layout; false: undecided (exit code 3)
  Retry retry;
  char mark;                 ///< mark in a heatmap cell
  std::string_view meaning;  ///< one sentence for help texts and legends
};

inline constexpr std::array<OutcomeInfo, 13> outcome_table{{
    {Outcome::completed, "completed", true, Retry::never, ' ',
        "measured: a result record is durable"},
    {Outcome::oom, "oom", true, Retry::never, 'M', "ran out of memory"},
    {Outcome::hung, "hung", false, Retry::on_trial, 'H', "made no progress within its limit"},
    {Outcome::timeout, "timeout", false, Retry::on_trial, 'T',
        "the allocation's or the attempt's time was up"},
    {Outcome::node_failure, "node_failure", false, Retry::elsewhere, 'N',
        "a node or its agent was lost"},
    {Outcome::comm_error, "comm_error", false, Retry::on_trial, 'C',
        "communication between the ranks failed"},
    {Outcome::preempted, "preempted", false, Retry::elsewhere, 'P',
        "the scheduler took the nodes back"},
    {Outcome::crashed, "crashed", true, Retry::on_trial, 'X', "the runner failed by itself"},
    {Outcome::reaped, "reaped", false, Retry::elsewhere, 'R',
        "somebody else cancelled the allocation"},
    {Outcome::cancelled, "cancelled", false, Retry::never, '-', "cancelled on request"},
    {Outcome::rejected, "rejected", true, Retry::never, '!',
        "refused before it trained: a layout or option, or a file is missing"},
    {Outcome::lost, "lost", false, Retry::elsewhere, '?', "vanished without a word"},
    {Outcome::skipped, "skipped", true, Retry::never, 's',
        "left out by a rule: a smaller micro-batch ran out of memory"},
}};

template <>
inline constexpr auto word_table<Outcome> = [] {
  std::array<std::string_view, outcome_table.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = outcome_table[i].name;
  return names;
}();

enum class RunnerExit : std::uint8_t {
  ok = 0,
  usage = 2,
  invalid_layout = 10,
  oom = 11,
  comm_error = 12,
  timeout = 13,
  peer_lost = 14,
  nan = 15,
  internal = 16,
};

struct RunnerExitInfo {
  RunnerExit code;
  std::string_view error_class;    ///< `class` of the runner's error record
  std::optional<Outcome> outcome;  ///< empty for peer_lost: the first cause elsewhere decides
};

inline constexpr std::array<RunnerExitInfo, 9> runner_exit_table{{
    {RunnerExit::ok, "ok", Outcome::completed},
    {RunnerExit::usage, "usage", Outcome::rejected},
    {RunnerExit::invalid_layout, "invalid_layout", Outcome::rejected},
    {RunnerExit::oom, "oom", Outcome::oom},
    {RunnerExit::comm_error, "comm_error", Outcome::comm_error},
    {RunnerExit::timeout, "timeout", Outcome::hung},
    {RunnerExit::peer_lost, "peer_lost", std::nullopt},
    {RunnerExit::nan, "nan", Outcome::crashed},
    {RunnerExit::internal, "internal", Outcome::crashed},
}};

[[nodiscard]] constexpr const OutcomeInfo& info(Outcome outcome) {
  return outcome_table[static_cast<std::size_t>(outcome)];
}
[[nodiscard]] constexpr std::string_view name(Outcome outcome) {
  return info(outcome).name;
}

[[nodiscard]] constexpr std::string_view name(State state) {
  return word_of(state);
}

[[nodiscard]] constexpr std::optional<Outcome> outcome_from(std::string_view text) {
  for (const auto& row : outcome_table) {
    if (row.name == text) return row.outcome;
  }
  return std::nullopt;
}

[[nodiscard]] constexpr std::optional<State> state_from(std::string_view text) {
  return from_word<State>(text);
}

[[nodiscard]] constexpr std::optional<RunnerExitInfo> runner_exit(int code) {
  for (const auto& row : runner_exit_table) {
    if (static_cast<int>(row.code) == code) return row;
  }
  return std::nullopt;
}

[[nodiscard]] constexpr std::optional<RunnerExitInfo> runner_exit_class(std::string_view text) {
  for (const auto& row : runner_exit_table) {
    if (row.error_class == text) return row;
  }
  return std::nullopt;
}

}  // namespace shardsweep
