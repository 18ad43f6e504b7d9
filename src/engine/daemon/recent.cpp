// SPDX-License-Identifier: Apache-2.0
#include "daemon/recent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<SchedulerEvent>> scheduler_words{
    "submission accepted", "submission unknown", "submission refused", "submission deferred",
    "job seen", "job twice", "job not seen", "job missed", "look failed", "site seen"};
constexpr std::array<std::string_view, std::variant_size_v<FromLeadBody>> line_words{
    "claimed", "beat", "started", "ended", "revoked", "node seen", "finding", "checked", "bye"};

template <class Event>
concept HasToken = requires(const Event& event) {
  event.token;
};
template <class Body>
concept HasAttempt = requires(const Body& body) {
  body.attempt;
};

template <Worded Enum>
std::string_view word_or_none(const std::optional<Enum>& value) {
  return value ? word_of(*value) : std::string_view("none");
}

struct TextOfChange {
  std::string operator()(const SetSweep& one) const {
    return fmt::format("sweep {}: {}", one.row.id, word_of(one.row.state));
  }
  std::string operator()(const SetTrial& one) const {
    return fmt::format("trial {} of sweep {}: {}, {}", one.row.id, one.row.sweep,
        word_of(one.row.state), word_or_none(one.row.outcome));
  }
  std::string operator()(const PutAttempt& one) const {
    return fmt::format("attempt {} of trial {} in allocation {}: {}, {}{}", one.row.id,
        one.row.trial, one.row.allocation, word_of(one.row.state), word_or_none(one.row.outcome()),
        one.row.counted ? ", counted" : "");
  }
  std::string operator()(const PutAllocation& one) const {
    return fmt::format("allocation {} of sweep {}: {}, submission {}, job {}", one.row.id,
        one.row.sweep, word_of(one.row.state), word_of(one.row.submission),
        word_of(one.row.job_state));
  }
  std::string operator()(const AddMeasurement& one) const {
    return fmt::format("measurement of attempt {}", one.attempt);
  }
  std::string operator()(const AddEvent& one) const {
    return fmt::format("event {}: sweep {}, trial {}, attempt {}, allocation {}", word_of(one.kind),
        one.sweep, one.trial, one.attempt, one.allocation);
  }
  std::string operator()(const SeenNode& one) const {
    return fmt::format("node seen in allocation {}", one.allocation);
  }
  std::string operator()(const AddNodeEvidence&) const { return "evidence against a node"; }
  std::string operator()(const ForgetEvidence&) const { return "evidence forgotten"; }
  std::string operator()(const SetNode& one) const {
    return fmt::format("a node is {}", word_of(one.row.state));
  }
  std::string operator()(const EndProbe& one) const {
    return fmt::format("probe of allocation {} ended", one.allocation);
  }
  std::string operator()(const PutControl& one) const {
    return fmt::format("control of allocation {}, {}", one.row.allocation, word_of(one.row.time));
  }
  std::string operator()(const MarkMeasurement& one) const {
    return fmt::format("measurement of attempt {} is marked", one.attempt);
  }
  std::string operator()(const SetClock&) const { return "clock"; }
  std::string operator()(const ServedRequest& one) const {
    return fmt::format("request {} served", one.id);
  }
  std::string operator()(const AddKnowledge& one) const { return "knowledge " + one.name; }
  std::string operator()(const ForgetKnowledge& one) const {
    return fmt::format("knowledge {} is forgotten", one.name);
  }
};

std::span<const Change> last_of(std::span<const Change> changes) {
  return changes.last(std::min(changes.size(), Recent::most));
}

}  // namespace

void Recent::add(std::string text) {
  if (kept_.size() == most) kept_.pop_front();
  kept_.push_back(fmt::format("pass {}: {}", pass_, text));
}

void Recent::read(const WorldRows& rows) {
  add(fmt::format("read: sweeps {}, trials {}, attempts {}, allocations {}", rows.sweeps.size(),
      rows.trials.size(), rows.attempts.size(), rows.allocations.size()));
}

void Recent::saw(const SchedulerEvent& event) {
  std::string text(scheduler_words.at(event.index()));
  std::visit(
      [&text](const auto& one) {
        if constexpr (HasToken<decltype(one)>) text += " of " + one.token;
      },
      event);
  if (const auto* seen = std::get_if<JobSeen>(&event))
    text += fmt::format(": {}", word_of(seen->state));
  add(std::move(text));
}

void Recent::saw(const AllocationRow& allocation, const FromLead& line) {
  if (std::holds_alternative<Beat>(line.body)) return;
  std::string text = fmt::format(
      "line {} of allocation {}: {}", line.n, allocation.id, line_words.at(line.body.index()));
  std::visit(
      [&text](const auto& body) {
        if constexpr (HasAttempt<decltype(body)>) text += fmt::format(" {}", body.attempt);
      },
      line.body);
  if (const auto* ended = std::get_if<Ended>(&line.body))
    text += fmt::format(" {}", word_of(ended->ending.outcome));
  add(std::move(text));
}

void Recent::asked(std::string_view verb, const std::string& request) {
  add(fmt::format("request {}: {}", request, verb));
}

void Recent::committed(std::span<const Change> changes) {
  for (const Change& change : last_of(changes))
    add("stored: " + std::visit(TextOfChange{}, change));
}

std::vector<std::string> Recent::all(std::span<const Change> uncommitted) const {
  std::vector<std::string> texts(kept_.begin(), kept_.end());
  for (const Change& change : last_of(uncommitted))
    texts.push_back(
        fmt::format("pass {}: not stored: {}", pass_, std::visit(TextOfChange{}, change)));
  if (texts.size() > most)
    texts.erase(texts.begin(), texts.end() - static_cast<std::ptrdiff_t>(most));
  return texts;
}

}  // namespace shardsweep
