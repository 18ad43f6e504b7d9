// SPDX-License-Identifier: Apache-2.0
// What commands do to sweeps and trials. Two tables say it for every verb: one by the stage of
// a sweep, one by the stage of a trial. The daemon applies what they say and decides nothing.
#pragma once

#include <shardsweep/requests.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/store.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Action of a request. `cancel` means a whole sweep, `cancel_trials` some of its trials.
enum class Action : std::uint8_t {
  pause,
  resume,
  resume_cancelled,  ///< resume that also plans trials again which were cancelled by name
  cancel,
  cancel_trials,
  rerun,
  remove,
};
inline constexpr std::array<std::string_view, 7> action_words{
    "pause", "resume", "resume", "cancel", "cancel", "rerun", "delete"};

/// `done`: active, and every trial has ended.
enum class SweepStage : std::uint8_t { active, paused, done, cancelled, imported };
/// `open`: planned, queued or running. `settled`: has an outcome that no infrastructure caused.
/// `interrupted`: a node, the scheduler or the end of its sweep took it. `dropped`: cancelled
/// by name.
enum class TrialStage : std::uint8_t { open, settled, interrupted, dropped };

enum class SweepEffect : std::uint8_t { unchanged, activate, pause, cancel, remove, refuse };
/// `end`: cancelled, or back to the outcome that it had before it was run again.
enum class TrialEffect : std::uint8_t { unchanged, plan, end, refuse };

struct SweepRule {
  SweepEffect effect = SweepEffect::unchanged;
  std::string_view note{};  ///< a sentence about the sweep, {} is its name; empty: none
};

[[nodiscard]] SweepRule sweep_rule(Action action, SweepStage stage);
[[nodiscard]] TrialEffect trial_rule(Action action, TrialStage stage);

/// `open`: trials of the sweep that have not ended and that its file still has.
[[nodiscard]] SweepStage stage_of(const SweepRow& sweep, bool open);
[[nodiscard]] TrialStage stage_of(const TrialRow& trial);

/// A request without a scope changes nothing: a blank --where, --where without a name or --all.
[[nodiscard]] Result<void> check_scope(const Request& request);

/// Expression that selects the request's trials; empty for a pause, which concerns whole sweeps.
[[nodiscard]] std::string trials_meant(const Request& request);

/// Effect of a request on a sweep.
struct SweepStep {
  SweepId id = 0;
  SweepEffect effect = SweepEffect::unchanged;
};
/// Effect of a request on a trial; a trial that stays unchanged has no step.
struct TrialStep {
  TrialRow trial;
  TrialEffect effect = TrialEffect::unchanged;
  CancelledBy cancelled_by = CancelledBy::nobody;
};
struct Steps {
  Action action = Action::pause;
  std::vector<SweepStep> sweeps;
  std::vector<TrialStep> trials;
  std::map<std::string, std::int64_t> counts;  ///< counts for the answer
  std::string text;                            ///< text for the user, one fact per line

  [[nodiscard]] bool empty() const { return sweeps.empty() && trials.empty(); }
};

/// Decides a request.
[[nodiscard]] Result<Steps> steps_of(const Request& request, const VerbScope& meant);

}  // namespace shardsweep
