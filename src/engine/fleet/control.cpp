// SPDX-License-Identifier: Apache-2.0
// Decision: A control is an attempt without a trial. Its figures are stored, so that a later
// daemon decides the same.
#include "fleet/control.hpp"

#include "attempt/node_verdict.hpp"
#include "fleet/allocation.hpp"
#include "fleet/nodes.hpp"
#include "fleet/trial_change.hpp"
#include "plan/grid.hpp"
#include "text/median.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

// Probes count down from -1, one for an allocation.
constexpr AttemptId first_control = -1'000'000'000'000;

const ControlRow* find(const World& world, AllocationId allocation, ControlTime time) {
  const auto found = std::find_if(world.controls().begin(), world.controls().end(),
      [&](const ControlRow& row) { return row.allocation == allocation && row.time == time; });
  return found == world.controls().end() ? nullptr : &*found;
}

/// A figure that a control measures.
struct Figure {
  std::string_view name;
  double ControlRow::*value;
  double ControlRow::*ratio;
};
constexpr std::array<Figure, 2> figures{
    {{"layout", &ControlRow::tokens_per_s_per_gpu, &ControlRow::ratio},
        {"network probe", &ControlRow::busbw_bytes_per_s, &ControlRow::network_ratio}}};

bool is_like(const ControlRow& one, const ControlRow& other, const Figure& figure) {
  return one.time != ControlTime::check && one.sweep == other.sweep && one.nodes == other.nodes &&
      one.*figure.value > 0;
}

std::vector<double> values_like(const World& world, const ControlRow& row, const Figure& figure) {
  std::vector<double> values;
  for (const ControlRow& one : world.controls()) {
    if (is_like(one, row, figure)) values.push_back(one.*figure.value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

/// Layouts differ by some percent, networks by several times.
bool is_beyond(const Figure& figure, double ratio, const Policy& policy) {
  if (figure.value == &ControlRow::tokens_per_s_per_gpu)
    return std::abs(ratio - 1) * 100 > static_cast<double>(policy.control_tolerance);
  return std::max(ratio, 1 / ratio) > policy.network_factor;
}

/// Number of allocations from whose figures this one deviates too far; none if it does not deviate,
/// or if too few are known.
std::optional<std::int64_t> off_among(
    const World& world, const Policy& policy, const ControlRow& row, const Figure& figure) {
  if (row.*figure.value <= 0 || !is_beyond(figure, row.*figure.ratio, policy)) return std::nullopt;
  const auto known = static_cast<std::int64_t>(values_like(world, row, figure).size());
  return known < policy.control_least ? std::nullopt : std::optional(known);
}

/// Recomputes the ratios of all controls like this one, because each control moves the median.
/// `fresh` is not in the world yet.
void put_ratios(World& world, ControlRow& fresh, const Figure& figure) {
  if (fresh.*figure.value <= 0) return;
  auto values = values_like(world, fresh, figure);
  values.insert(
      std::upper_bound(values.begin(), values.end(), fresh.*figure.value), fresh.*figure.value);
  const double usual = median_of(values, Even::mean);
  fresh.*figure.ratio = fresh.*figure.value / usual;
  for (const ControlRow& row : world.controls()) {
    const double ratio = row.*figure.value / usual;
    if (is_like(row, fresh, figure) && ratio != row.*figure.ratio)
      (*world.edit(row)).*figure.ratio = ratio;
  }
}

/// GPU time of all slots since the control's start; a daemon that has not seen the start counts
/// from the claim.
double gpu_seconds_of(const AllocationRow& allocation, ControlTime time, Timestamp now) {
  Timestamp since = allocation.control_since;
  if (since == 0 && time == ControlTime::start) since = allocation.claimed_at;
  if (since == 0) return 0;
  const double seconds = std::max(0.0, to_seconds(now - since));
  return seconds * allocation.nodes * allocation.slots_per_node;
}

/// Marks the attempt's measurement as doubtful, so that the trial is measured once more if it may
/// be tried again.
void doubt(Fold fold, const Policy& policy, const AttemptRow& attempt, const std::string& why) {
  const TrialRow* row = fold.world.trial(attempt.trial);
  if (row == nullptr || attempt.revoked) return;
  const bool stands = row->state == State::ended && row->outcome == Outcome::completed &&
      row->attempts == attempt.number;
  if (!stands) return;
  fold.world.record(MarkMeasurement{attempt.id});
  auto trial = fold.world.edit(*row);
  if (++trial->charged <= policy.retry_on_trial && !trial->hidden) plan_again(*trial);
  trial->cause = why;
}

void give_up(
    Fold fold, const Policy& policy, const AllocationRow& allocation, const std::string& why) {
  fold.world.edit(allocation)->draining = true;
  fold.world.record(AddEvent{.at = fold.now,
      .sweep = allocation.sweep,
      .allocation = allocation.id,
      .kind = EventKind::control_off,
      .detail = why});
  for (const AttemptId id : fold.world.attempts_of(allocation.id)) {
    const AttemptRow& attempt = fold.world.attempts().at(id);
    if (attempt.state == State::ended) doubt(fold, policy, attempt, why);
  }
  const auto* nodes = fold.world.nodes_of(allocation.id);
  if (nodes == nullptr) return;
  for (const std::string& node : *nodes)
    add_evidence(fold, node, {.at = fold.now, .kind = EvidenceKind::control, .detail = why});
}

Result<Point> layout_point(const SweepSpec& sweep, PartialPoint control, std::int32_t nodes) {
  SweepSpec alone = sweep;
  alone.axes.clear();
  alone.zips.clear();
  alone.measure.repeats = 1;
  control.settings.push_back(
      {find_axis("gpus"), false, {std::int64_t{nodes} * sweep.cluster.gpus_per_node}});
  alone.points = {std::move(control)};
  SHARDSWEEP_ASSIGN(const Grid grid, Grid::make(alone));
  GridPoint at;
  grid.read(0, at);
  const Layout& layout = at.point.layout;
  if (at.gap != Gap::none || layout.world() != at.point.gpus) {
    return fault(FaultKind::invalid_input,
        "the control's layout does not fit {} ranks and the global batch", at.point.gpus);
  }
  return at.point;
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

Result<Control> control_of(
    const SweepSpec& sweep, const std::optional<Point>& example, std::int32_t nodes) {
  const std::int32_t slots = sweep.cluster.gpus_per_node;
  const auto& layout = sweep.control.layout;
  Control control{sweep, {}};
  if (sweep.control.probes_network(nodes, slots)) {
    auto& args = control.sweep.runner.args;
    args.emplace_back("--network-probe");
    args.emplace_back(layout ? "first" : "alone");
  }
  if (layout) {
    SHARDSWEEP_ASSIGN(control.point, layout_point(sweep, *layout, nodes));
    return control;
  }
  if (!example)
    return fault(FaultKind::invalid_input, "the sweep has no trial with a model for the control");
  control.point = *example;
  control.point.nodes = nodes;
  control.point.gpus = nodes * slots;
  control.point.layout = {};
  control.point.layout.dp = control.point.gpus;
  return control;
}

std::optional<ControlTime> control_due(const World& world, const AllocationRow& allocation) {
  const bool dead = allocation.said_bye || allocation.job_state == JobState::ended ||
      allocation.state == State::ended;
  if (dead || !allocation.probe_of.empty() || !is_active(world, allocation.sweep))
    return std::nullopt;
  const ControlRow* const first = find(world, allocation.id, ControlTime::start);
  if (first == nullptr)
    return allocation.draining ? std::nullopt : std::optional(ControlTime::start);
  const bool last_is_due = allocation.draining && allocation.claimed_at != 0 && first->measured() &&
      find(world, allocation.id, ControlTime::end) == nullptr &&
      !holds_node_out(world, allocation.id);
  if (!last_is_due) return std::nullopt;
  if (!world.index().assigned_to(allocation.id).open.empty()) return std::nullopt;
  const auto& attempts = world.attempts_of(allocation.id);
  const bool any = std::any_of(attempts.begin(), attempts.end(),
      [&](AttemptId id) { return !world.attempts().at(id).revoked; });
  return any ? std::optional(ControlTime::end) : std::nullopt;
}

void take_control(Fold fold, const Policy& policy, const AllocationRow& allocation,
    ControlTime time, const ControlFigures& measured, const std::string& cause) {
  if (find(fold.world, allocation.id, time) != nullptr) return;
  ControlRow row{.allocation = allocation.id,
      .sweep = allocation.sweep,
      .nodes = allocation.nodes,
      .time = time,
      .tokens_per_s_per_gpu = measured.tokens_per_s_per_gpu,
      .busbw_bytes_per_s = measured.busbw_bytes_per_s,
      .gpu_seconds = gpu_seconds_of(allocation, time, fold.now),
      .cause = cause,
      .at = fold.now};
  for (const Figure& figure : figures)
    put_ratios(fold.world, row, figure);
  fold.world.add(row);
  fold.world.edit(allocation)->control_since = 0;
  for (const Figure& figure : figures) {
    const auto known = off_among(fold.world, policy, row, figure);
    if (!known) continue;
    const std::string why = fmt::format(
        "the control's {} at the {} reached {:.2f} of the median of {} allocations with as "
        "many nodes",
        figure.name, word_of(time), row.*figure.ratio, *known);
    return give_up(fold, policy, allocation, why);
  }
}

void take_checked(Fold fold, const AllocationRow& allocation, const Checked& checked) {
  const auto& known = fold.world.controls();
  const bool again = std::any_of(known.begin(), known.end(), [&](const ControlRow& row) {
    return row.allocation == allocation.id && row.node == checked.node;
  });
  if (again) return;
  const NodeFacts& facts = checked.facts;
  fold.world.add(ControlRow{.allocation = allocation.id,
      .sweep = allocation.sweep,
      .nodes = allocation.nodes,
      .time = ControlTime::check,
      .busbw_bytes_per_s = facts.busbw_bytes_per_s,
      .gpu_seconds = facts.seconds * allocation.slots_per_node,
      .cause = checked.detail,
      .at = fold.now,
      .node = checked.node,
      .device = facts.device,
      .gemm_flops = facts.gemm_flops,
      .sm_clock_mhz = facts.sm_clock_mhz,
      .host_free = facts.host_free,
      .gpu_used_bytes = facts.gpu_used_bytes,
      .seconds = facts.seconds,
      .unmade = sentences(facts.unmade),
      .blamed = checked.blamed});
}

bool has_bad_node(const World& world, AllocationId allocation) {
  // Two nodes suspected of a slow network count as bad, though it is not known which one is.
  const auto suspected = [&](const ControlRow& row) {
    const NodeRow* node = row.cause.empty() ? nullptr : world.node(row.node);
    return node != nullptr &&
        std::any_of(node->evidence.begin(), node->evidence.end(), [&](const NodeCharge& one) {
          return one.kind == EvidenceKind::slow_pair && one.detail == row.cause;
        });
  };
  return std::any_of(world.controls().begin(), world.controls().end(), [&](const auto& row) {
    return row.allocation == allocation && (row.blamed || suspected(row));
  });
}

std::map<std::string, double> usual_speeds(const World& world, double ControlRow::*value) {
  std::map<std::string, std::map<std::string, double>> last;  // last figures by device and node
  for (const ControlRow& row : world.controls()) {
    if (row.time == ControlTime::check && row.*value > 0) last[row.device][row.node] = row.*value;
  }
  std::map<std::string, double> usual;
  for (const auto& [device, nodes] : last) {
    std::vector<double> values;
    for (const auto& [node, one] : nodes)
      values.push_back(one);
    if (const double median = usual_of(std::move(values)); median > 0) usual[device] = median;
  }
  return usual;
}

bool control_is_off(const World& world, const Policy& policy, AllocationId allocation) {
  const auto& controls = world.controls();
  return std::any_of(controls.begin(), controls.end(), [&](const ControlRow& row) {
    return row.allocation == allocation &&
        std::any_of(figures.begin(), figures.end(), [&](const Figure& figure) {
          return off_among(world, policy, row, figure).has_value();
        });
  });
}

}  // namespace shardsweep
