// SPDX-License-Identifier: Apache-2.0
// Which points can run at all, and for each of the others the first constraint that it breaks.
// Asked a million times: finding allocates nothing; only sentences that are kept are written.
#pragma once

#include "plan/grid.hpp"
#include "predict/predictor.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/filter.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Judges the points of one sweep, in this order: world and nodes (`gpus`, `world`); the global
/// batch (`batch`); the model's shape (`heads`, `kv_heads`, `ffn`, `cp_mode`,
/// `rank_order`, `experts`, `recompute`, `cuda_graphs`, `offload`, `layers`, `stages`);
/// shardbench's own rules (`grad_accum` >= pp - 1, `zero` needs dp > 1); `dp_replicate`, which
/// divides dp and, for shardbench, needs ZeRO and two ranks to shard over; `sequence_parallel`;
/// what shardbench has no model for (`latent`); `max_nodes`; what the runner says it cannot do
/// (`runner:...`); `exclude`; `memory`, only where even the optimistic bound does not fit. tp
/// beyond a node is slow, not infeasible. Refers to what it was made from; the filters may be
/// null.
class Judge {
 public:
  Judge(const SweepSpec& sweep, const Capabilities& runner, PointFilter* excludes,
      PointFilter* runner_rules);

  /// The first constraint that a point breaks; `constraint` is -1 if it breaks none.
  struct Finding {
    int constraint = -1;     ///< index into constraints()
    int rule = -1;           ///< index of the exclude, limit or rule of the runner
    std::int64_t needs = 0;  ///< bytes per GPU at least, if it is the memory
  };
  [[nodiscard]] Finding find(const GridPoint& at);
  /// True if the point breaks a constraint other than memory and excludes; memory is not looked at.
  [[nodiscard]] bool breaks_rule(const GridPoint& at) const;
  /// Bounds of the last point, if it was judged up to its memory; else null.
  [[nodiscard]] const MemoryBounds* bounds() const { return has_bounds_ ? &bounds_ : nullptr; }
  /// The finding in words, with the numbers.
  [[nodiscard]] Verdict explain(const GridPoint& at, const Finding& finding) const;
  [[nodiscard]] Verdict judge(const GridPoint& at) { return explain(at, find(at)); }

  /// True if a trainer could start the layout, because its numbers divide.
  [[nodiscard]] static bool could_start(const GridPoint& at, const Finding& finding);

  /// False for a constraint of points whose GPUs or batch do not add up. Products of axes produce
  /// many such points that nobody meant.
  [[nodiscard]] static bool adds_up(std::string_view constraint);

  /// Names of the constraints; the runner's may share one.
  [[nodiscard]] const std::vector<std::string>& constraints() const { return names_; }
  /// Number of points so far that reached the excludes.
  [[nodiscard]] std::int64_t asked_excludes() const { return asked_excludes_; }
  /// Points that each exclude was the first to remove.
  [[nodiscard]] const std::vector<std::int64_t>& removed() const { return removed_; }

 private:
  struct Limit {
    const AxisInfo* axis;
    std::int64_t most;                  // limit, for a maximum
    std::vector<std::int64_t> allowed;  // choice of values; empty: a maximum
    int constraint;
  };

  [[nodiscard]] int find_structure(const GridPoint& at) const;
  [[nodiscard]] int find_shape(const Point& point) const;
  [[nodiscard]] int find_rule_of_runner(const Point& point) const;
  [[nodiscard]] std::string why(const GridPoint& at, const Finding& finding) const;
  [[nodiscard]] std::string why_structure(const GridPoint& at, int constraint) const;
  [[nodiscard]] std::string why_batch(const GridPoint& at) const;
  [[nodiscard]] std::string why_shape(const Point& point, int constraint) const;
  [[nodiscard]] std::string why_runner(const Point& point, const Finding& finding) const;
  [[nodiscard]] const ModelSpec& model_of(const Point& point) const {
    return sweep_.models[static_cast<std::size_t>(point.model)];
  }
  void add_limits();
  [[nodiscard]] int add_name(std::string name);

  const SweepSpec& sweep_;
  const Capabilities& runner_;
  PointFilter* excludes_;
  PointFilter* runner_rules_;
  Predictor predictor_;
  bool shardbench_;
  bool copies_kv_heads_;
  bool ends_count_;
  std::vector<std::string> names_;
  std::vector<Limit> limits_;
  int first_rule_ = 0;  // names_ index of the runner's first rule
  std::int64_t asked_excludes_ = 0;
  std::vector<std::int64_t> removed_;
  MemoryBounds bounds_;
  bool has_bounds_ = false;
};

/// "needs at least 87 GiB per GPU (…), and … has …".
[[nodiscard]] std::string too_large(const MemoryEstimate& bound, const ClusterSpec& cluster);

}  // namespace shardsweep
