// SPDX-License-Identifier: Apache-2.0
// How likely it is that a layout fits into memory: by the predicted bounds, and by what has run
// out of memory, or has not, in the same sweep. Estimates of one trainer err alike, by a factor
// that all layouts share. Beside this belief stands a rule that needs no estimate: what needs as
// much as a layout that ran out of memory is out.
#pragma once

#include "search/search_point.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace shardsweep {

/// A run that ran out of memory, in this cell or in another one.
struct OutOfMemory {
  SearchPoint is;
  std::optional<std::size_t> number;  ///< the point's number, if it is of this cell
  std::size_t lesson = 0;             ///< number of the caller's lesson, if it is of another cell
  bool revoked = false;               ///< true once a layout that needs as much has run
};

/// A cell's beliefs about memory: a distribution over the error that the estimates of a trainer
/// share, and the runs that rule layouts out.
class FitBelief {
 public:
  /// Bytes of a GPU; 0: unknown, everything fits.
  explicit FitBelief(std::int64_t capacity) : capacity_(capacity) {}

  /// Bounds as the predictor gives them.
  struct Bounds {
    std::int64_t lower = 0;
    std::int64_t upper = 0;
  };
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// Posterior probability that a layout's need is within `share` of the device's capacity.
  [[nodiscard]] double fits(const Bounds& bounds, double share = 1) const;
  /// The chance that a layout which fits leaves its allocator room.
  [[nodiscard]] double headroom(const Bounds& bounds) const;
  /// Observes the end of a layout with these bounds, if it is certain which layout it was: its need
  /// is below the capacity, or above.
  void observe(const Bounds& bounds, Outcome outcome) { learn(lessons_, bounds, outcome, 1); }
  /// Observes a run of an earlier sweep. `weight`: how much it says of the layouts here. Such runs
  /// together are worth a few of this sweep at most, since their models err in their own way.
  void remember(const Bounds& bounds, Outcome outcome, double weight) {
    constexpr std::size_t most = 400;
    learn(remembered_, bounds, outcome, weight);
    if (remembered_.size() > most) remembered_.erase(remembered_.begin());
  }

  /// Keeps an OOM, unless an earlier one already implies it, or a layout that needs as much memory
  /// has run.
  void observe_oom(OutOfMemory oom);
  /// Observes a layout that ran. An OOM of a layout that needs no more had some unknown reason, and
  /// rules nothing out any longer.
  void observe_fit(const SearchPoint& point);
  /// OOM that rules `point` out, as its layout needs no more; null: none. `held_against`: how many
  /// OOMs were compared before; it counts on.
  [[nodiscard]] const OutOfMemory* ruled_out_by(
      const SearchPoint& point, std::size_t& held_against) const;

 private:
  struct Error {
    double shift;  // ln of the factor
    double weight;
  };
  struct Margin {
    double margin;  // ln(capacity / estimate)
    double sigma;   // standard deviation of ln(bytes)
  };
  /// How one run has ended.
  struct Lesson {
    Margin of;
    bool fitted = true;
    double weight = 1;
  };
  [[nodiscard]] Margin margin_of(const Bounds& bounds) const;
  void update_posterior() const;
  void learn(std::vector<Lesson>& lessons, const Bounds& bounds, Outcome outcome, double weight);

  std::int64_t capacity_;
  std::vector<Lesson> lessons_;
  std::vector<Lesson> remembered_;  // of earlier sweeps, the latest
  // Posterior by all lessons, and answers by rounded margin and width; empty: to be computed.
  mutable std::vector<Error> errors_;
  mutable std::unordered_map<std::uint64_t, double> known_;
  std::vector<OutOfMemory> out_of_memory_;  // no earlier one rules a later one out
  std::vector<SearchPoint> fitting_;        // no earlier one needs as much as a later one
};

}  // namespace shardsweep
