// SPDX-License-Identifier: Apache-2.0
#include "parallel/places.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <iterator>

namespace shardbench {
namespace {

/// A block of no bytes has a place of its own too.
i64 length_of(i64 bytes) {
  const i64 units = (bytes + place_alignment - 1) / place_alignment;
  return std::max<i64>(1, units) * place_alignment;
}

}  // namespace

std::optional<i64> Places::take(i64 bytes) {
  if (bytes > most_place_bytes) return std::nullopt;
  const i64 length = length_of(bytes);
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(),
      [&](const auto& entry) { return entry.second - entry.first >= length; });
  if (gap == gaps_.end()) return std::nullopt;
  const auto [offset, end] = *gap;
  const auto after = gaps_.erase(gap);
  if (offset + length < end) gaps_.emplace_hint(after, offset + length, end);
  taken_[offset] = offset + length;
  extent_ = std::max(extent_, offset + length);
  return offset;
}

void Places::give(i64 offset) {
  const auto taken = taken_.find(offset);
  check(taken != taken_.end(), "a block is given back once");
  i64 end = taken->second;
  taken_.erase(taken);
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && next->first == end) {
    end = next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin() && std::prev(next)->second == offset)
    std::prev(next)->second = end;
  else
    gaps_.emplace_hint(next, offset, end);
}

}  // namespace shardbench
