// SPDX-License-Identifier: Apache-2.0
// How likely it is that a layout fits into memory: by the predicted bounds, and by what has run
// out of memory, or has not, in the same sweep. Estimates of one trainer err alike, by a factor
// that all layouts share. Beside this belief stands a rule that needs no estimate: what needs as
// much as a layout that ran out of memory is out.
#pragma once

#include "predict/predictor.hpp"
#include "search/search_point.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace shardsweep {

/// A distribution over the error that the estimates of a trainer share.
class FitBelief {
 public:
  FitBelief();

  /// Bounds as the predictor gives them; `capacity` 0: unknown, everything fits.
  struct Bounds {
    std::int64_t lower = 0;
    std::int64_t upper = 0;
    std::int64_t capacity = 0;
  };
  /// Whether a layout of these bounds ran or ran out of memory: its need is known to be below,
  /// or above, the capacity.
  void learn(const Bounds& bounds, bool fitted);
  /// The same of a run of an earlier sweep. `weight`: how much it says of the layouts here.
  /// Together they are worth a few runs at most, since their models err in their own way.
  void remember(const Bounds& bounds, bool fitted, double weight);
  /// That its need is within `share` of what the device holds.
  [[nodiscard]] double probability(const Bounds& bounds, double share = 1) const;

 private:
  struct Error {
    double shift;  // ln of the factor
    double weight;
  };
  /// How one run has ended.
  struct Lesson {
    Bounds bounds;
    bool fitted = true;
    double weight = 1;
  };
  void reset() const;
  void weigh_all() const;
  void weigh(const Lesson& lesson, double weight) const;
  void normalize() const;
  std::vector<Lesson> lessons_;
  std::vector<Lesson> remembered_;  // the latest
  // By all lessons, unless one was remembered since: what is asked next weighs them anew.
  mutable bool outdated_ = false;
  mutable std::vector<Error> errors_;
  mutable std::vector<Error> likely_;  // without those of no weight
  // By rounded margin and width; what was asked since the last lesson.
  mutable std::unordered_map<std::uint64_t, double> known_;
};

/// A run that ran out of memory, in this cell or in another one.
struct OutOfMemory {
  SearchPoint is;
  std::optional<std::size_t> number;  ///< of this cell
  std::size_t lesson = 0;             ///< of another one, as its caller counts
  bool revoked = false;               ///< what needs as much has run all the same
};

/// All that a cell knows of memory.
class MemoryBelief {
 public:
  explicit MemoryBelief(std::int64_t capacity) : capacity_(capacity) {}

  using Bounds = FitBelief::Bounds;
  [[nodiscard]] Bounds bounds_of(const MemoryGuess& guess) const {
    return {guess.lower_bytes, guess.upper_bytes, capacity_};
  }
  /// The chance that a layout fits.
  [[nodiscard]] double fits(const Bounds& bounds) const { return fit_.probability(bounds); }
  /// The chance that one which fits leaves its allocator room.
  [[nodiscard]] double headroom(const Bounds& bounds) const;
  /// How one with these bounds has ended, where it is certain which layout it was.
  void observe(const Bounds& bounds, Outcome outcome);
  /// The same of an earlier sweep.
  void remember(const Bounds& bounds, Outcome outcome, double weight);
  /// Kept if it rules out what nothing before it does, and nothing that needs as much has run.
  void observe_oom(OutOfMemory oom);
  /// One that ran: what needs no more and ran out of memory did so for a reason that is not
  /// said, and rules nothing out any longer.
  void observe_fit(const SearchPoint& point);
  /// One that ran out of memory and needs no more than `point`; null: nothing rules it out.
  /// `held_against` is how many of them were compared before, and counts on.
  [[nodiscard]] const OutOfMemory* ruled_out_by(
      const SearchPoint& point, std::size_t& held_against) const;

 private:
  std::int64_t capacity_;  // of a GPU
  FitBelief fit_;
  std::vector<OutOfMemory> out_of_memory_;  // of which none rules a later one out
  std::vector<SearchPoint> fitting_;        // of which none needs more than a later one
};

}  // namespace shardsweep
