// SPDX-License-Identifier: Apache-2.0
// Decision: Two refusals with equal words rule out what explains them, and nothing else: what
// the refused have in common and the words name, by axis and number; by a number alone, what
// has all in common with them; and where the words name none and do not speak of batches, the
// other micro-batches of one layout. A layout of these that was not refused ends the rule.
#include "fleet/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using Parts = std::map<std::string_view, std::string_view>;
using Trials = std::vector<const TrialRow*>;

std::size_t length_of(std::string_view text, int (*kind)(int)) {
  const auto is_other = [kind](char c) { return kind(static_cast<unsigned char>(c)) == 0; };
  return static_cast<std::size_t>(std::find_if(text.begin(), text.end(), is_other) - text.begin());
}

/// Of the slug "llama-n8-dp4tp8pp2-mb2ga4-3f9a01": n 8, dp 4, tp 8, pp 2, mb 2, ga 4.
Parts parts_of(std::string_view slug) {
  Parts parts;
  slug = slug.substr(0, slug.rfind('-'));  // what follows is a hash
  while (!slug.empty()) {
    std::string_view token = slug.substr(0, slug.find('-'));
    slug.remove_prefix(std::min(token.size() + 1, slug.size()));
    while (!token.empty()) {
      const std::size_t name = length_of(token, std::isalpha);
      const std::size_t digits = length_of(token.substr(name), std::isdigit);
      if (name == 0 || digits == 0) break;
      parts.emplace(token.substr(0, name), token.substr(name, digits));
      token.remove_prefix(name + digits);
    }
  }
  return parts;
}

/// The number stands there by itself, as in "tp=8" or "(8)".
bool names_number(std::string_view text, std::string_view number) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
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

/// What was said, whichever rank said it.
std::string_view words_of(const TrialRow& trial) {
  std::string_view words = trial.cause;
  const std::size_t colon = words.find(": ");
  if (words.starts_with("rank ") && colon != words.npos) words.remove_prefix(colon + 2);
  return words;
}

bool speaks_of_batches(std::string_view words) {
  return words.find("atch") != words.npos || words.find("accum") != words.npos;
}

bool is_letter(std::string_view text, std::size_t at) {
  return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) != 0;
}

/// They speak of the axis, as "tp" or "tensor". Batches and GPUs often have a degree's number.
bool names_axis(std::string_view words, std::string_view axis) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> stems{
      {{"tp", "ensor"}, {"pp", "ipeline"}, {"dp", "ata"}, {"cp", "ontext"}, {"ep", "xpert"},
          {"mb", "atch"}, {"ga", "accum"}, {"g", "orld"}, {"n", "odes"}}};
  for (const auto& [name, stem] : stems) {
    if (name == axis && words.find(stem) != words.npos) return true;
  }
  for (auto at = words.find(axis); at != words.npos; at = words.find(axis, at + 1)) {
    if ((at == 0 || !is_letter(words, at - 1)) && !is_letter(words, at + axis.size())) return true;
  }
  return false;
}

/// As parts_of() would find it, without taking the slug apart.
bool has_part(std::string_view slug, std::string_view part) {
  slug = slug.substr(0, slug.rfind('-'));
  for (auto at = slug.find(part); at != slug.npos; at = slug.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    const bool begins = at == 0 || std::isalpha(static_cast<unsigned char>(slug[at - 1])) == 0;
    const bool ends =
        end == slug.size() || std::isdigit(static_cast<unsigned char>(slug[end])) == 0;
    if (begins && ends) return true;
  }
  return false;
}

/// What all of them have and the words name, by its axis and number. By numbers alone: all that
/// they have in common, since any of it may be meant. Empty: the words name nothing.
Parts explanation(const Trials& refused) {
  Parts common = parts_of(refused.front()->slug);
  for (const TrialRow* one : refused) {
    const Parts parts = parts_of(one->slug);
    std::erase_if(common, [&](const auto& part) {
      const auto found = parts.find(part.first);
      return found == parts.end() || found->second != part.second;
    });
  }
  const std::string_view words = words_of(*refused.front());
  Parts numbers;
  Parts named;
  for (const auto& part : common) {
    if (part.second == "0" || part.second == "1" || !names_number(words, part.second)) continue;
    numbers.insert(part);
    if (names_axis(words, part.first)) named.insert(part);
  }
  if (!named.empty()) return named;
  return numbers.empty() ? numbers : common;
}

bool was_not_refused(const TrialRow& trial) {
  const Outcome outcome = trial.outcome.value_or(Outcome::skipped);
  return outcome != Outcome::skipped && outcome != Outcome::rejected &&
      outcome != Outcome::cancelled;
}

/// Of one group that was refused alike. What was asked for by name runs once more.
void add_alike(const World& world, const Trials& refused, const std::string& what, auto&& is_like,
    std::vector<std::pair<TrialId, std::string>>& all) {
  const SweepId sweep = refused.front()->sweep;
  Trials alike;
  for (const auto& [nodes, queue] : world.index().waiting(sweep)) {
    for (const auto& [position, id] : queue.order()) {
      const TrialRow* trial = world.trial(id);
      if (trial->final_of == 0 && !trial->prior && is_like(*trial)) alike.push_back(trial);
    }
  }
  const bool holds = alike.empty() ||
      std::none_of(world.trials().begin(), world.trials().end(), [&](const auto& entry) {
        const TrialRow& trial = entry.second;
        return trial.sweep == sweep && was_not_refused(trial) && is_like(trial);
      });
  if (!holds) return;
  for (const TrialRow* one : alike)
    all.emplace_back(one->id,
        fmt::format("{} is refused ({}, {}): {}", what, refused[0]->slug, refused[1]->slug,
            words_of(*refused[0])));
}

void add_group(
    const World& world, const Trials& refused, std::vector<std::pair<TrialId, std::string>>& all) {
  if (const Parts common = explanation(refused); !common.empty()) {
    std::string what;
    std::vector<std::string> parts;
    for (const auto& [name, value] : common) {
      what += fmt::format("{}{} {}", what.empty() ? "each layout with " : ", ", name, value);
      parts.push_back(fmt::format("{}{}", name, value));
    }
    const auto has_all = [&parts](const TrialRow& trial) {
      return std::all_of(parts.begin(), parts.end(),
          [&](const std::string& part) { return has_part(trial.slug, part); });
    };
    return add_alike(world, refused, what, has_all, all);
  }
  if (speaks_of_batches(words_of(*refused.front()))) return;
  std::map<std::string_view, Trials> lanes;
  for (const TrialRow* one : refused)
    lanes[one->lane].push_back(one);
  for (const auto& [lane, same] : lanes) {
    if (same.size() < 2 || same.front()->micro_batch == same.back()->micro_batch) continue;
    add_alike(
        world, same, "each micro-batch of this layout",
        [lane = lane](const TrialRow& trial) { return trial.lane == lane; }, all);
  }
}

}  // namespace

std::vector<std::pair<TrialId, std::string>> refused_alike(const World& world) {
  std::vector<std::pair<TrialId, std::string>> all;
  for (const auto& [sweep, ids] : world.index().refused()) {
    std::map<std::string_view, Trials> by_words;
    for (const TrialId id : ids) {
      const TrialRow* trial = world.trial(id);
      if (!words_of(*trial).empty()) by_words[words_of(*trial)].push_back(trial);
    }
    for (const auto& [words, refused] : by_words) {
      if (refused.size() >= 2) add_group(world, refused, all);
    }
  }
  std::sort(all.begin(), all.end());
  const auto same = [](const auto& one, const auto& other) { return one.first == other.first; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

}  // namespace shardsweep
