// SPDX-License-Identifier: Apache-2.0
#include "causes/causes.hpp"

#include "builtin/files.hpp"
#include "causes/fragmentation.hpp"
#include "text/characters.hpp"
#include "text/entries.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace shardsweep {
namespace {

std::string_view longest_piece(std::string_view pattern) {
  std::string_view longest;
  while (!pattern.empty()) {
    const std::string_view piece = take_until('*', pattern);
    if (piece.size() > longest.size()) longest = piece;
  }
  return longest;
}

// Bytes that are looked for, at every second place of a line: an entry for an even and for an odd
// distance from its beginning.
constexpr std::size_t gram = 4;
constexpr std::size_t stride = 2;

std::uint32_t bytes_at(const char* text) {
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, text, gram);
  return bytes;
}

std::size_t hash_of(std::uint32_t bytes) {
  return (bytes * 2654435761U) >> 16U;
}

/// Place of the bytes in a piece that the fewest lines have: of its rarest letters.
std::size_t rarest_in(std::string_view piece) {
  constexpr std::size_t window = gram + stride - 1;
  const auto common = [piece](std::size_t at) {
    const std::string_view seen = piece.substr(at, window);
    return std::count_if(seen.begin(), seen.end(), [](char c) {
      return std::string_view(" etaoinsrlcdmp").find(c) != std::string_view::npos;
    });
  };
  std::size_t best = 0;
  for (std::size_t at = 1; at + window <= piece.size(); ++at) {
    if (common(at) < common(best)) best = at;
  }
  return best;
}

/// Place that holds another one, in the order of LinePlace.
constexpr std::array<LinePlace, word_table<LinePlace>.size()> holder{LinePlace::line,
    LinePlace::line, LinePlace::exception, LinePlace::exception, LinePlace::frame, LinePlace::frame,
    LinePlace::line};

/// True if a function's name goes on behind a pattern that tells all of it, as ", in close" does.
bool names_another(std::string_view behind, std::string_view pattern) {
  return pattern.starts_with(", in ") && pattern.back() != '*' && !behind.empty() &&
      (is_letter(behind.front()) || is_digit(behind.front()) || behind.front() == '_');
}

bool fits(const Cause& cause, std::string_view pattern, std::string_view line, LinePlace place) {
  const bool there = holder.at(static_cast<std::size_t>(cause.where)) == place ||
      (cause.where == LinePlace::line && place == LinePlace::exception);
  if (cause.where == LinePlace::error_class) line = line.substr(0, line.find(':'));
  if (cause.when == When::alone && line.size() != pattern.size()) return false;
  const auto match = there ? match_in(line, pattern) : std::nullopt;
  const bool frame = place == LinePlace::frame;
  // The number of a signal or exit code ends, if the pattern ends with it.
  const bool goes_on = match && cause.weight == Strength::end && is_digit(pattern.back()) &&
      match->end < line.size() && is_digit(line[match->end]);
  return match && !goes_on && !(frame && names_another(line.substr(match->end), pattern)) &&
      (cause.when != When::other_memory || other_memory_in(line));
}

}  // namespace

std::string_view take_until(char end, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

std::optional<Match> match_in(std::string_view line, std::string_view pattern) {
  Match match{std::string_view::npos, 0};
  if (pattern.find('\n') != std::string_view::npos) {
    std::optional<Match> any;
    while (!any && !pattern.empty())
      any = match_in(line, take_until('\n', pattern));
    return any;
  }
  while (!pattern.empty()) {
    const std::string_view piece = take_until('*', pattern);
    const std::size_t at = line.find(piece, match.end);
    if (at == std::string_view::npos) return std::nullopt;
    if (!piece.empty()) match = {std::min(match.begin, at), at + piece.size()};
  }
  return match.end == 0 ? std::nullopt : std::optional(match);
}

CauseIndex::CauseIndex(std::span<const Cause> causes) : causes_(causes) {
  for (std::uint32_t i = 0; i < causes.size(); ++i) {
    for (std::string_view rest = causes[i].pattern; !rest.empty();) {
      const std::string_view pattern = take_until('\n', rest);
      const std::string_view piece = longest_piece(pattern);
      if (piece.size() < gram + stride - 1) {
        short_.push_back({0, i, pattern});
        continue;
      }
      const std::size_t from = rarest_in(piece);
      for (std::size_t at = from; at < from + stride; ++at) {
        entries_.push_back({bytes_at(piece.data() + at), i, pattern, piece, at});
        seen_.set(hash_of(entries_.back().bytes));
      }
    }
  }
  std::ranges::sort(entries_, {}, &Entry::bytes);
}

const Cause* CauseIndex::find(std::string_view line, LinePlace place) const {
  std::size_t best = causes_.size();
  const auto take = [&](const Entry& one) {
    if (one.cause < best && fits(causes_[one.cause], one.pattern, line, place)) best = one.cause;
  };
  std::for_each(short_.begin(), short_.end(), take);
  const std::size_t end_of_line = entries_.empty() ? 0 : line.size();
  for (std::size_t at = 0; at + gram <= end_of_line; at += stride) {
    const std::uint32_t bytes = bytes_at(line.data() + at);
    if (!seen_[hash_of(bytes)]) continue;
    // Bisection without a branch: std::equal_range takes twice as long here.
    const Entry* entry = entries_.data();
    const Entry* const end = entry + entries_.size();
    for (std::size_t count = entries_.size(); count > 1; count -= count / 2)
      entry += entry[count / 2 - 1].bytes < bytes ? count / 2 : 0;
    if (entry->bytes < bytes) ++entry;
    for (; entry != end && entry->bytes == bytes; ++entry) {
      if (at >= entry->offset && line.substr(at - entry->offset).starts_with(entry->piece))
        take(*entry);
    }
  }
  return best < causes_.size() ? &causes_[best] : nullptr;
}

const CauseIndex& built_in_causes() {
  static const std::vector<Cause> all =
      read_entries<Cause>(builtin::text_of("sweeps/causes.yaml").value_or(""));
  static const CauseIndex index(all);
  return index;
}

}  // namespace shardsweep
