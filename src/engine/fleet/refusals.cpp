// SPDX-License-Identifier: Apache-2.0
// Decision: Two refusals with equal words rule out what explains them, and nothing else: what
// the refused have in common and the words name, by axis and number; by a number alone, what
// has all in common with them; and where the words name none and do not speak of batches, the
// other micro-batches of one layout. A layout of these that was not refused ends the rule.
#include "fleet/refusals.hpp"

#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using Parts = std::map<std::string_view, std::int32_t>;
using Trials = std::vector<const TrialRow*>;

/// An axis that words may name, also by a part of the word for it.
struct NamedAxis {
  std::string_view name;
  std::string_view stem;
  std::int32_t (*of)(const TrialRow&);
};
constexpr std::array<NamedAxis, 10> named_axes{{
    {"tp", "ensor", [](const TrialRow& row) { return row.degrees.tp; }},
    {"pp", "ipeline", [](const TrialRow& row) { return row.degrees.pp; }},
    {"dp", "ata", [](const TrialRow& row) { return row.degrees.dp; }},
    {"cp", "ontext", [](const TrialRow& row) { return row.degrees.cp; }},
    {"ep", "xpert", [](const TrialRow& row) { return row.degrees.ep; }},
    {"vpp", "irtual", [](const TrialRow& row) { return row.degrees.vpp; }},
    {"micro_batch", "atch", [](const TrialRow& row) { return row.micro_batch; }},
    {"grad_accum", "accum", [](const TrialRow& row) { return row.degrees.grad_accum; }},
    {"gpus", "orld", [](const TrialRow& row) { return row.gpus; }},
    {"nodes", "odes", [](const TrialRow& row) { return row.nodes; }},
}};

/// True if the text has the number on its own, as in "tp=8" or "(8)".
bool names_number(std::string_view text, std::string_view number) {
  for (auto at = text.find(number); at != text.npos; at = text.find(number, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const std::size_t end = at + number.size();
    const char after = end < text.size() ? text[end] : ' ';
    const bool decimal = after == '.' && end + 1 < text.size() && is_digit(text[end + 1]);
    if (!is_digit(before) && before != '.' && !decimal &&
        std::isalnum(static_cast<unsigned char>(after)) == 0)
      return true;
  }
  return false;
}

/// Text of the refusal, without the rank.
std::string_view words_of(const TrialRow& trial) {
  std::string_view words = trial.cause;
  const std::size_t colon = words.find(": ");
  if (words.starts_with("rank ") && colon != words.npos) words.remove_prefix(colon + 2);
  return words;
}

bool speaks_of_batches(std::string_view words) {
  return words.find("atch") != words.npos || words.find("accum") != words.npos;
}

/// True if the text names the axis, as "tp" or "tensor". A number alone is not enough: a
/// batch or a count of GPUs often equals a degree.
bool names_axis(std::string_view words, const NamedAxis& axis) {
  if (words.find(axis.stem) != words.npos) return true;
  const auto letter_at = [words](
                             std::size_t at) { return at < words.size() && is_letter(words[at]); };
  for (auto at = words.find(axis.name); at != words.npos; at = words.find(axis.name, at + 1)) {
    if ((at == 0 || !letter_at(at - 1)) && !letter_at(at + axis.name.size())) return true;
  }
  return false;
}

/// Numbers that all refused trials share and that the text names, by axis. If the text has numbers
/// but no axes: all shared numbers that it may mean. Empty: the text names nothing.
Parts explanation(const Trials& refused) {
  const TrialRow& first = *refused.front();
  const std::string_view words = words_of(first);
  Parts common;
  Parts named;
  bool any = false;  // true: the text contains one of their numbers
  for (const NamedAxis& axis : named_axes) {
    const std::int32_t value = axis.of(first);
    const bool shared = std::all_of(refused.begin(), refused.end(),
        [&](const TrialRow* one) { return axis.of(*one) == value; });
    if (!shared || value == 0) continue;
    common.emplace(axis.name, value);
    if (value <= 1 || !names_number(words, fmt::format("{}", value))) continue;
    any = true;
    if (names_axis(words, axis)) named.emplace(axis.name, value);
  }
  if (!named.empty()) return named;
  return any ? common : Parts();
}

std::string text_of(const Parts& parts) {
  std::string text;
  for (const auto& [name, value] : parts) {
    // Most layouts have these degrees at 1.
    if (value == 1 && (name == "cp" || name == "ep" || name == "vpp")) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

/// Adds the rules of a group that was refused with equal words.
void add_rules(const Trials& refused, std::vector<RefusedRule>& rules) {
  const std::string_view words = words_of(*refused.front());
  const auto add = [&](const std::string& what, const Trials& like, const Parts& parts) {
    rules.push_back(
        {fmt::format("{} is refused ({}, {}): {}", what, like[0]->slug, like[1]->slug, words),
            parts, like[0]->lane});
  };
  if (const Parts common = explanation(refused); !common.empty())
    return add("each layout with " + text_of(common), refused, common);
  if (speaks_of_batches(words)) return;
  std::map<std::string_view, Trials> lanes;
  for (const TrialRow* one : refused)
    lanes[one->lane].push_back(one);
  for (const auto& [lane, same] : lanes) {
    if (same.size() >= 2 && same.front()->micro_batch != same.back()->micro_batch)
      add("each micro-batch of this layout", same, {});
  }
}

bool was_not_refused(const TrialRow& trial) {
  const Outcome outcome = trial.outcome.value_or(Outcome::skipped);
  return outcome != Outcome::skipped && outcome != Outcome::rejected &&
      outcome != Outcome::cancelled;
}

/// Waiting trials. A trial that a user named runs once more.
Trials waiting_of(const World& world, SweepId sweep) {
  Trials all;
  for (const auto& [nodes, queue] : world.index().waiting(sweep)) {
    for (const auto& [position, id] : queue.order()) {
      const TrialRow* trial = world.trial(id);
      if (trial->final_of == 0 && !trial->prior) all.push_back(trial);
    }
  }
  return all;
}

}  // namespace

bool RefusedRule::covers(const TrialRow& trial) const {
  if (parts.empty()) return trial.lane == lane;
  return std::all_of(named_axes.begin(), named_axes.end(), [&](const NamedAxis& axis) {
    const auto part = parts.find(axis.name);
    return part == parts.end() || axis.of(trial) == part->second;
  });
}

std::vector<RefusedRule> refused_rules(const std::vector<const TrialRow*>& refused) {
  std::map<std::string_view, Trials> by_words;
  for (const TrialRow* trial : refused) {
    if (!words_of(*trial).empty()) by_words[words_of(*trial)].push_back(trial);
  }
  std::vector<RefusedRule> rules;
  for (const auto& [words, alike] : by_words) {
    if (alike.size() >= 2) add_rules(alike, rules);
  }
  return rules;
}

bool RefusedRule::ends_by(const TrialRow& trial) const {
  return was_not_refused(trial) && covers(trial);
}

std::vector<std::pair<TrialId, std::string>> refused_alike(const World& world) {
  std::map<TrialId, std::string> all;
  for (const auto& [sweep, ids] : world.index().refused()) {
    if (ids.size() < 2) continue;
    Trials refused;
    for (const TrialId id : ids)
      refused.push_back(world.trial(id));
    const auto rules = refused_rules(refused);
    const Trials waiting = rules.empty() ? Trials() : waiting_of(world, sweep);
    for (const RefusedRule& rule : rules) {
      const auto covered = [&](const TrialRow* trial) { return rule.covers(*trial); };
      const auto ends = [&rule, sweep = sweep](const auto& entry) {
        return entry.second.sweep == sweep && rule.ends_by(entry.second);
      };
      if (std::none_of(waiting.begin(), waiting.end(), covered) ||
          std::any_of(world.trials().begin(), world.trials().end(), ends))
        continue;
      for (const TrialRow* trial : waiting) {
        if (covered(trial)) all.emplace(trial->id, rule.text);
      }
    }
  }
  return {all.begin(), all.end()};
}

}  // namespace shardsweep
