// SPDX-License-Identifier: Apache-2.0
#include "daemon/leads.hpp"

#include "daemon/channels.hpp"
#include "fleet/control.hpp"
#include "fleet/silence.hpp"
#include "fleet/starts.hpp"
#include "text/characters.hpp"
#include "text/content_hash.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/log.hpp>
#include <shardsweep/removal.hpp>

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

/// True if an ending has to wait for the scheduler: the lead knows that it was told to stop, but
/// only the scheduler knows why.
bool needs_scheduler(const AllocationRow& allocation, const Ended& ended) {
  return allocation.backend != Backend::local && ended.ending.outcome == Outcome::preempted &&
      allocation.job_state != JobState::ended;
}

}  // namespace

void Leads::read(const AllocationRow& allocation) {
  const auto found = channels_.of(allocation);
  if (!found) return;
  Channel& channel = **found;
  const bool first = !allocation.heard_at;
  auto lines = channel.reader.look();
  channel.is_readable = lines.has_value();
  if (!lines) {
    log_warning(fmt::format("{}: {}", allocation.job_name, lines.error().what));
    return;
  }
  channel.unread.insert(channel.unread.end(), std::make_move_iterator(lines->begin()),
      std::make_move_iterator(lines->end()));
  if (!lines->empty()) fail_point("daemon.lines_read");
  read_set_aside(allocation, channel);
  while (!channel.unread.empty()) {
    const Line line = read_line(allocation, channel.unread.front());
    if (line == Line::waits) break;
    if (line == Line::set_aside) channel.set_aside.push_back(std::move(channel.unread.front()));
    channel.unread.pop_front();
  }
  // Beats are stored once per process: one pass per process (`tick`) must not hear them again.
  if (first && allocation.heard_at) world_.record_beats(allocation);
  // Lines that wait for the scheduler prove that the lead has spoken. And a lead that can't write
  // because storage fails is not silent.
  const Timestamp now = parts_.clock.now();
  if (channel.unread.empty() && !health_.storage_fails()) {
    judge_silence({world_, now}, sweeps_.policy_of(allocation.sweep), allocation);
  } else {
    world_.listen_anew(allocation, now);
  }
}

void Leads::read_set_aside(const AllocationRow& allocation, Channel& channel) {
  std::erase_if(channel.set_aside,
      [&](const std::string& text) { return read_line(allocation, text) == Line::folded; });
}

Leads::Line Leads::read_line(const AllocationRow& allocation, const std::string& text) {
  const auto line = decode_from_lead(text);
  if (!line) {
    log_warning(fmt::format("{}: {}", allocation.job_name, line.error().what));
    return Line::folded;
  }
  std::optional<RecordsSummary> records;
  if (const auto* ended = std::get_if<Ended>(&line->body)) {
    if (needs_scheduler(allocation, *ended)) return Line::waits;
    const auto attempt = world_.attempts().find(ended->attempt);
    if (const auto time = control_time(allocation, ended->attempt)) {
      records = records_.read(control_paths(parts_.home, allocation, *time),
          control_nonce(allocation, *time), !ended->pack.empty(), allocation.sweep);
      if (!records) return Line::waits;
    }
    if (attempt != world_.attempts().end() && attempt->second.state != State::ended) {
      records = records_.read(
          {attempt->second.dir}, attempt->second.nonce, !ended->pack.empty(), allocation.sweep);
      if (!records) return Line::set_aside;
      records_.judge(attempt->second, *records);
      fail_point("daemon.records_read");
    }
  }
  recent_.saw(allocation, *line);
  fold_line({world_, parts_.clock.now()}, sweeps_.policy_of(allocation.sweep), allocation.id, *line,
      records);
  if (const auto* revoked = std::get_if<Revoked>(&line->body)) remove_unused(revoked->attempt);
  if (const auto* ended = std::get_if<Ended>(&line->body)) judge_programs(allocation, *ended);
  return Line::folded;
}

/// Judges an attempt that found other programs than its sweep's. If the sweep file was submitted
/// again with these programs, the attempt was assigned before that, and runs again.
void Leads::judge_programs(const AllocationRow& allocation, const Ended& ended) {
  if (ended.ending.found_code.empty()) return;
  const SweepRow* sweep = world_.sweep(allocation.sweep);
  if (sweep == nullptr) return;
  const auto context = sweeps_.context_of(*sweep);
  if (context && hash_of_programs((*context)->spec.runner.programs) == ended.ending.found_code)
    return;
  const auto why =
      stop_for_programs({world_, parts_.clock.now()}, *sweep, one_line(ended.ending.cause, 600));
  if (!why.empty()) log_error(fmt::format("{} {}", sweep->name, why));
}

/// Removes files that were written for an attempt that never started.
void Leads::remove_unused(AttemptId id) {
  const auto attempt = world_.attempts().find(id);
  if (attempt == world_.attempts().end()) return;
  // Remains do no harm: `gc` and `delete` find them.
  (void)remove_tree(attempt->second.dir);
}

void Leads::send_away(const AllocationRow& allocation) {
  const auto channel = channels_.of(allocation);
  if (!channel || (*channel)->drained) return;
  if (const auto said = channels_.send(**channel, Drain{}); !said)
    return log_warning(fmt::format("{}: {}", allocation.job_name, said.error().what));
  (*channel)->drained = true;
}

/// Tells a lead to do nothing more, in case it wakes up late. If that can't be written, the folder
/// is gone, and with it all that a lead would read.
void Leads::dismiss(const AllocationRow& allocation, const std::vector<Orphan>& orphans) {
  const auto channel = channels_.of(allocation);
  if (!channel || (*channel)->drained) return;
  Result<void> said;
  for (const Orphan& orphan : orphans) {
    if (said) said = channels_.send(**channel, Revoke{orphan.attempt});
    // A lead whose batch host Slurm has given up lives on, on nodes that others get now.
    if (said) said = channels_.send(**channel, Cancel{orphan.attempt, "its allocation has ended"});
  }
  if (said) said = channels_.send(**channel, Drain{});
  if (!said) log_warning(fmt::format("{}: {}", allocation.job_name, said.error().what));
  (*channel)->drained = true;
}

}  // namespace shardsweep
