// SPDX-License-Identifier: Apache-2.0
// Built-in causes: sweeps/causes.yaml. Causes are found in lines by what they look for.
#pragma once

#include <shardsweep/cause.hpp>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Removes the text before `end`, and `end` itself, from `text`; returns that text.
std::string_view take_until(char end, std::string_view& text);

/// Place in a line, from the first piece of a pattern to the last.
struct Match {
  std::size_t begin;
  std::size_t end;
};
/// Each piece of the pattern stands in the line, in order, with any text between, before and
/// behind them. Of a pattern of several lines the first that fits counts. A pattern of nothing but
/// `*` fits no line.
[[nodiscard]] std::optional<Match> match_in(std::string_view line, std::string_view pattern);

/// Causes by four bytes of what they look for: most lines hold those of none.
class CauseIndex {
 public:
  /// Indexes causes, which have to outlive it. If two fit a line, the first counts.
  explicit CauseIndex(std::span<const Cause> causes);
  /// The first cause that a line at this place tells; null: none. An exception counts as a line
  /// too, and also has a class; a line may also tell of progress, and a frame that training goes
  /// on.
  [[nodiscard]] const Cause* find(std::string_view line, LinePlace place) const;
  [[nodiscard]] std::span<const Cause> all() const { return causes_; }

 private:
  struct Entry {
    std::uint32_t bytes = 0;
    std::uint32_t cause = 0;
    std::string_view pattern{};  ///< one line of the cause's
    std::string_view piece{};    ///< piece of its pattern that has the bytes
    std::size_t offset = 0;      ///< place of the bytes in the piece
  };

  std::span<const Cause> causes_;
  std::vector<Entry> entries_;   ///< sorted by their bytes
  std::vector<Entry> short_;     ///< those whose pieces are too short for that
  std::bitset<1U << 16U> seen_;  ///< hashes of the bytes of entries
};

[[nodiscard]] const CauseIndex& built_in_causes();

}  // namespace shardsweep
