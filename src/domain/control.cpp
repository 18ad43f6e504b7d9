// SPDX-License-Identifier: Apache-2.0
#include "domain/control.hpp"

#include "domain/grid.hpp"
#include "domain/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

// Probes count down from -1, one for an allocation.
constexpr AttemptId first_control = -1'000'000'000'000;

const ControlRow* find(const World& world, AllocationId allocation, ControlTime time) {
  const auto found = std::find_if(
      world.controls.begin(), world.controls.end(),
      [&](const ControlRow& row) { return row.allocation == allocation && row.time == time; });
  return found == world.controls.end() ? nullptr : &*found;
}

bool is_active(const World& world, SweepId id) {
  return std::any_of(world.sweeps.begin(), world.sweeps.end(), [id](const SweepRow& sweep) {
    return sweep.id == id && sweep.state == SweepState::active;
  });
}

bool is_like(const ControlRow& one, const ControlRow& other) {
  return one.sweep == other.sweep && one.nodes == other.nodes && one.tokens_per_s > 0;
}

std::vector<double> rates_like(const World& world, const ControlRow& row) {
  std::vector<double> rates;
  for (const ControlRow& one : world.controls) {
    if (is_like(one, row)) rates.push_back(one.tokens_per_s);
  }
  std::sort(rates.begin(), rates.end());
  return rates;
}

double median(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

bool is_beyond(double ratio, const Policy& policy) {
  return std::abs(ratio - 1) * 100 > static_cast<double>(policy.control_tolerance);
}

/// Each control moves the median, and by it the ratio of all others.
void put_ratios(Fold fold, const ControlRow& fresh) {
  const auto rates = rates_like(fold.world, fresh);
  if (rates.empty()) return;
  const double usual = median(rates);
  for (ControlRow& row : fold.world.controls) {
    if (!is_like(row, fresh)) continue;
    const double ratio = row.tokens_per_s / usual;
    const bool is_fresh = row.allocation == fresh.allocation && row.time == fresh.time;
    if (ratio == row.ratio && !is_fresh) continue;
    row.ratio = ratio;
    if (!is_fresh) fold.changes.emplace_back(PutControl{row});
  }
}

/// Marked, and measured once more while its trial may be tried again.
void doubt(Fold fold, const Policy& policy, const AttemptRow& attempt, const std::string& why) {
  const auto found = fold.world.trials.find(attempt.trial);
  if (found == fold.world.trials.end() || attempt.revoked) return;
  TrialRow& trial = found->second;
  const bool stands = trial.state == State::ended && trial.outcome == Outcome::completed &&
                      trial.attempts == attempt.number;
  if (!stands) return;
  fold.changes.emplace_back(MarkMeasurement{attempt.id});
  if (++trial.charged <= policy.retry_on_trial && !trial.hidden) {
    trial.state = State::planned;
    trial.outcome.reset();
  }
  fold.changes.emplace_back(SetTrial{.id = trial.id,
                                     .state = trial.state,
                                     .outcome = trial.outcome,
                                     .cause = why,
                                     .charged = trial.charged,
                                     .elsewhere = trial.elsewhere,
                                     .attempts = trial.attempts});
}

void give_up(Fold fold, const Policy& policy, AllocationRow& allocation,
             const std::string& why) {
  allocation.draining = true;
  fold.changes.emplace_back(PutAllocation{.row = allocation});
  fold.changes.emplace_back(AddEvent{.at = fold.now,
                                     .sweep = allocation.sweep,
                                     .allocation = allocation.id,
                                     .kind = "control off",
                                     .detail = why});
  for (const auto& [id, attempt] : fold.world.attempts) {
    if (attempt.allocation == allocation.id && attempt.state == State::ended)
      doubt(fold, policy, attempt, why);
  }
  const auto nodes = fold.world.nodes_of.find(allocation.id);
  if (nodes == fold.world.nodes_of.end()) return;
  for (const std::string& node : std::vector<std::string>(nodes->second))
    add_evidence(fold, node, {.at = fold.now, .kind = "control", .detail = why});
}

}  // namespace

AttemptId control_attempt(const AllocationRow& allocation, ControlTime time) {
  return first_control - 2 * allocation.id - static_cast<AttemptId>(time);
}

std::optional<ControlTime> control_time(const AllocationRow& allocation, AttemptId attempt) {
  for (const ControlTime time : {ControlTime::start, ControlTime::end}) {
    if (attempt == control_attempt(allocation, time)) return time;
  }
  return std::nullopt;
}

Result<Point> control_point(const SweepSpec& sweep, std::int32_t nodes) {
  SweepSpec alone = sweep;
  alone.axes.clear();
  alone.zips.clear();
  alone.measure.repeats = 1;
  PartialPoint control = sweep.control.value_or(PartialPoint{});
  control.settings.push_back(
      {find_axis("gpus"), false, {std::int64_t{nodes} * sweep.cluster.gpus_per_node}});
  alone.points = {std::move(control)};
  SHARDSWEEP_ASSIGN(const Grid grid, Grid::make(alone));
  GridPoint at;
  grid.read(0, at);
  const Layout& layout = at.point.layout;
  if (at.gap != Gap::none || layout.world() != at.point.gpus) {
    return fault(FaultKind::invalid_input,
                 fmt::format("the control's layout does not fit {} ranks and the global batch",
                             at.point.gpus));
  }
  return at.point;
}

std::optional<ControlTime> control_due(const World& world, const AllocationRow& allocation) {
  const bool dead = allocation.said_bye || allocation.job_state == JobState::ended ||
                    allocation.state == State::ended;
  if (dead || !allocation.probe_of.empty() || !is_active(world, allocation.sweep))
    return std::nullopt;
  const ControlRow* const first = find(world, allocation.id, ControlTime::start);
  if (first == nullptr)
    return allocation.draining ? std::nullopt : std::optional(ControlTime::start);
  const bool last_is_due = allocation.draining && allocation.claimed_at != 0 &&
                           first->tokens_per_s > 0 &&
                           find(world, allocation.id, ControlTime::end) == nullptr &&
                           !holds_node_out(world, allocation.id);
  if (!last_is_due) return std::nullopt;
  bool any = false;
  for (const auto& [id, attempt] : world.attempts) {
    if (attempt.allocation != allocation.id) continue;
    if (attempt.state != State::ended) return std::nullopt;
    any = any || !attempt.revoked;
  }
  return any ? std::optional(ControlTime::end) : std::nullopt;
}

void take_control(Fold fold, const Policy& policy, AllocationRow& allocation, ControlTime time,
                  double tokens_per_s, const std::string& cause) {
  if (find(fold.world, allocation.id, time) != nullptr) return;
  ControlRow row{.allocation = allocation.id,
                 .sweep = allocation.sweep,
                 .nodes = allocation.nodes,
                 .time = time,
                 .tokens_per_s = tokens_per_s,
                 .ratio = 0,
                 .cause = cause,
                 .at = fold.now};
  fold.world.controls.push_back(row);
  if (tokens_per_s > 0) put_ratios(fold, row);
  row = *find(fold.world, allocation.id, time);
  fold.changes.emplace_back(PutControl{row});
  const auto known = static_cast<std::int64_t>(rates_like(fold.world, row).size());
  if (tokens_per_s <= 0 || known < policy.control_least || !is_beyond(row.ratio, policy))
    return;
  give_up(
      fold, policy, allocation,
      fmt::format("the control at the {} ran at {:.2f} of the median of {} on as many nodes",
                  control_time_words.at(static_cast<std::size_t>(time)), row.ratio, known));
}

bool control_is_off(const World& world, const Policy& policy, AllocationId allocation) {
  return std::any_of(world.controls.begin(), world.controls.end(), [&](const ControlRow& row) {
    const bool judged =
        row.allocation == allocation && row.tokens_per_s > 0 && is_beyond(row.ratio, policy);
    return judged &&
           static_cast<std::int64_t>(rates_like(world, row).size()) >= policy.control_least;
  });
}

}  // namespace shardsweep
