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

  /// A run's speed, as its logarithm, and what had been predicted. Returns whether posterior()
  /// changes by it: runs of other cells are taken in by tenths.
  bool observe(const ResidualInput& input, double speed, double predicted);
  /// Brings posterior() to all that was observed. It depends on what was observed and in which
  /// order, and not on when this was called.
  void learn();
  /// How many runs posterior() is by.
  [[nodiscard]] std::size_t runs() const { return residuals_.size(); }
  /// True if learn() calibrates scales, so that all posteriors change by it.
  [[nodiscard]] bool calibrates_next() const { return outdated_ || residuals_.calibrates_next(); }
  /// False while there are too few runs to calibrate by.
  [[nodiscard]] bool is_calibrated() const { return residuals_.is_calibrated(); }

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
  void rebuild();
  void add_others();

  ClusterSpec cluster_;
  UnknownRates unknown_;
  std::array<bool, structural_axes.size()> varies_{};  // axes with two values in the cell
  ResidualModel residuals_;
  bool outdated_ = false;  // residuals_ are to be built anew, of the first build_by_ of measured_
  std::size_t build_by_ = 0;
  std::vector<SpeedSample> measured_;
  std::size_t shown_between_ = 0;     // runs that show tensor parallelism between nodes
  std::size_t other_runs_ = 0;        // runs of other cells
  std::size_t other_runs_taken_ = 0;  // how many of them residuals_ are built of
  std::map<std::array<std::int64_t, 5>, std::int32_t> others_;  // cells, by what they are
};

}  // namespace shardsweep
