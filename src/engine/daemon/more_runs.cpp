// SPDX-License-Identifier: Apache-2.0
// Decision: The trials of a round are stored before the end that has led to them is committed:
// no reader and no crash finds a sweep ended that goes on.
//
// Decision: A time that has begun is one row's business: its number, its programs, and whether
// it goes on. The runs are stored first, under names that hold number and round, so that a
// daemon that died in between makes the same ones again and stores none twice.
#include "daemon/more_runs.hpp"

#include "attempt/container.hpp"
#include "fleet/finals.hpp"
#include "fleet/remeasure.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

/// True if the sweep gets more runs when its cells have ended.
bool runs_more(const SweepSpec& spec) {
  return spec.measure.finalists > 0 || spec.side_runs.any();
}

/// Most sweeps have no 'remeasure': their files are not read for it.
bool asks(const SweepRow& sweep) {
  constexpr std::string_view key = "\nremeasure:";
  return sweep.resolved.find(key) != std::string::npos;
}

}  // namespace

Result<bool> MoreRuns::has_budget(SweepId sweep, const Policy& policy) const {
  if (policy.max_gpu_hours <= 0) return true;
  SHARDSWEEP_ASSIGN(const double used_s, parts_.store.gpu_seconds(sweep));
  return used_s < policy.max_gpu_hours * hour_s;
}

Result<void> MoreRuns::add(
    const SweepRow& sweep, const Measure& measure, std::vector<NewFinal> due) {
  if (due.empty()) return {};
  for (NewFinal& one : due)
    one.longer = measure.finals_longer();
  SHARDSWEEP_ASSIGN(auto trials, parts_.store.add_finals(sweep.id, due));
  fail_point("daemon.final_round");
  for (TrialRow& trial : trials) {
    if (trial.state == State::ended || world_.trial(trial.id) != nullptr) continue;
    const TrialRow& adopted = world_.adopt(std::move(trial));
    if (adopted.final_set > 1 && adopted.final_avoid.empty())
      end_final(world_, adopted, parts_.clock.now(),
          "The nodes of these finals' earlier runs are unknown, so other nodes can't be chosen.");
  }
  return {};
}

void MoreRuns::plan_behind_cells() {
  due_.merge(just_ended(world_.changes()));
  if (std::exchange(all_, false)) see_all();
  for (auto one = due_.begin(); one != due_.end();) {
    const SweepRow* sweep = world_.sweep(one->first);
    const bool none = sweep == nullptr || sweeps_.is_apart(sweep->id);
    const auto done = none ? Result<void>()
                           : in_work_of(sweep->id, [&] { return plan_cells(*sweep, one->second); });
    if (!done) log_error(done.error().what);
    // Cells whose query failed stay due.
    const bool again = !done && worth_retrying(done.error().kind);
    one = again ? std::next(one) : due_.erase(one);
  }
}

void MoreRuns::see_all() {
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.state == SweepState::cancelled || sweeps_.is_apart(id)) continue;
    const auto context = sweeps_.context_of(sweep);
    if (!context || !runs_more((*context)->spec)) continue;
    const auto counts = parts_.store.node_counts(id);
    if (!counts) {
      all_ = true;
      continue;
    }
    for (const std::int32_t nodes : *counts)
      due_.emplace(id, nodes);
  }
}

/// Keeps runs that confirm a result away from nodes that have measured it already.
Result<void> MoreRuns::keep_apart(
    const std::vector<FinalsRow>& rows, std::vector<NewFinal>& due) const {
  const std::int32_t set = due.front().set;
  if (set < 2) return {};
  SHARDSWEEP_ASSIGN(const auto nodes, parts_.store.nodes_of(allocations_before(rows, set)));
  const auto avoid = fmt::format("{}", fmt::join(nodes, ","));
  for (NewFinal& one : due)
    one.avoid = avoid;
  return {};
}

Result<void> MoreRuns::plan_cells(const SweepRow& sweep, std::int32_t nodes) {
  // Trials measured outside share no allocation, so their runs are no pairs.
  if (sweep.state == SweepState::cancelled || sweep.backend == Backend::outside) return {};
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(sweep));
  const SweepSpec& spec = context->spec;
  if (!runs_more(spec) || is_searching(world_, sweep.id, nodes)) return {};
  SHARDSWEEP_ASSIGN(const bool affordable, has_budget(sweep.id, spec.policy));
  if (!affordable) return {};
  SHARDSWEEP_ASSIGN(auto rows, parts_.store.finals_rows(sweep.id, nodes));
  hear_changes(rows, world_.changes());
  Measure measure = spec.measure;
  if (sweep.backend == Backend::local) measure.node_sets = 1;  // this machine is the only one
  std::vector<NewFinal> due;
  if (measure.finalists > 0) due = due_finals(rows, measure);
  if (!due.empty()) SHARDSWEEP_TRY(keep_apart(rows, due));
  for (NewFinal& one : due)
    one.sets = spec.measure.node_sets;
  if (due.empty()) due = due_side_runs(rows, measure, spec.side_runs);
  return add(sweep, spec.measure, std::move(due));
}

void MoreRuns::plan_again() {
  for (const auto& [id, sweep] : world_.sweeps()) {
    const bool ours = sweep.state == SweepState::active && sweep.backend != Backend::outside &&
        sweep.backend != Backend::imported && !sweeps_.is_apart(id);
    const bool over = ours && !world_.index().is_open(id);
    if (!over || !asks(sweep)) {
      if (over && sweep.remeasure_at != 0) world_.edit(sweep)->remeasure_at = 0;
      sweeps_.note_watched(id, "");
      continue;
    }
    const auto done = in_work_of(id, [&, row = &sweep] { return plan_again(*row); });
    if (!done) log_error(done.error().what);
  }
}

void MoreRuns::put_off(const SweepRow& sweep, const Remeasure& asked) {
  world_.edit(sweep)->remeasure_at = parts_.clock.now() + to_microseconds(asked.every_s);
}

Result<bool> MoreRuns::begin(const SweepRow& sweep, const SweepContext& context) {
  const Remeasure& asked = context.spec.remeasure;
  const Timestamp now = parts_.clock.now();
  const Timestamp latest = now + to_microseconds(asked.every_s);
  std::string was = sweep.remeasured_was;
  if (sweep.remeasure_at == 0 || sweep.remeasure_at > latest) {
    put_off(sweep, asked);
    // A snapshot is the sweep's own. Its image is the one that lies there when it has ended.
    if (asked.on != RemeasureOn::image || !was.empty()) return false;
    SHARDSWEEP_ASSIGN(world_.edit(sweep)->remeasured_was, watched_now(sweep, context, was));
    return false;
  }
  if (now < sweep.remeasure_at) return false;
  put_off(sweep, asked);
  SHARDSWEEP_ASSIGN(const bool affordable, has_budget(sweep.id, context.spec.policy));
  if (!affordable) return false;
  if (asked.on == RemeasureOn::runner && was.empty()) was = context.spec.runner.snapshot_hash;
  SHARDSWEEP_ASSIGN(std::string is, watched_now(sweep, context, was));
  if (was.empty()) was = is;
  if (asked.on != RemeasureOn::time && is == was) {
    world_.edit(sweep)->remeasured_was = std::move(was);
    return false;
  }
  auto row = world_.edit(sweep);
  row->remeasuring = true;
  row->remeasured_was = std::move(was);
  row->remeasured_is = std::move(is);
  return true;
}

Result<std::string> MoreRuns::watched_now(
    const SweepRow& sweep, const SweepContext& context, const std::string& was) {
  auto is = read_watched(context, was);
  sweeps_.note_watched(sweep.id, is ? "" : is.error().what);
  return is;
}

Result<std::string> MoreRuns::read_watched(
    const SweepContext& context, const std::string& was) const {
  switch (context.spec.remeasure.on) {
    case RemeasureOn::time:
      return was;
    case RemeasureOn::runner:
      return parts_.take_tree ? parts_.take_tree(context.submitted, was) : was;
    case RemeasureOn::image:
      break;
  }
  const std::string& image = context.spec.container.image;
  SHARDSWEEP_ASSIGN(const auto beginning, read_beginning(image, image_header_bytes));
  auto digest = digest_in_file(beginning);
  if (digest.empty())
    return fault(FaultKind::corrupt,
        "{}, which 'remeasure: {{on: image}}' watches, is neither a SIF nor "
        "a squashfs",
        image);
  return digest;
}

Result<void> MoreRuns::plan_again(const SweepRow& sweep) {
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(sweep));
  if (!context->spec.remeasure.wanted()) return {};
  if (!sweep.remeasuring) {
    SHARDSWEEP_ASSIGN(const bool begun, begin(sweep, *context));
    if (!begun) return {};
  }
  const SweepRow& now = *world_.sweep(sweep.id);
  const Measure& measure = context->spec.measure;
  RemeasureInput input{.asked = context->spec.remeasure,
      .finals = {measure.final_rounds, measure.resolve,
          now.backend == Backend::local ? 1 : measure.node_sets},
      .number = now.remeasured + 1,
      .was = now.remeasured_was,
      .is = now.remeasured_is};
  SHARDSWEEP_ASSIGN(input.slower, parts_.store.slower_layouts(now.id));
  SHARDSWEEP_ASSIGN(const auto counts, parts_.store.node_counts(now.id));
  std::vector<NewFinal> due;
  std::vector<RemeasureVerdict> found;
  for (const std::int32_t nodes : counts) {
    SHARDSWEEP_ASSIGN(auto rows, parts_.store.finals_rows(now.id, nodes));
    hear_changes(rows, world_.changes());
    auto plan = plan_remeasure(rows, input);
    due.insert(due.end(), plan.due.begin(), plan.due.end());
    std::move(plan.found.begin(), plan.found.end(), std::back_inserter(found));
  }
  if (!due.empty()) return add(now, measure, std::move(due));
  for (const RemeasureVerdict& one : found)
    world_.record(AddEvent{.at = parts_.clock.now(),
        .sweep = now.id,
        .trial = one.of,
        .kind = one.kind,
        .detail = one.text});
  auto row = world_.edit(now);
  row->remeasuring = false;
  row->remeasured += 1;
  row->remeasured_was = row->remeasured_is;
  return {};
}

}  // namespace shardsweep
