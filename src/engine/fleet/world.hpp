// SPDX-License-Identifier: Apache-2.0
// What the daemon believes. Rows are read by everybody and changed through World alone: each
// way of changing one also records it for the next commit, so that memory and database say the
// same.
//
// Decision: `version()` says what a consumer has not seen yet. `WorldIndex` answers what each
// pass asks of 10^5 trials; a test compares it with a scan. An `Edit` is checked as it ends, by
// a destructor that may throw: the stack is then that of its author. An edit that is unwound
// records nothing. Waits are stored by the wall clock, and a row says how far that is ahead of
// the steady one: a step of the wall clock moves every wait along, also for a later daemon on
// that host. No lead is given up by its own clock.
#pragma once

#include "fleet/row_rules.hpp"
#include "fleet/world_index.hpp"

#include <shardsweep/change.hpp>
#include <shardsweep/invariant.hpp>

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shardsweep {

class World;

/// A row that is being changed. Where it differs when the edit ends, it is held to its rules
/// and recorded; an edit that an exception ends records nothing.
template <class Row>
class Edit {
 public:
  Edit(World& world, Row& row) : world_(world), row_(row), before_(row) {}
  Edit(const Edit&) = delete;
  Edit& operator=(const Edit&) = delete;
  ~Edit() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) done();
  }

  [[nodiscard]] Row* operator->() { return &row_; }
  [[nodiscard]] Row& operator*() { return row_; }
  /// Records what has changed so far, before the edit ends.
  void done();

 private:
  World& world_;
  Row& row_;
  Row before_;
  int exceptions_ = std::uncaught_exceptions();
};

namespace testing {
WorldRows& open_rows(World& world);
}

class World {
 public:
  World() = default;
  explicit World(WorldRows rows) : rows_(std::move(rows)), index_(rows_) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// Takes newly read rows; uncommitted changes stay to be committed.
  void read(WorldRows rows);

  [[nodiscard]] const std::map<SweepId, SweepRow>& sweeps() const { return rows_.sweeps; }
  [[nodiscard]] const std::map<TrialId, TrialRow>& trials() const { return rows_.trials; }
  [[nodiscard]] const std::map<AttemptId, AttemptRow>& attempts() const { return rows_.attempts; }
  [[nodiscard]] const std::map<AllocationId, AllocationRow>& allocations() const {
    return rows_.allocations;
  }
  [[nodiscard]] const std::map<std::string, NodeRow>& nodes() const { return rows_.nodes; }
  [[nodiscard]] const std::vector<ControlRow>& controls() const { return rows_.controls; }
  [[nodiscard]] const ClockRow& clock() const { return rows_.clock; }
  // Each returns null if there is no such row.
  [[nodiscard]] const SweepRow* sweep(SweepId id) const;
  [[nodiscard]] const TrialRow* trial(TrialId id) const;
  [[nodiscard]] const AttemptRow* attempt(AttemptId id) const;
  [[nodiscard]] const AllocationRow* allocation(AllocationId id) const;
  [[nodiscard]] const AllocationRow* allocation_of(const std::string& token) const;
  [[nodiscard]] const NodeRow* node(const std::string& name) const;
  /// Answers that would otherwise take a scan of all trials or attempts.
  [[nodiscard]] const WorldIndex& index() const;
  /// Attempts of an allocation, ended ones too, the oldest first.
  [[nodiscard]] const std::vector<AttemptId>& attempts_of(AllocationId id) const {
    return index().assigned_to(id).all;
  }
  /// Names of the allocation's nodes, as its agents reported them; null: no agent has reported yet.
  [[nodiscard]] const std::vector<std::string>* nodes_of(AllocationId id) const;

  /// Node of the allocation's lead; empty: the lead has not reported it.
  [[nodiscard]] std::string lead_node(AllocationId id) const;

  // Rows of this world; references to them stay valid.
  [[nodiscard]] Edit<SweepRow> edit(const SweepRow& row);
  [[nodiscard]] Edit<TrialRow> edit(const TrialRow& row);
  [[nodiscard]] Edit<AttemptRow> edit(const AttemptRow& row);
  [[nodiscard]] Edit<AllocationRow> edit(const AllocationRow& row);
  [[nodiscard]] Edit<NodeRow> edit(const NodeRow& row);
  [[nodiscard]] Edit<ControlRow> edit(const ControlRow& row);

  /// New rows get the next id.
  const AttemptRow& add(AttemptRow row);
  const AllocationRow& add(AllocationRow row);
  const ControlRow& add(ControlRow row);
  /// Takes in a trial that the database has and this world had not. It is recorded as no change.
  const TrialRow& adopt(TrialRow row);

  /// An agent of the allocation has named its node.
  void see_node(SeenNode seen);
  /// Forgets the nodes of an ended allocation: others may have them.
  void forget_nodes(const AllocationRow& row);
  /// Notes the node on which a job began whose lead has not spoken. It is not stored: the scheduler
  /// repeats it until the allocation is over.
  void note_begun_on(const AllocationRow& row, const std::string& node);
  /// Node noted by note_begun_on(); empty: unknown.
  [[nodiscard]] std::string begun_on(const AllocationRow& row) const;
  /// Notes the node that fell silent and so ended a job, as its lead reported. The node is not
  /// stored: an event names it, and a process that has not read the line does not know
  /// the node.
  void note_silent_on(const AllocationRow& row, const std::string& node);
  /// Node noted by note_silent_on(); empty: unknown.
  [[nodiscard]] std::string silent_on(const AllocationRow& row) const;
  /// Adds evidence against a node; a new node gets its row.
  void charge(const std::string& node, NodeCharge charge);
  /// Forgets evidence of a trial against the node (`trial` 0: all evidence). Returns how many
  /// pieces were forgotten.
  std::size_t forget_evidence(const NodeRow& node, TrialId trial);

  void record(AddEvent event) { note(std::move(event)); }
  void record(AddMeasurement measurement) { note(std::move(measurement)); }
  void record(MarkMeasurement mark) { note(mark); }
  void record(EndProbe end) { note(std::move(end)); }
  void record(ServedRequest served) { note(std::move(served)); }
  void record(AddKnowledge knowledge) { note(std::move(knowledge)); }
  void record(ForgetKnowledge knowledge) { note(std::move(knowledge)); }

  /// Takes a beat, a line of the lead with nothing but its time. It is kept in memory until the row
  /// changes.
  void hear_beat(const AllocationRow& row, std::int64_t n, Timestamp at, Timestamp now);
  /// Counts the lead's silence from now on, because only now it can speak and this process listens.
  void listen_anew(const AllocationRow& row, Timestamp now);
  /// Takes the daemon's clocks. If the wall clock was set, deadlines move with it: nothing has
  /// become older.
  void follow_clock(const ClockRow& clock);
  /// Marks the beats of hear_beat(), which are only in memory, as worth a write.
  void record_beats(const AllocationRow& row) { note_row(row); }

  /// Uncommitted changes, in the order in which they happened.
  [[nodiscard]] const std::vector<Change>& changes() const { return changes_; }
  /// Takes the changes, which are now committed.
  [[nodiscard]] std::vector<Change> take_changes() {
    stored_below_ = rows_.next_allocation;
    return std::exchange(changes_, {});
  }
  /// True if the database has the allocation's row, whatever its state.
  [[nodiscard]] bool is_stored(AllocationId id) const { return id < stored_below_; }
  /// Version of the world. It grows with every recorded change, and when everything is read again.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  /// version() when something last changed that the orders to this allocation depend on: its
  /// row, its attempts and controls, their trials, any sweep or node.
  [[nodiscard]] std::uint64_t version_of(AllocationId id) const;

  /// Drops ended attempts and allocations from memory. Returns the ids of the allocations.
  std::vector<AllocationId> forget_ended();

 private:
  template <class Row>
  friend class Edit;
  friend WorldRows& testing::open_rows(World& world);
  [[nodiscard]] static SweepId sweep_of(const SweepRow& row) { return row.id; }
  [[nodiscard]] SweepId sweep_of(const AttemptRow& row) const;
  [[nodiscard]] static SweepId sweep_of(const NodeRow&) { return 0; }
  /// Sweep of a trial, allocation or control.
  template <class Row>
  [[nodiscard]] static SweepId sweep_of(const Row& row) {
    return row.sweep;
  }
  void note(Change change);
  void note_row(const SweepRow& row);
  void note_row(const TrialRow& row);
  void note_row(const AttemptRow& row);
  void note_row(const AllocationRow& row);
  void note_row(const NodeRow& row);
  void note_row(const ControlRow& row);
  /// Adds a change of a row. It replaces the last change if that is of the same row.
  template <class RowChange>
  void note_last(RowChange change);

  WorldRows rows_;
  mutable WorldIndex index_;
  bool by_hand_ = false;  ///< a test changes rows directly: each question indexes them anew
  std::vector<Change> changes_;
  std::map<AllocationId, std::string> begun_on_;
  std::map<AllocationId, std::string> silent_on_;
  AllocationId stored_below_ = 1;
  std::uint64_t version_ = 1;
  std::map<AllocationId, std::uint64_t> versions_;
  std::uint64_t version_of_all_ = 1;  ///< version of the last change that concerns every allocation
};

template <class RowChange>
void World::note_last(RowChange change) {
  auto* last = changes_.empty() ? nullptr : std::get_if<RowChange>(&changes_.back());
  if (last != nullptr && is_same_row(last->row, change.row)) changes_.pop_back();
  note(std::move(change));
}

template <class Row>
void Edit<Row>::done() {
  if (is_stored_alike(before_, row_)) return;
  in_work_of(world_.sweep_of(row_), [this] { check_change(before_, row_); });
  world_.note_row(row_);
  before_ = row_;
}

}  // namespace shardsweep
