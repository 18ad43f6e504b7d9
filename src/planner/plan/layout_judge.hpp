// SPDX-License-Identifier: Apache-2.0
// Layouts that a question of `suggest` may be answered with: the question becomes a sweep of all
// degrees that divide, which make_plan() judges as it judges a user's.
#pragma once

#include "plan/plan.hpp"
#include "plan/refine.hpp"
#include "plan/suggest.hpp"
#include "predict/predictor.hpp"

#include <shardsweep/axis_table.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

/// Predictor that has learnt from measurements, if the question brings any.
[[nodiscard]] Predictor predictor_of(const SuggestRequest& request);

/// The request as a sweep, and its plan's trials with what is predicted of them.
class LayoutJudge {
 public:
  explicit LayoutJudge(const SuggestRequest& request);

  Result<JudgedLayouts> make();
  /// True if make() would find a layout that surely fits; stops at the first one.
  Result<bool> fits();
  /// Offloads layouts that make() has found not to fit surely: returns the fastest that then fits,
  /// if its step is shorter. Transfers make no step shorter, so others can't be.
  Result<std::optional<SuggestedLayout>> offloaded(double step_s);
  /// Values of a suggested axis; none: it stays at its default.
  [[nodiscard]] std::vector<std::int64_t> worth_a_thought(const AxisInfo& axis) const;

 private:
  [[nodiscard]] LayoutRefiner refiner_of();
  static void sort(std::vector<SuggestedLayout>& layouts);
  [[nodiscard]] Result<JudgedLayouts> judge_grid();
  void refine(std::vector<SuggestedLayout>& fitting);
  [[nodiscard]] std::vector<GuessedLayout> beyond_grid(LayoutRefiner& refiner);
  [[nodiscard]] static std::vector<Point> first_of_kinds(
      std::vector<std::pair<double, Point>> layouts, std::size_t most, double step_s);
  [[nodiscard]] const AxisValues* lock_of(const AxisInfo& axis) const;
  [[nodiscard]] bool locks(std::string_view name) const;
  [[nodiscard]] bool is_no_plan(const Layout& at) const;
  [[nodiscard]] const std::string& refusal_of(const Point& point);
  [[nodiscard]] const std::string& words_missing(const Point& point);
  [[nodiscard]] const std::string& rule_broken(const Point& point);
  [[nodiscard]] bool has_virtual_stages() const;
  [[nodiscard]] Result<void> check() const;
  [[nodiscard]] std::vector<std::int64_t> recompute_worth_a_thought() const;
  [[nodiscard]] ZipGroup split_rows();
  void tell_stages(Layout& layout);
  void add_rows(const std::vector<std::vector<std::int64_t>>& choices, std::size_t at, Point& point,
      ZipGroup& rows);
  Result<void> add_left_out();
  [[nodiscard]] SweepSpec without_axes() const;
  [[nodiscard]] SweepSpec sweep_of(const std::vector<std::pair<double, Point>>& layouts) const;
  [[nodiscard]] SweepSpec sweep();
  void hold_against_runs(SuggestedLayout& layout) const;
  void describe(SuggestedLayout& layout) const;

  const SuggestRequest& request_;
  Predictor predictor_;
  std::vector<const AxisInfo*> rule_axes_;  ///< axes that rules of the trainer name
  std::set<const AxisInfo*> word_axes_;     ///< axes that conditions of its words name
  std::map<std::pair<std::int32_t, std::int32_t>, ToldStages> told_;  ///< key: pp and vpp
  std::size_t plan_size_ = 0;
  std::vector<std::pair<double, Point>> unfitting_;         ///< layouts that don't fit, with the
                                                            ///< seconds of their step
  std::map<std::vector<std::int64_t>, std::string> words_;  ///< words by kinds of values of all
                                                            ///< axes
  std::map<std::vector<std::int64_t>, std::string> rules_;  ///< rules by values of the axes that
                                                            ///< they name
};

}  // namespace shardsweep
