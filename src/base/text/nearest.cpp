// SPDX-License-Identifier: Apache-2.0
#include "text/nearest.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::size_t longest_word = 64;

/// Insertions, deletions, replacements and swaps of neighbours between two short words.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replace, last[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, std::exchange(current, before_last));
  }
  return last[b.size()];
}

/// True if `word` is `whole` with characters left out.
bool is_part(std::string_view word, std::string_view whole) {
  for (const char c : whole) {
    if (!word.empty() && word.front() == c) word.remove_prefix(1);
  }
  return word.empty();
}

/// The shortest candidate that goes on where `word` ends, by another word; the last of these:
/// h100 begins h100-8x.
std::string_view continued(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t shortest_word = 4;
  std::string_view best;
  for (const auto candidate : candidates) {
    const bool goes_on = candidate.size() > word.size() && candidate.starts_with(word) &&
        std::string_view("-_.").find(candidate[word.size()]) != std::string_view::npos;
    if (goes_on && word.size() >= shortest_word &&
        (best.empty() || candidate.size() <= best.size()))
      best = candidate;
  }
  return best;
}

/// Candidates, in quotes, that are a word of a name in several: `memory` of gpu_memory.
std::vector<std::string> words_inside(
    std::string_view name, const std::vector<std::string_view>& candidates) {
  std::vector<std::string> inside;
  const auto words = split(name, '_');
  if (words.size() < 2) return inside;
  for (const std::string_view word : words)
    if (std::find(candidates.begin(), candidates.end(), word) != candidates.end())
      inside.push_back(in_quotes(word));
  return inside;
}

}  // namespace

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (word.empty() || word.size() > longest_word) return {};
  const std::size_t allowed = std::clamp<std::size_t>(word.size() / 3, 1, 3);
  std::string_view best;
  std::size_t best_distance = allowed + 1;
  for (const auto candidate : candidates) {
    const auto distance = edit_distance(word, candidate);
    // A distance of the word's whole length would match anything.
    if (distance >= candidate.size() || distance > best_distance) continue;
    // 'llama-3-405b' lacks two characters of 'llama-3.1-405b', and has two wrong for
    // 'llama-3-70b'.
    if (distance == best_distance &&
        (best.empty() || is_part(word, best) || !is_part(word, candidate)))
      continue;
    best = candidate;
    best_distance = distance;
  }
  const auto longer = best_distance <= 1 ? std::string_view() : continued(word, candidates);
  return longer.empty() ? best : longer;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
  const std::string_view meant = nearest(word, candidates);
  return meant.empty() ? "" : ", did you mean '" + std::string(meant) + "'?";
}

std::string unknown_key(
    std::string_view key, std::string_view what, std::vector<std::string_view> known) {
  constexpr std::size_t most_listed = 16;
  const std::string unknown = "unknown key " + in_quotes(key);
  if (const auto inside = words_inside(key, known); !inside.empty())
    return fmt::format("{}, did you mean {}?", unknown, fmt::join(inside, " or "));
  if (const std::string meant = did_you_mean(key, known); !meant.empty()) return unknown + meant;
  std::sort(known.begin(), known.end());
  const bool is_section = what.size() > 2 && what.front() == '\'' && what.back() == '\'';
  return known.size() > most_listed
      ? fmt::format("{} in {}; 'shardsweep help {}' lists the keys", unknown, what,
            is_section ? what.substr(1, what.size() - 2) : "keys")
      : fmt::format("{} in {}; the keys are {}", unknown, what, fmt::join(known, ", "));
}

}  // namespace shardsweep
