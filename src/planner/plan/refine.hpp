// SPDX-License-Identifier: Apache-2.0
// A layout of the grid that `suggest` judges, changed in one axis after the other as long as that
// makes its step shorter: in those that the grid leaves at their default, and in others to values
// that the grid does not have.
#pragma once

#include "plan/feasibility.hpp"
#include "plan/suggest.hpp"
#include "predict/predictor.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct GuessedLayout {
  Point point;
  Guess guess;
};

class LayoutRefiner {
 public:
  using Refusal = std::function<const std::string&(const Point&)>;

  using TellStages = std::function<void(Layout&)>;

  /// `sweep` has the question's constants and no axes; `refusal` says why the trainer does not
  /// run a layout; `tell_stages` sets the layers of stages that it has to be told.
  LayoutRefiner(const SuggestRequest& request, const Predictor& predictor, SweepSpec sweep,
      Refusal refusal, TellStages tell_stages);
  LayoutRefiner(const LayoutRefiner&) = delete;
  LayoutRefiner& operator=(const LayoutRefiner&) = delete;
  LayoutRefiner(LayoutRefiner&&) = delete;
  LayoutRefiner& operator=(LayoutRefiner&&) = delete;
  ~LayoutRefiner() = default;

  /// Axes that are changed: those that split nothing, all, or all with any two at once.
  enum class Reach : std::uint8_t { split, all, pairs };
  /// Improves a layout; empty: no change makes it fit, or fit with a step shorter than `step_s`.
  /// A change that gains less than a tie is not made.
  [[nodiscard]] std::optional<GuessedLayout> refined(const Point& from, double step_s, Reach reach);

  /// A layout with full recomputation of each way to split the GPUs, in the whole range of degrees.
  [[nodiscard]] std::vector<Point> splits();

  struct Promise {
    double least_s = 0;  ///< about the shortest step that its split can have
    Point point;         ///< may break a rule, or not fit
  };
  /// Ways to split the GPUs that may have a layout with a step shorter than `step_s`, whether or
  /// not their usual one can start; the most promising first.
  [[nodiscard]] std::vector<Promise> promising(double step_s);
  /// The fastest layout of a split, in the axes that change its pipeline and its memory most; if
  /// none has a step of about `step_s`, the one that comes nearest to fitting.
  [[nodiscard]] Point first_of(const Point& split, double step_s);
  /// Layouts of splits() that need least memory, for a question whose grid has none that fits.
  [[nodiscard]] std::vector<Point> smallest();

 private:
  struct Best {
    GuessedLayout layout;
    bool fits = false;
    double longest = 0;  ///< no layout with a longer step is looked at; 0: any
  };
  [[nodiscard]] Best begin(const Point& from);
  [[nodiscard]] bool locks(std::string_view axis) const;
  [[nodiscard]] std::vector<Point> all_splits(std::vector<std::int64_t> zero) const;
  [[nodiscard]] Promise promise_of(const Point& split, double step_s);
  [[nodiscard]] std::vector<std::int64_t> values(const AxisInfo& axis, const Point& at) const;
  [[nodiscard]] bool derive(Point& point) const;
  [[nodiscard]] Point changed(Point point, const AxisInfo& axis, std::int64_t value) const;
  [[nodiscard]] bool keeps_rules(const Point& point);
  /// True if it took the place of the best.
  bool attempt(Point point, Best& best);
  bool attempt_axes(Best& best, Reach reach);
  bool attempt_stages(Best& best);
  void give_back(Best& best);

  const SuggestRequest& request_;
  const Predictor& predictor_;
  SweepSpec sweep_;
  Capabilities any_;
  Judge judge_;
  Refusal refusal_;
  TellStages tell_stages_;
};

/// All values that divide, up to `most`.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t of, std::int64_t most);
/// Numbers of virtual stages, up to `most`, that can share out the model's layers: with the
/// embedding and the head, if the trainer may count them.
[[nodiscard]] std::vector<std::int64_t> virtual_stages(
    const SuggestRequest& request, std::int64_t most);

}  // namespace shardsweep
