// SPDX-License-Identifier: Apache-2.0
// The arenas of shardbench, replayed: the places that a train step's blocks get, one after the
// other. Blocks that come and go leave gaps between those that stay, which no sum tells. So the
// extent of an arena is what a replay of its requests gives, in the runner's order: that of
// activations, and those of whole units beside shards under ZeRO.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsweep {

/// Places in an arena as shardbench gives them: the lowest gap that is large enough.
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

  /// Frees a place; a place that was freed already is empty and stays so.
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
  std::vector<Place> gaps_;  // gaps in order; the last one has no end
  std::int64_t extent_ = 0;
};

/// Sizes of one micro-batch's blocks, in one unit of the caller's.
struct ActivationSizes {
  std::int64_t row = 0;  // row of the residual stream
  std::int64_t qkv = 0;
  std::int64_t attended = 0;
  std::int64_t statistics = 0;  // log-sum-exp
  std::int64_t gate_up = 0;     // twice what is activated
  std::int64_t ids = 0;
  friend bool operator==(const ActivationSizes&, const ActivationSizes&) = default;
};

/// A stage, and what its forward drops.
struct ActivationStage {
  ActivationSizes sizes;
  std::int64_t layers = 1;
  std::int64_t micro_batches = 1;
  std::int64_t ahead = 0;  // forwards before the first backward; all of them: no 1F1B
  bool first = true;
  bool last = true;
  bool sums_elsewhere = false;  // sequence parallelism: a sum over tp begins in the workspace
  bool drops_norms_and_product = false;
  bool drops_core = false;
  bool drops_layer = false;  // all but its input
  friend bool operator==(const ActivationStage&, const ActivationStage&) = default;
};

/// The arena's extent. Remembered for each thread: points of a grid share it by the hundreds.
[[nodiscard]] std::int64_t activation_extent(const ActivationStage& stage);

/// Bytes of a stage's units where they are whole; 0: the stage has none.
struct WholeUnits {
  std::int64_t layers = 0;  // how many
  std::int64_t layer = 0;
  std::int64_t embedding = 0;
  std::int64_t norm = 0;   // norm, with the head's own matrix if it has one
  std::int64_t table = 0;  // the last stage's copy of a tied embedding
  bool tied = false;
};

/// The order of a stage's micro-batches, as far as gradients see it.
struct MicroBatches {
  std::int64_t count = 1;
  bool heads_first = false;  // all forwards, then all backwards
  bool overlap = true;       // one reduction travels while the next gradients are computed
};

/// Bytes beside the shards of gradients (ZeRO 2, 3).
[[nodiscard]] std::int64_t whole_gradients(const WholeUnits& units, const MicroBatches& micro);
/// Bytes beside the shards of weights (ZeRO 3).
[[nodiscard]] std::int64_t whole_weights(const WholeUnits& units);

}  // namespace shardsweep
