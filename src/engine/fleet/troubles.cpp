// SPDX-License-Identifier: Apache-2.0
#include "fleet/troubles.hpp"

#include "fleet/allocation.hpp"

#include <algorithm>
#include <iterator>

namespace shardsweep {
namespace {

bool is_of_rows(TroubleKind kind) {
  return kind == TroubleKind::unanswered || kind == TroubleKind::deferred ||
      kind == TroubleKind::unclaimed || kind == TroubleKind::silent ||
      kind == TroubleKind::submitting;
}

/// A job that waits in the queue has no trouble; ended allocations have none any more.
std::optional<TroubleKind> trouble_of(const AllocationRow& row) {
  if (row.state == State::ended) return std::nullopt;
  if (row.quiet_since != 0) return TroubleKind::silent;
  if (row.draining || row.claimed_at != 0) return std::nullopt;
  const bool runs =
      row.job_state == JobState::running || is_unclaimed_elsewhere(row, row.job_state);
  if (runs && row.running_since != 0) return TroubleKind::unclaimed;
  if (row.submission == Submission::unknown) return TroubleKind::unanswered;
  if (row.submission != Submission::committed) return std::nullopt;
  return row.deferrals > 0 ? TroubleKind::deferred : TroubleKind::submitting;
}

Timestamp since_of(const AllocationRow& row, TroubleKind kind) {
  if (kind == TroubleKind::silent) return row.quiet_since;
  return kind == TroubleKind::unclaimed ? row.running_since : row.created_at;
}

/// A paused sweep says its own reason.
bool is_active(const World& world, const std::string& sweep) {
  return std::any_of(world.sweeps().begin(), world.sweeps().end(), [&](const auto& entry) {
    return entry.second.name == sweep && entry.second.state == SweepState::active;
  });
}

}  // namespace

TroubleKind trouble_of(StorageProblem problem) {
  switch (problem) {
    case StorageProblem::full:
      return TroubleKind::disk_full;
    case StorageProblem::read_only:
      return TroubleKind::read_only;
    case StorageProblem::denied:
      return TroubleKind::no_permission;
    case StorageProblem::gone:
      return TroubleKind::folder_gone;
    case StorageProblem::broken:
      break;
  }
  return TroubleKind::disk_error;
}

bool is_storage(TroubleKind kind) {
  return kind <= TroubleKind::disk_error;
}

Trouble* Troubles::find(TroubleKind kind, const std::string& where) {
  const auto found = std::find_if(all_.begin(), all_.end(),
      [&](const Trouble& one) { return one.kind == kind && one.where == where; });
  return found == all_.end() ? nullptr : &*found;
}

void Troubles::raise(
    TroubleKind kind, const std::string& where, const std::string& detail, Timestamp now) {
  Trouble* known = find(kind, where);
  if (known == nullptr) known = &all_.emplace_back(Trouble{kind, where, "", now, 0, 0});
  known->detail = detail;
  ++known->times;
}

void Troubles::clear(TroubleKind kind, const std::string& where) {
  std::erase_if(all_, [&](const Trouble& one) { return one.kind == kind && one.where == where; });
}

void Troubles::set_storage(
    const std::string& where, const std::optional<StorageFault>& fault, Timestamp now) {
  std::erase_if(all_, [&](const Trouble& one) {
    const bool still = fault && one.kind == trouble_of(fault->problem);
    return is_storage(one.kind) && one.where == where && !still;
  });
  if (fault && find(trouble_of(fault->problem), where) == nullptr)
    raise(trouble_of(fault->problem), where, fault->detail, now);
}

void Troubles::set_unreadable(
    const std::string& sweep, std::int32_t attempts, Timestamp since, const std::string& why) {
  clear(TroubleKind::unreadable, sweep);
  if (attempts > 0) all_.push_back({TroubleKind::unreadable, sweep, why, since, attempts, 0});
}

void Troubles::set_of_sweeps(TroubleKind kind, const World& world,
    const std::map<std::string, std::string>& why, Timestamp now) {
  std::erase_if(all_, [&](const Trouble& one) {
    return one.kind == kind && (!why.contains(one.where) || !is_active(world, one.where));
  });
  for (const auto& [sweep, words] : why) {
    if (is_active(world, sweep) && find(kind, sweep) == nullptr) raise(kind, sweep, words, now);
  }
}

void Troubles::set_submissions(const World& world) {
  std::erase_if(all_, [&](const Trouble& one) {
    return is_of_rows(one.kind) ||
        (one.kind == TroubleKind::refused && !is_active(world, one.where));
  });
  for (Trouble& one : submission_troubles(world))
    all_.push_back(std::move(one));
}

std::vector<Trouble> Troubles::shown(Timestamp now) const {
  const auto transient_us = [](TroubleKind kind) -> Timestamp {
    if (kind == TroubleKind::scheduler || kind == TroubleKind::unreadable) return 3'000'000;
    if (kind == TroubleKind::silent) return 20'000'000;  // a daemon that has just come
    if (kind == TroubleKind::submitting) return 30'000'000;
    return kind == TroubleKind::unclaimed ? 60'000'000 : 0;
  };
  std::vector<Trouble> shown;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(shown), [&](const Trouble& one) {
    const Timestamp least = transient_us(one.kind);
    return least == 0 || now - one.since >= least;
  });
  return shown;
}

bool Troubles::storage_fails() const {
  return std::any_of(
      all_.begin(), all_.end(), [](const Trouble& one) { return is_storage(one.kind); });
}

std::vector<Trouble> submission_troubles(const World& world) {
  std::vector<Trouble> all;
  for (const auto& [id, row] : world.allocations()) {
    const auto kind = trouble_of(row);
    const SweepRow* sweep = world.sweep(row.sweep);
    if (!kind || sweep == nullptr) continue;
    auto known = std::find_if(all.begin(), all.end(),
        [&](const Trouble& one) { return one.kind == *kind && one.where == sweep->name; });
    if (known == all.end())
      known = all.insert(all.end(), Trouble{*kind, sweep->name, "", since_of(row, *kind), 0, 0});
    known->since = std::min(known->since, since_of(row, *kind));
    known->times = std::max(known->times, row.deferrals);
    ++known->jobs;
    if (!row.detail.empty()) known->detail = row.detail;
  }
  return all;
}

}  // namespace shardsweep
