// SPDX-License-Identifier: Apache-2.0
#include "attempt/causes.hpp"

#include "attempt/fragmentation.hpp"
#include "attempt/pattern.hpp"
#include "builtin/files.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace shardsweep {
namespace {

template <class Enum, std::size_t N>
Enum value_of(std::string_view word, const std::array<std::string_view, N>& words) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end())
    throw std::invalid_argument(fmt::format("'{}' is none of {}", word, fmt::join(words, ", ")));
  return static_cast<Enum>(found - words.begin());
}

std::string unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '\'' || text.back() != '\'') return std::string(text);
  std::string plain(text.substr(1, text.size() - 2));
  for (std::size_t at = plain.find("''"); at != std::string::npos; at = plain.find("''", at + 1))
    plain.erase(at, 1);
  return plain;
}

void set(Cause& cause, std::string_view key, std::string_view text) {
  constexpr std::array<std::string_view, 6> places{
      "line", "exception", "class", "frame", "loop", "progress"};
  constexpr std::array<std::string_view, 6> weights{
      "fact", "cause", "end", "late", "symptom", "hint"};
  constexpr std::array<std::string_view, 5> whens{
      "always", "untrained", "set-up", "network", "other-memory"};
  constexpr std::array<std::pair<std::string_view, std::string Cause::*>, 7> texts{
      {{"name", &Cause::name}, {"pattern", &Cause::pattern}, {"whose", &Cause::whose},
          {"remedy", &Cause::remedy}, {"source", &Cause::source}, {"since", &Cause::since},
          {"sample", &Cause::sample}}};
  for (const auto& [name, member] : texts) {
    if (name == key) cause.*member = unquoted(text);
  }
  if (key == "where") cause.where = value_of<LinePlace>(text, places);
  if (key == "weight") cause.weight = value_of<Strength>(text, weights);
  if (key == "when") cause.when = value_of<When>(text, whens);
  if (key == "outcome") {
    const auto outcome = outcome_from(text);
    if (!outcome) throw std::invalid_argument(fmt::format("'{}' is no outcome", text));
    cause.outcome = *outcome;
  }
}

constexpr std::size_t gram = 4;

/// The longest piece of a pattern, between its stars.
std::string_view longest_piece(std::string_view pattern) {
  std::string_view longest;
  while (!pattern.empty()) {
    const std::string_view piece = pattern.substr(0, pattern.find('*'));
    if (piece.size() > longest.size()) longest = piece;
    pattern.remove_prefix(std::min(piece.size() + 1, pattern.size()));
  }
  return longest;
}

/// Causes by four bytes in the middle of what they look for: most lines hold those of none.
class Index {
 public:
  explicit Index(std::span<const Cause> causes) : causes_(causes) {
    for (std::size_t i = 0; i < causes.size(); ++i) {
      const std::string_view piece = longest_piece(causes[i].pattern);
      if (piece.size() < gram)
        throw std::invalid_argument("less than 4 bytes to look for: " + causes[i].name);
      const std::uint32_t bytes = bytes_at(piece.data() + (piece.size() - gram) / 2);
      slots_[slot_of(bytes)].push_back({bytes, i});
    }
    for (std::size_t i = 0; i < slots_.size(); ++i)
      used_[i] = !slots_[i].empty();
  }

  [[nodiscard]] const Cause* find(std::string_view line, LinePlace place) const {
    std::size_t best = causes_.size();
    for (std::size_t at = 0; at + gram <= line.size(); ++at) {
      const std::uint32_t bytes = bytes_at(line.data() + at);
      const std::size_t slot = slot_of(bytes);
      if (!used_[slot]) continue;
      for (const Entry& one : slots_[slot]) {
        if (one.bytes == bytes && one.cause < best && fits(causes_[one.cause], line, place))
          best = one.cause;
      }
    }
    return best < causes_.size() ? &causes_[best] : nullptr;
  }

 private:
  struct Entry {
    std::uint32_t bytes;
    std::size_t cause;
  };
  static std::uint32_t bytes_at(const char* text) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, text, gram);
    return bytes;
  }
  static std::size_t slot_of(std::uint32_t bytes) { return (bytes * 2654435761U) >> 20U; }
  /// Place that holds this one.
  static LinePlace base_of(LinePlace place) {
    if (place == LinePlace::error_class) return LinePlace::exception;
    if (place == LinePlace::loop) return LinePlace::frame;
    return place == LinePlace::progress ? LinePlace::line : place;
  }
  static bool fits(const Cause& cause, std::string_view line, LinePlace place) {
    const bool there = cause.where == place || base_of(cause.where) == place ||
        (cause.where == LinePlace::line && place == LinePlace::exception);
    if (cause.where == LinePlace::error_class) line = line.substr(0, line.find(':'));
    return there && matches(line, cause.pattern) &&
        (cause.when != When::other_memory || other_memory_in(line));
  }

  std::span<const Cause> causes_;
  std::array<std::vector<Entry>, 4096> slots_;
  std::array<bool, 4096> used_{};
};

}  // namespace

std::vector<Cause> read_causes(std::string_view yaml) {
  std::vector<Cause> causes;
  int number = 0;
  bool block = false;  // the lines of a sample
  for (const std::string_view line : split(yaml, '\n')) {
    ++number;
    if (block && line.starts_with("    ")) {
      std::string& sample = causes.back().sample;
      sample += (sample.empty() ? "" : "\n") + std::string(line.substr(4));
      continue;
    }
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with("- ")) causes.emplace_back();
    const std::size_t colon = line.find(": ");
    if (causes.empty() || line.size() < 3 || colon == std::string_view::npos)
      throw std::invalid_argument(fmt::format("causes.yaml:{}: no 'key: value'", number));
    const std::string_view text = line.substr(colon + 2);
    block = text == "|-";
    try {
      set(causes.back(), line.substr(2, colon - 2), block ? "" : text);
    } catch (const std::invalid_argument& wrong) {
      throw std::invalid_argument(fmt::format("causes.yaml:{}: {}", number, wrong.what()));
    }
  }
  return causes;
}

std::span<const Cause> built_in_causes() {
  static const std::vector<Cause> all =
      read_causes(builtin::text_of("sweeps/causes.yaml").value_or(""));
  return all;
}

const Cause* cause_for(std::string_view line, LinePlace place) {
  static const Index index(built_in_causes());
  return index.find(line, place);
}

}  // namespace shardsweep
