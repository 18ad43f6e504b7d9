// SPDX-License-Identifier: Apache-2.0
// A cell's points as its search sees them.
#pragma once

#include "search/fit_belief.hpp"
#include "search/residuals.hpp"
#include "search/search_point.hpp"
#include "search/value.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsweep {

struct Candidate {
  enum class Status : std::uint8_t {
    waiting,
    started,
    spared,  ///< left out by the search before it ran; may be wanted again
    tried,   ///< ran, and not out of memory
    gone,    ///< ran out of memory, or was skipped or cancelled
  };
  /// Predictions for one of the layouts that the point may be.
  struct Component {
    ResidualInput input;
    FitBelief::Bounds bounds;
    double prior = 0;        ///< ln of the predicted tokens/s per GPU
    double log_retries = 0;  ///< ln of what retries of the allocator multiply its step by
  };

  /// Constant part of a candidate. Kept apart, since a tick walks over 100,000 candidates.
  struct Layout {
    SearchPoint is;
    std::vector<Component> components;          ///< a single one, if nothing is unknown
    std::optional<std::size_t> alternatives{};  ///< number in Alternatives, if it has several
  };

  std::unique_ptr<const Layout> layout;
  Status status = Status::waiting;
  std::size_t held_against = 0;  ///< count of OOMs that FitBelief::ruled_out_by() has compared

  // Posterior, given all that was measured until the last refresh.
  std::size_t likeliest = 0;       ///< index of the most probable of components
  std::vector<SpeedGuess> speeds;  ///< normals by component, with and without retries
  double mean = 0;                 ///< mean over all speeds, as in moments_of()
  double sigma = 0;
  double fits = 1;    ///< chance that memory suffices
  double step_s = 0;  ///< seconds of a train step at the mean speed
  // Judgements against the best of that time.
  double better = 1;    ///< chance that it is worth a run
  double log_gain = 0;  ///< ln of what a run that costs nothing would be worth

  [[nodiscard]] const ResidualInput& input() const { return layout->components[likeliest].input; }
  [[nodiscard]] bool has_ended() const { return status == Status::tried || status == Status::gone; }
};

/// The fastest point that was measured to its end.
struct CellLeader {
  std::size_t number = 0;  ///< number of the point
  double tokens_per_s_per_gpu = 0;
  double resolution = 0;  ///< share of that speed that its log rounds away
};

}  // namespace shardsweep
