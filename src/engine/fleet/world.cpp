// SPDX-License-Identifier: Apache-2.0
#include "fleet/world.hpp"

#include <algorithm>
#include <cstdlib>

namespace shardsweep {
namespace {

constexpr std::size_t most_evidence = 100;  // kept in memory per node

template <class Rows, class Key>
auto find_row(const Rows& rows, const Key& key) -> const typename Rows::mapped_type* {
  const auto found = rows.find(key);
  return found == rows.end() ? nullptr : &found->second;
}

}  // namespace

void World::read(WorldRows rows) {
  // Keep what only this process has heard: no row holds it.
  for (auto& [id, row] : rows.allocations) {
    const AllocationRow* known = allocation(id);
    if (known == nullptr) continue;
    row.heard_at = known->heard_at;
    row.listened_since = known->listened_since;
  }
  rows_ = std::move(rows);
  stored_below_ = rows_.next_allocation;
  index_ = WorldIndex(rows_);
  versions_.clear();
  version_of_all_ = ++version_;
}

const WorldIndex& World::index() const {
  if (by_hand_) {
    WorldIndex fresh(rows_);
    // Readers may hold the present index: replace it only if it differs.
    if (!(fresh == index_)) index_ = std::move(fresh);
  }
  return index_;
}

std::uint64_t World::version_of(AllocationId id) const {
  const std::uint64_t* own = find_row(versions_, id);
  return own == nullptr ? version_of_all_ : std::max(*own, version_of_all_);
}

SweepId World::sweep_of(const AttemptRow& row) const {
  const TrialRow* own = trial(row.trial);
  return own == nullptr ? 0 : own->sweep;
}

void World::note(Change change) {
  changes_.push_back(std::move(change));
  ++version_;
}

void World::note_row(const SweepRow& row) {
  note_last(SetSweep{row});
  version_of_all_ = version_;
}
void World::note_row(const TrialRow& row) {
  index_.put(row);
  note_last(SetTrial{row});
  for (const AttemptId id : index_.attempts_at(row.id)) {
    const AttemptRow* attempt = find_row(rows_.attempts, id);
    if (attempt != nullptr) versions_[attempt->allocation] = version_;
  }
}
void World::note_row(const AttemptRow& row) {
  index_.put(row, trial(row.trial));
  note_last(PutAttempt{row});
  versions_[row.allocation] = version_;
}
void World::note_row(const AllocationRow& row) {
  index_.put(row);
  note_last(PutAllocation{row});
  versions_[row.id] = version_;
}
void World::note_row(const NodeRow& row) {
  note_last(SetNode{row});
  version_of_all_ = version_;
}
void World::note_row(const ControlRow& row) {
  note_last(PutControl{row});
  versions_[row.allocation] = version_;
}

const SweepRow* World::sweep(SweepId id) const {
  return find_row(rows_.sweeps, id);
}
const TrialRow* World::trial(TrialId id) const {
  return find_row(rows_.trials, id);
}
const AttemptRow* World::attempt(AttemptId id) const {
  return find_row(rows_.attempts, id);
}
const AllocationRow* World::allocation(AllocationId id) const {
  return find_row(rows_.allocations, id);
}
const NodeRow* World::node(const std::string& name) const {
  return find_row(rows_.nodes, name);
}
const std::vector<std::string>* World::nodes_of(AllocationId id) const {
  return find_row(rows_.nodes_of, id);
}

std::string World::lead_node(AllocationId id) const {
  const std::string* node = find_row(rows_.lead_nodes, id);
  return node == nullptr ? "" : *node;
}

const AllocationRow* World::allocation_of(const std::string& token) const {
  return allocation(index().allocation_of(token));
}

Edit<SweepRow> World::edit(const SweepRow& row) {
  return {*this, rows_.sweeps.at(row.id)};
}
Edit<TrialRow> World::edit(const TrialRow& row) {
  return {*this, rows_.trials.at(row.id)};
}
Edit<AttemptRow> World::edit(const AttemptRow& row) {
  return {*this, rows_.attempts.at(row.id)};
}
Edit<AllocationRow> World::edit(const AllocationRow& row) {
  return {*this, rows_.allocations.at(row.id)};
}
Edit<NodeRow> World::edit(const NodeRow& row) {
  return {*this, rows_.nodes.at(row.node)};
}
Edit<ControlRow> World::edit(const ControlRow& row) {
  const auto found =
      std::find_if(rows_.controls.begin(), rows_.controls.end(), [&](const ControlRow& one) {
        return one.allocation == row.allocation && one.time == row.time && one.node == row.node;
      });
  return {*this, *found};
}

const AttemptRow& World::add(AttemptRow row) {
  row.id = rows_.next_attempt++;
  INVARIANT(!rows_.attempts.contains(row.id), "no two attempts have one id", row.id, row.trial);
  const AttemptRow& added = rows_.attempts.emplace(row.id, std::move(row)).first->second;
  note_row(added);
  return added;
}

const AllocationRow& World::add(AllocationRow row) {
  INVARIANT(index().allocation_of(row.token) == 0, "no two allocations have one token", row.token,
      row.sweep);
  row.id = rows_.next_allocation++;
  INVARIANT(
      !rows_.allocations.contains(row.id), "no two allocations have one id", row.id, row.sweep);
  const AllocationRow& added = rows_.allocations.emplace(row.id, std::move(row)).first->second;
  note_row(added);
  return added;
}

const ControlRow& World::add(ControlRow row) {
  note_row(row);
  return rows_.controls.emplace_back(std::move(row));
}

const TrialRow& World::adopt(TrialRow row) {
  const TrialRow& adopted = rows_.trials.emplace(row.id, std::move(row)).first->second;
  index_.put(adopted);
  return adopted;
}

void World::see_node(SeenNode seen) {
  auto& nodes = rows_.nodes_of[seen.allocation];
  if (std::find(nodes.begin(), nodes.end(), seen.node) == nodes.end()) nodes.push_back(seen.node);
  if (seen.has_lead) rows_.lead_nodes[seen.allocation] = seen.node;
  const AllocationId allocation = seen.allocation;
  note(std::move(seen));
  versions_[allocation] = version_;
}

void World::forget_nodes(const AllocationRow& row) {
  rows_.nodes_of.erase(row.id);
  rows_.lead_nodes.erase(row.id);
  begun_on_.erase(row.id);
  silent_on_.erase(row.id);
}

void World::note_begun_on(const AllocationRow& row, const std::string& node) {
  if (!node.empty()) begun_on_[row.id] = node;
}

std::string World::begun_on(const AllocationRow& row) const {
  const auto found = begun_on_.find(row.id);
  return found == begun_on_.end() ? "" : found->second;
}

void World::note_silent_on(const AllocationRow& row, const std::string& node) {
  silent_on_[row.id] = node;
}

std::string World::silent_on(const AllocationRow& row) const {
  const auto found = silent_on_.find(row.id);
  return found == silent_on_.end() ? "" : found->second;
}

void World::charge(const std::string& node, NodeCharge charge) {
  NodeRow& row = rows_.nodes[node];
  row.node = node;
  if (row.evidence.size() >= most_evidence) row.evidence.erase(row.evidence.begin());
  row.evidence.push_back(charge);
  note(AddNodeEvidence{node, std::move(charge)});
}

std::size_t World::forget_evidence(const NodeRow& node, TrialId trial) {
  auto& evidence = rows_.nodes.at(node.node).evidence;
  const std::size_t removed = std::erase_if(
      evidence, [trial](const NodeCharge& one) { return trial == 0 || one.trial == trial; });
  if (removed > 0 || trial == 0) note(ForgetEvidence{node.node, trial});
  return removed;
}

void World::hear_beat(const AllocationRow& row, std::int64_t n, Timestamp at, Timestamp now) {
  AllocationRow& own = rows_.allocations.at(row.id);
  own.from_lead_n = n;
  own.last_beat = at;
  own.heard_at = now;
}

void World::listen_anew(const AllocationRow& row, Timestamp now) {
  rows_.allocations.at(row.id).listened_since = now;
}

void World::follow_clock(const ClockRow& clock) {
  constexpr Timestamp least_step = 1'000'000;  // some time passes between the readings of two
                                               // clocks
  const Timestamp step = clock.ahead - rows_.clock.ahead;
  const bool same_boot = clock.boot_id == rows_.clock.boot_id;
  if (same_boot && std::abs(step) < least_step) return;
  rows_.clock = clock;
  note(SetClock{clock});
  // The times are from another host, or from before this host's start: nobody knows how the clocks
  // differ.
  if (!same_boot) return;
  for (auto& [id, row] : rows_.allocations) {
    if (row.heard_at) *row.heard_at += step;
    auto waits = edit(row);
    for (Timestamp AllocationRow::*const since :
        {&AllocationRow::listened_since, &AllocationRow::quiet_since, &AllocationRow::running_since,
            &AllocationRow::missing_since, &AllocationRow::submit_after}) {
      if (row.*since != 0) row.*since += step;
    }
  }
}

std::vector<AllocationId> World::forget_ended() {
  std::vector<AllocationId> ended;
  for (const auto& [id, row] : rows_.allocations) {
    if (row.state == State::ended) ended.push_back(id);
  }
  if (ended.empty()) return ended;
  std::erase_if(rows_.attempts, [this](const auto& entry) {
    // A lane's length counts the ended ones too, while its allocation lives.
    const AllocationRow* row = allocation(entry.second.allocation);
    const bool over = row == nullptr || row->state == State::ended;
    if (!over || entry.second.state != State::ended) return false;
    index_.forget(entry.second);
    return true;
  });
  for (const AllocationId id : ended) {
    index_.forget(rows_.allocations.at(id));
    rows_.allocations.erase(id);
    versions_.erase(id);
  }
  return ended;
}

}  // namespace shardsweep
