// SPDX-License-Identifier: Apache-2.0
// A world built by hand, to fold into and to decide over: no file, no process, no clock.
#pragma once

#include "fleet/decide.hpp"
#include "fleet/fold.hpp"

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shardsweep::testing {

/// To be changed directly from now on.
inline WorldRows& open_rows(World& world) {
  world.by_hand_ = true;
  return world.rows_;
}

inline constexpr Timestamp noon = 1'000'000'000;
inline constexpr Timestamp second = 1'000'000;

struct Case {
  World world;
  WorldRows& rows = open_rows(world);  // by hand, without a change
  DecideInput input;
  Policy policy;
  int drawn = 0;

  Case() {
    rows.sweeps[1] = {.id = 1, .name = "s", .backend = Backend::local, .resolved = "-"};
    input.sweeps[1] = {.policy = {}, .slots_per_node = 4, .backend = Backend::local};
    input.now = noon;
    input.random_hex = [this](int digits) {
      std::string text = std::to_string(++drawn);
      text.insert(0, static_cast<std::size_t>(digits) - text.size(), '0');
      return text;
    };
    input.allocation_dir = [](const std::string& token) { return "/a/" + token; };
    input.attempt_dir = [](const TrialRow& trial, const AttemptRow& attempt) {
      return "/t/" + trial.slug + "." + std::to_string(attempt.number);
    };
  }

  TrialRow& trial(TrialId id, int micro_batch, const std::string& lane = "lane") {
    TrialRow row{.id = id, .sweep = 1, .slug = "t" + std::to_string(id), .lane = lane};
    row.micro_batch = micro_batch;
    row.position = id;
    row.predicted_s = 10;
    return rows.trials[id] = row;
  }
  void decide() { shardsweep::decide(world, input); }
  Fold fold() { return {world, noon}; }
  AllocationRow& allocation() { return rows.allocations.begin()->second; }
  AttemptRow& attempt(AttemptId id) { return rows.attempts.at(id); }

  void line(FromLeadBody body, const std::optional<RecordsSummary>& records = std::nullopt) {
    fold_line(fold(), policy, allocation().id,
        {allocation().from_lead_n + 1, noon, std::move(body)}, records);
  }
  /// Of the attempt that was changed last.
  [[nodiscard]] std::string last_cause() const {
    std::string cause;
    for (const Change& change : world.changes()) {
      if (const auto* put = std::get_if<PutAttempt>(&change))
        cause = put->row.ending.value_or(Ending{}).cause;
    }
    return cause;
  }
  void end(AttemptId id, Outcome outcome, bool with_result = false) {
    RecordsSummary records;
    if (with_result) records.result = AddMeasurement{};
    line(Ended{.attempt = id, .ending = {.outcome = outcome, .cause = "because"}}, records);
  }
};

}  // namespace shardsweep::testing
