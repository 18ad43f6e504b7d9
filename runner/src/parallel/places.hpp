// SPDX-License-Identifier: Apache-2.0
// Where blocks lie within an arena: offsets alone, no memory.
#pragma once

#include "device/dtype.hpp"

#include <map>
#include <optional>
#include <unordered_map>

namespace shardbench {

/// Takes the lowest gap that is large enough. Equal requests give equal places, so a run without
/// memory tells the needs of a run with memory.
class Places {
 public:
  explicit Places(i64 capacity) : gaps_{{0, capacity}} {}

  /// Takes `bytes` bytes. Their offset, a multiple of place_alignment; nothing if no gap is so
  /// large.
  std::optional<i64> take(i64 bytes);
  /// Gives back what take() gave at `offset`.
  void give(i64 offset);
  /// The end of the highest place so far: with this capacity all of it would have fitted.
  i64 extent() const { return extent_; }

 private:
  i64 extent_ = 0;
  std::map<i64, i64> gaps_;  // offset to end; few, however many places are taken
  std::unordered_map<i64, i64> taken_;
};

/// Alignment for vector loads and the tensor cores' operands.
constexpr i64 place_alignment = 256;
/// Limit above any address space.
constexpr i64 most_place_bytes = i64{1} << 60;

}  // namespace shardbench
