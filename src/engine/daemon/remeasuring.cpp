// SPDX-License-Identifier: Apache-2.0
// Decision: A time that has begun is one row's business: its number, its programs, and whether
// it goes on. The runs are stored first, under names that hold number and round, so that a
// daemon that died in between makes the same ones again and stores none twice.
#include "daemon/remeasuring.hpp"

#include "attempt/container.hpp"
#include "fleet/finals.hpp"
#include "fleet/remeasure.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

/// Most sweeps have no 'remeasure': their files are not read for it.
bool asks(const SweepRow& sweep) {
  constexpr std::string_view key = "\nremeasure:";
  return sweep.resolved.find(key) != std::string::npos;
}

}  // namespace

void Remeasuring::plan() {
  for (const auto& [id, sweep] : world_.sweeps()) {
    const bool ours = sweep.state == SweepState::active && sweep.backend != Backend::outside &&
        sweep.backend != Backend::imported && !sweeps_.is_apart(id);
    const bool over = ours && !world_.index().is_open(id);
    if (!over || !asks(sweep)) {
      if (over && sweep.remeasure_at != 0) world_.edit(sweep)->remeasure_at = 0;
      sweeps_.note_watched(id, "");
      continue;
    }
    const auto done = in_work_of(id, [&, row = &sweep] { return plan(*row); });
    if (!done) log_error(done.error().what);
  }
}

void Remeasuring::put_off(const SweepRow& sweep, const Remeasure& asked) {
  world_.edit(sweep)->remeasure_at = parts_.clock.now() + to_microseconds(asked.every_s);
}

Result<bool> Remeasuring::begin(const SweepRow& sweep, const SweepContext& context) {
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
  const double budget_h = context.spec.policy.max_gpu_hours;
  if (budget_h > 0) {
    SHARDSWEEP_ASSIGN(const double used_s, parts_.store.gpu_seconds(sweep.id));
    if (used_s >= budget_h * hour_s) return false;
  }
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

Result<std::string> Remeasuring::watched_now(
    const SweepRow& sweep, const SweepContext& context, const std::string& was) {
  auto is = read_watched(context, was);
  sweeps_.note_watched(sweep.id, is ? "" : is.error().what);
  return is;
}

Result<std::string> Remeasuring::read_watched(
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
        fmt::format("{}, which 'remeasure: {{on: image}}' watches, is neither a SIF nor "
                    "a squashfs",
            image));
  return digest;
}

Result<void> Remeasuring::plan(const SweepRow& sweep) {
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
  for (NewFinal& one : due)
    one.longer = context->spec.measure.finals_longer();
  if (!due.empty()) return add(now, due);
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

Result<void> Remeasuring::add(const SweepRow& sweep, const std::vector<NewFinal>& due) {
  SHARDSWEEP_ASSIGN(auto trials, parts_.store.add_finals(sweep.id, due));
  for (TrialRow& trial : trials) {
    if (trial.state != State::ended && world_.trial(trial.id) == nullptr)
      world_.adopt(std::move(trial));
  }
  return {};
}

}  // namespace shardsweep
