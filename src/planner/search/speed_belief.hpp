// SPDX-License-Identifier: Apache-2.0
// How far the predicted speeds of a cell are off: what its own runs and those of other cells
// have shown (residuals.hpp), on top of what is unknown of the machine (predict/rates.hpp). A
// cell knows as little as the point of which least is known, so that a new point may widen the
// prior; then everything is learnt again. Lessons of other cells are taken in by tenths, as all
// cells of a sweep observe each run.
#pragma once

#include "predict/predictor.hpp"
#include "predict/rates.hpp"
#include "search/residuals.hpp"
#include "search/search_point.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace shardsweep {

class SpeedBelief {
 public:
  explicit SpeedBelief(const ClusterSpec& cluster);

  /// ResidualInput::cell of the cell's own runs.
  static constexpr std::int32_t own_cell = 0;

  [[nodiscard]] ResidualInput input_of(const SearchPoint& point, const TimeEstimate& time) const;
  /// A point joins the cell; `first` is the structure of its first point, null if this is it.
  void widen(const Point& point, const Structure& structure, const Structure* first);
  /// ResidualInput::cell of a point of another cell. In an earlier sweep (`remembered`) its cell is
  /// one of its own.
  [[nodiscard]] std::int32_t cell_of(const SearchPoint& point, bool remembered = false);

  /// Another cell had a run, whether or not its speed is known.
  void count_other() { ++others_ended_; }
  /// There is enough news of other cells to learn from.
  [[nodiscard]] bool others_have_grown() const {
    return others_ended_ > others_learnt_ + others_learnt_ / 10;
  }
  /// A run's speed, as its logarithm, and what had been predicted.
  void observe(const ResidualInput& input, double speed, double predicted);
  /// Brings posterior() to all that was observed.
  void learn();

  [[nodiscard]] ResidualModel::Posterior posterior(const ResidualInput& input) const {
    return residuals_.posterior(input);
  }

 private:
  struct SpeedSample {
    ResidualInput input;
    double off = 0;    // ln(measured / predicted)
    double speed = 0;  // ln of tokens/s per GPU
  };

  [[nodiscard]] ResidualPrior kernel_prior() const;
  void forget();
  void add_others();

  ClusterSpec cluster_;
  UnknownRates unknown_;
  std::array<bool, structural_axes.size()> varies_{};  // axes with two values in the cell
  ResidualModel residuals_;
  std::vector<SpeedSample> measured_;
  std::size_t shown_between_ = 0;     // runs that show tensor parallelism between nodes
  bool between_shown_twice_ = false;  // residuals_ has the full prior for it
  std::size_t learnt_ = 0;            // how many of measured_ the residuals know
  std::size_t others_ended_ = 0;      // runs of other cells
  std::size_t others_learnt_ = 0;     // others_ended_ when the residuals were last built
  std::map<std::array<std::int64_t, 5>, std::int32_t> others_;  // cells, by what they are
};

}  // namespace shardsweep
