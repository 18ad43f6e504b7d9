// SPDX-License-Identifier: Apache-2.0
// Places in an arena as shardbench gives them: the lowest gap that is large enough.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsweep {

class FirstFit {
 public:
  struct Place {
    std::int64_t from = 0;
    std::int64_t to = 0;
  };

  FirstFit() {
    constexpr std::size_t usual = 16;
    gaps_.reserve(usual);
    gaps_.push_back({0, std::numeric_limits<std::int64_t>::max()});
  }

  [[nodiscard]] Place take(std::int64_t size) {
    std::size_t at = 0;
    while (gaps_[at].to - gaps_[at].from < size)
      ++at;
    Place& gap = gaps_[at];
    const Place place{gap.from, gap.from + size};
    gap.from = place.to;
    if (gap.from == gap.to) gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(at));
    extent_ = std::max(extent_, place.to);
    return place;
  }

  /// Nothing happens to a place that was given already: it is empty then.
  void give(Place& place) {
    if (place.from == place.to) return;
    std::size_t at = 0;
    while (gaps_[at].from < place.to)
      ++at;
    const bool joins_next = gaps_[at].from == place.to;
    const bool joins_former = at > 0 && gaps_[at - 1].to == place.from;
    if (joins_next && joins_former) {
      gaps_[at - 1].to = gaps_[at].to;
      gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (joins_next) {
      gaps_[at].from = place.from;
    } else if (joins_former) {
      gaps_[at - 1].to = place.to;
    } else {
      gaps_.insert(gaps_.begin() + static_cast<std::ptrdiff_t>(at), place);
    }
    place = {};
  }

  /// The end of the highest place so far.
  [[nodiscard]] std::int64_t extent() const { return extent_; }

 private:
  std::vector<Place> gaps_;  // in order; the last one has no end
  std::int64_t extent_ = 0;
};

}  // namespace shardsweep
