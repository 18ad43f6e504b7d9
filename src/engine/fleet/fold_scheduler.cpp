// SPDX-License-Identifier: Apache-2.0
// The scheduler's answers folded into the world.
#include "fleet/allocation.hpp"
#include "fleet/finals.hpp"
#include "fleet/fold.hpp"
#include "fleet/nodes.hpp"
#include "slurm/words/submission.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

/// Clears what earlier looks have missed: the scheduler has answered since.
void clear_missing(AllocationRow& row) {
  row.missing = Missing::nothing;
  row.missing_since = 0;
}

struct SchedulerFolder {
  Fold fold;

  /// Allocation that an answer is about; null if its token is unknown.
  [[nodiscard]] const AllocationRow* of(const auto& event) const {
    return fold.world.allocation_of(event.token);
  }
  /// True if running attempts end with it, which count against the lead's node once.
  [[nodiscard]] bool will_blame_lead_node(const AllocationRow& row) const {
    const auto open = open_attempts(fold.world, row.id);
    return !fold.world.lead_node(row.id).empty() &&
        std::any_of(open.begin(), open.end(),
            [&](AttemptId id) { return fold.world.attempts().at(id).state == State::running; });
  }

  /// Slurm names the user who cancelled a job, and that is whoever runs the daemon.
  [[nodiscard]] std::string why_ended(
      const AllocationRow& row, const JobSeen& event, Timestamp ran_since) const {
    const bool waited_for = ran_since != 0 && row.claimed_at == 0 && !row.draining;
    if (!event.own_cancel || !waited_for) return event.detail;
    return fmt::format(
        "shardsweep cancelled the job: {:.0f} s after its start, shardsweep's agent had not begun "
        "to work there. If a node's prolog takes longer, raise daemon.claim_limit.",
        to_seconds(fold.now - ran_since));
  }

  void operator()(const SubmitAccepted& event) const {
    if (const auto* known = of(event)) {
      auto row = fold.world.edit(*known);
      row->submission = Submission::accepted;
      row->deferrals = 0;
      row->detail.clear();
      clear_missing(*row);
      // The answer may be late: then another job with this token has made the claim.
      if (row->claimed_at == 0 || row->job_id.empty()) row->job_id = event.job_id;
      row.done();
      add_event(fold,
          {.allocation = row->id,
              .kind = EventKind::submitted,
              .detail = fmt::format("{} as {}", row->job_name, event.job_id)});
    }
  }
  void operator()(const SubmitUnknown& event) const {
    if (const auto* known = of(event)) {
      auto row = fold.world.edit(*known);
      row->submission = Submission::unknown;
      row->detail = event.why;
      clear_missing(*row);
      row.done();
      add_event(fold,
          {.allocation = row->id, .kind = EventKind::submission_unknown, .detail = event.why});
    }
  }
  void operator()(const SubmitRefused& event) const {
    if (const auto* known = of(event)) {
      // A second submission was refused, but the first one exists.
      if (known->claimed_at != 0 || !known->job_id.empty()) return;
      auto row = fold.world.edit(*known);
      row->submission = Submission::refused;
      row->end_reason = event.why;
      row->job_state = JobState::ended;
      row.done();
      add_event(fold, {.allocation = row->id, .kind = EventKind::refused, .detail = event.why});
      if (!row->probe_of.empty() || !slurm::lacks_nodes(event.why)) return;
      // Excluded nodes may leave too few for the job.
      if (row->avoid.empty() || !nodes_out(fold.world).empty())
        return let_all_in(fold, "Slurm refused a job that excluded the node");
      end_finals_without_nodes(fold.world, *row, fold.now);
      fold.world.edit(*known)->draining = true;  // no start has failed
    }
  }
  void operator()(const SubmitDeferred& event) const {
    if (const auto* known = of(event)) {
      if (is_put_off_too_often(*known, event.passes))
        return (*this)(SubmitRefused{
            event.token, fmt::format("put off {} times: {}", known->deferrals, event.why)});
      auto row = fold.world.edit(*known);
      row->submit_after = put_off_until(*row, fold.now);
      ++row->deferrals;
      row->detail = event.why;
      clear_missing(*row);
      row.done();
      add_event(fold, {.allocation = row->id, .kind = EventKind::deferred, .detail = event.why});
    }
  }
  void operator()(const JobDuplicate& event) const {
    if (const auto* row = of(event)) {
      add_event(fold,
          {.allocation = row->id,
              .kind = EventKind::duplicate,
              .detail = fmt::format("job {} has the same token: cancelled", event.job_id)});
    }
  }
  void operator()(const JobSeen& event) const {
    const auto* known = of(event);
    if (known == nullptr) return;
    // End a lead on another machine by its own word or its silence: its process can't be seen.
    if (runs_elsewhere(*known, event.state) && (known->said_bye || known->end_outcome)) {
      JobSeen left = event;
      left.state = JobState::ended;
      return (*this)(left);
    }
    auto row = fold.world.edit(*known);
    // The scheduler was asked before the claim and answered after it, or answers about another job
    // with this token, which a lost answer of sbatch has left behind: neither is news of the job
    // that has started.
    const bool another = !row->job_id.empty() && row->job_id != event.job_id;
    if (event.state == JobState::pending && row->claimed_at != 0 && (!event.after_claim || another))
      return;
    if (event.state == JobState::ended && row->claimed_at == 0)
      fold.world.note_begun_on(*row, first_node(event.nodes));
    const std::string detail =
        event.advice.empty() ? event.detail : event.detail + ": " + event.advice;
    const bool unclaimed = is_unclaimed_elsewhere(*row, event.state);
    const bool first = unclaimed && (row->running_since == 0 || row->job_state != event.state);
    const bool news = first || row->job_state != event.state || row->job_id != event.job_id ||
        row->submission != Submission::accepted || row->detail != detail ||
        row->missing != Missing::nothing || row->hold != event.hold;
    if (!news) return;
    clear_missing(*row);
    const Timestamp ran_since = row->running_since;
    if (event.state != JobState::running && !unclaimed) {
      row->running_since = 0;
    } else if (first || row->running_since == 0) {
      row->running_since = fold.now;
    }
    if (row->submission != Submission::accepted) {
      add_event(fold,
          {.allocation = row->id,
              .kind = EventKind::adopted,
              .detail = fmt::format("found as {}", event.job_id)});
    }
    row->submission = Submission::accepted;
    row->job_id = event.job_id;
    row->job_state = event.state;
    row->detail = detail;
    row->hold = event.hold;
    if (event.state == JobState::ended) {
      // A lead says that it got a signal, Slurm why it sent one.
      const bool explains = event.outcome && !row->end_outcome;
      if (row->end_reason.empty() || explains) row->end_reason = why_ended(*row, event, ran_since);
      // A job with --no-kill ends so when its batch host is lost, which comes first.
      if (explains && event.outcome == Outcome::node_failure && !will_blame_lead_node(*row))
        add_evidence(fold, first_node(event.nodes),
            {.at = fold.now, .kind = EvidenceKind::lost, .detail = event.detail});
      if (!row->end_outcome) row->end_outcome = event.outcome;
      row->own_cancel = event.own_cancel;
    }
    // Slurm has put a started job back into the queue, against --no-requeue. It must not start
    // again.
    if (event.state == JobState::pending && event.after_claim && !row->end_outcome) {
      row->end_outcome = Outcome::preempted;
      row->end_reason = "put back into the queue: " + event.detail;
    }
  }
  void operator()(const JobMissed& event) const {
    const auto* known = of(event);
    if (known == nullptr || known->missing == event.what) return;
    auto row = fold.world.edit(*known);
    row->missing = event.what;
    row->missing_since = fold.now;
  }
  void operator()(const JobNotSeen& event) const {
    if (const auto* known = of(event)) {
      // The lead's own lines outrank a list without its job: the list may be stale or filtered,
      // and the job may have been renamed.
      if (is_heard(*known, fold.now)) return;
      auto row = fold.world.edit(*known);
      clear_missing(*row);
      // A missing job is no success: its files decide about its attempt (fold_gone). One that has
      // not started is submitted again (submit_again): a controller that dies forgets what it
      // accepted in its last seconds, and gives the id to another job.
      row->job_state = JobState::ended;
      if (row->claimed_at == 0) {
        row->submission = Submission::unknown;
        row->job_id.clear();
      }
      if (row->end_reason.empty()) row->end_reason = "its job no longer exists";
    }
  }
  void operator()(const SiteSeen&) const {}  // concerns the site, not the world
  void operator()(const LookFailed& event) const {
    add_event(fold, {.kind = EventKind::look_failed, .detail = event.why});
  }
};

}  // namespace

void submit_again(Fold fold, const AllocationRow& allocation) {
  {
    auto row = fold.world.edit(allocation);
    row->submission = Submission::committed;
    row->job_state = JobState::unknown;
    row->end_reason.clear();
    ++row->resubmissions;
  }
  add_event(fold,
      {.allocation = allocation.id,
          .kind = EventKind::submitted_again,
          .detail = "no job with its token exists"});
}

void fold_scheduler(Fold fold, const SchedulerEvent& event) {
  std::visit(SchedulerFolder{fold}, event);
}

}  // namespace shardsweep
