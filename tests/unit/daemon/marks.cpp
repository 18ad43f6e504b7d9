// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/marks.hpp"

#include "fleet/allocation.hpp"
#include "slurm/words/array.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace shardsweep::testing {
namespace {

// In the order of the variants.
constexpr std::array<std::string_view, 17> change_words{"SetSweep", "SetTrial", "PutAttempt",
    "PutAllocation", "AddMeasurement", "AddEvent", "SeenNode", "AddNodeEvidence", "ForgetEvidence",
    "SetNode", "EndProbe", "PutControl", "MarkMeasurement", "SetClock", "ServedRequest",
    "AddKnowledge", "ForgetKnowledge"};
static_assert(change_words.size() == std::variant_size_v<Change>);
constexpr std::array<std::string_view, 10> answer_words{"SubmitAccepted", "SubmitUnknown",
    "SubmitRefused", "SubmitDeferred", "JobSeen", "JobDuplicate", "JobNotSeen", "JobMissed",
    "LookFailed", "SiteSeen"};
static_assert(answer_words.size() == std::variant_size_v<SchedulerEvent>);
constexpr std::array<std::string_view, 4> order_words{"Assign", "Revoke", "Cancel", "Drain"};
static_assert(order_words.size() == std::variant_size_v<ToLeadBody>);
constexpr std::array<std::string_view, 9> news_words{
    "Claimed", "Beat", "Started", "Ended", "Revoked", "NodeSeen", "FoundOnNode", "Checked", "Bye"};
static_assert(news_words.size() == std::variant_size_v<FromLeadBody>);

/// What fleet/decide, finals, nodes, control, starts and fold can decide.
constexpr std::array<std::string_view, 28> decision_words{
    "allocation",
    "allocation of an array",
    "allocation for finals on other nodes",
    "probe of a node",
    "assign",
    "assign in finals",
    "assign beside",
    "assign against the best",
    "skip after oom",
    "spare",
    "reopen",
    "end by budget",
    "hold the sweep",
    "pause the sweep",
    "drain",
    "put off",
    "submit again",
    "retry charged to the trial",
    "retry charged elsewhere",
    "retry with growing segments",
    "count",
    "count in place of an older one",
    "keep uncounted",
    "exclude a node",
    "let a node back in",
    "call a lead silent",
    "first control",
    "last control",
};

template <class Words>
void add_kinds(std::vector<Marks::Kind>& all, std::string_view group, const Words& words) {
  for (const std::string_view word : words)
    if (!word.empty()) all.push_back({group, word});
}

}  // namespace

void Marks::add(const Marks& other) {
  for (const auto& [kind, count] : other.counts_)
    counts_[kind] += count;
}

std::vector<Marks::Kind> Marks::kinds() {
  std::vector<Kind> all;
  add_kinds(all, "decision", decision_words);
  add_kinds(all, "change", change_words);
  add_kinds(all, "event", word_table<EventKind>);
  add_kinds(all, "scheduler", answer_words);
  add_kinds(all, "to lead", order_words);
  add_kinds(all, "from lead", news_words);
  add_kinds(all, "allocation", word_table<Stage>);
  add_kinds(all, "allocation's end", word_table<Outcome>);
  add_kinds(all, "attempt's outcome", word_table<Outcome>);
  add_kinds(all, "trial's outcome", word_table<Outcome>);
  add_kinds(all, "cancelled by", word_table<CancelledBy>);
  add_kinds(all, "sweep", word_table<SweepState>);
  add_kinds(all, "node", word_table<NodeState>);
  add_kinds(all, "submission", word_table<Submission>);
  add_kinds(all, "missing", word_table<Missing>);
  add_kinds(all, "hold", word_table<Hold>);
  return all;
}

std::int64_t Marks::count(const Kind& kind) const {
  const auto found = counts_.find({kind.group, kind.word});
  return found == counts_.end() ? 0 : found->second;
}

std::string Marks::text() const {
  std::string text;
  std::string_view group;
  for (const Kind& kind : kinds()) {
    text += kind.group == group ? "," : fmt::format("\n{}:", kind.group);
    group = kind.group;
    text += fmt::format(" {} {}", kind.word, count(kind));
  }
  return text;
}

void MarkWatch::committed(std::span<const Change> changes) {
  for (const Change& change : changes) {
    marks_.add("change", change_words.at(change.index()));
    std::visit([this](const auto& one) { see(one); }, change);
  }
}

void MarkWatch::answered(const SchedulerEvent& event) {
  marks_.add("scheduler", answer_words.at(event.index()));
}

void MarkWatch::heard(const ToLead& line) {
  marks_.add("to lead", order_words.at(line.body.index()));
}

void MarkWatch::said(const FromLeadBody& line) {
  marks_.add("from lead", news_words.at(line.index()));
}

void MarkWatch::see(const SetSweep& change) {
  marks_.add("sweep", word_of(change.row.state));
  if (!change.row.held.empty()) decided("hold the sweep");
}

void MarkWatch::see(const SetTrial& change) {
  const TrialRow& row = change.row;
  const auto [known, fresh] = trials_.try_emplace(row.id, row);
  const TrialRow before = fresh ? TrialRow{} : known->second;
  known->second = row;
  if (row.outcome) marks_.add("trial's outcome", name(*row.outcome));
  if (!word_of(row.cancelled_by).empty()) marks_.add("cancelled by", word_of(row.cancelled_by));
  if (row.cancelled_by == CancelledBy::budget) decided("end by budget");
  if (row.state != State::planned) return;
  if (row.charged > before.charged) decided("retry charged to the trial");
  if (row.elsewhere > before.elsewhere) decided("retry charged elsewhere");
  if (row.expandable && !before.expandable) decided("retry with growing segments");
}

void MarkWatch::see(const PutAttempt& change) {
  const AttemptRow& row = change.row;
  const auto [known, fresh] = attempts_.try_emplace(row.id, row);
  const AttemptRow before = std::exchange(known->second, row);
  if (row.outcome()) marks_.add("attempt's outcome", name(*row.outcome()));
  if (fresh) {
    const auto trial = trials_.find(row.trial);
    const bool known_trial = trial != trials_.end();
    const bool in_finals = known_trial && trial->second.final_of != 0;
    const bool beside = known_trial && trial->second.side != SideRun::none;
    decided(beside ? "assign beside" : in_finals ? "assign in finals" : "assign");
    if (row.leader != 0) decided("assign against the best");
    return;
  }
  if (row.outcome() == Outcome::completed && !before.outcome())
    decided(row.counted ? "count" : "keep uncounted");
  if (before.counted && !row.counted) decided("count in place of an older one");
}

void MarkWatch::decided_over(const AllocationRow& row, const AllocationRow* before) {
  if (before == nullptr) {
    decided(!row.probe_of.empty()          ? "probe of a node"
            : row.final_set > 1            ? "allocation for finals on other nodes"
            : slurm::element_in(row.token) ? "allocation of an array"
                                           : "allocation");
    return;
  }
  if (row.draining && !before->draining) decided("drain");
  if (row.submit_after != 0 && before->submit_after == 0) decided("put off");
  if (row.resubmissions > before->resubmissions) decided("submit again");
  if (row.quiet_since != 0 && before->quiet_since == 0) decided("call a lead silent");
}

void MarkWatch::see(const PutAllocation& change) {
  const AllocationRow& row = change.row;
  const auto known = allocations_.find(row.id);
  decided_over(row, known == allocations_.end() ? nullptr : &known->second);
  allocations_[row.id] = row;
  marks_.add("allocation", word_of(stage_of(row)));
  marks_.add("submission", word_of(row.submission));
  if (row.missing != Missing::nothing) marks_.add("missing", word_of(row.missing));
  if (row.hold != Hold::nobody) marks_.add("hold", word_of(row.hold));
  if (row.state == State::ended && row.end_outcome)
    marks_.add("allocation's end", name(*row.end_outcome));
}

void MarkWatch::see(const AddEvent& change) {
  marks_.add("event", word_of(change.kind));
  switch (change.kind) {
    case EventKind::skipped:
      if (change.attempt == 0) decided("skip after oom");
      return;
    case EventKind::spared:
      return decided("spare");
    case EventKind::reopened:
      return decided("reopen");
    case EventKind::paused:
      return decided("pause the sweep");
    default:
      return;
  }
}

void MarkWatch::see(const SetNode& change) {
  marks_.add("node", word_of(change.row.state));
  if (change.row.state == NodeState::quarantined) decided("exclude a node");
  if (change.row.state == NodeState::trusted) decided("let a node back in");
}

void MarkWatch::see(const PutControl& change) {
  decided(change.row.time == ControlTime::start ? "first control" : "last control");
}

}  // namespace shardsweep::testing
