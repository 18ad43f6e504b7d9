// SPDX-License-Identifier: Apache-2.0
// All points of a sweep, by number and without storing them: the product of axes, zips, vars
// and repeats in mixed radix (the last one fastest), then the hand-picked points.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <vector>

namespace shardsweep {

/// Why an `auto` value is no whole number; the value is then 0.
enum class Gap : std::uint8_t {
  none,
  dp,          ///< the world is no multiple of tp*pp*cp
  samples,     ///< global_batch_tokens is no multiple of seq_len
  grad_accum,  ///< the global batch is no multiple of dp*micro_batch
};

/// A point of the grid and whether its derived values exist.
struct GridPoint {
  std::int64_t index = 0;
  Point point;
  Gap gap = Gap::none;
};

/// Values that `auto` stands for: world = nodes*gpus_per_node or `gpus`; dp = world/(tp*pp*cp);
/// grad_accum = global batch/(dp*micro_batch), the global batch in samples being
/// global_batch_tokens/seq_len.
class Grid {
 public:
  /// Counts before it enumerates anything. Faults (invalid_input): more points than
  /// limits.max_points, an axis named twice, lists of a zip that differ in length, grad_accum
  /// auto without a global batch, a name or value that does not exist.
  [[nodiscard]] static Result<Grid> make(const SweepSpec& sweep);

  /// Points, each counted once.
  [[nodiscard]] std::int64_t size() const { return product_.size + picked_count(); }
  /// Hand-picked points that were named before, by the product or by hand.
  [[nodiscard]] std::int64_t duplicates() const { return duplicates_; }

  /// Writes point `index` (0 .. size()-1) to `out`.
  void read(std::int64_t index, GridPoint& out) const;

  /// Calls `visit(const GridPoint&)` for every point in order; no allocation per point.
  template <class Visit>
  void for_each(Visit&& visit) const {
    GridPoint at;
    Digits digits;
    for (std::int64_t i = 0; i < product_.size; ++i) {
      advance(i, digits, at);
      visit(static_cast<const GridPoint&>(at));
    }
    for (std::int64_t i = product_.size; i < size(); ++i) {
      read(i, at);
      visit(static_cast<const GridPoint&>(at));
    }
  }

 private:
  // One digit of the mixed radix: `rows` settings of one or several axes, or of a var, or of
  // the repeat.
  struct Dimension {
    std::vector<const AxisInfo*> axes;
    std::vector<std::int64_t> values;  // row after row, one value per axis
    int var = -1;                      // index into SweepSpec::vars
    bool repeat = false;
    std::int64_t rows = 0;
  };
  // Values that are not enumerated: fixed ones, and marks of derived ones.
  struct Base {
    Point point;
    bool dp_auto = false;
    bool grad_accum_auto = false;
    bool nodes_given = false;  // true: the innermost scope that names nodes or gpus names nodes
    bool gpus_given = false;
  };
  struct Product {
    Base base;
    std::vector<Dimension> dimensions;
    std::int64_t size = 0;
  };
  using Digits = std::vector<std::int64_t>;

  Grid() = default;
  [[nodiscard]] Result<void> build(const SweepSpec& sweep);
  [[nodiscard]] Result<void> add_dimensions(const SweepSpec& sweep);
  [[nodiscard]] Result<Dimension> zip_dimension(const ZipGroup& zip) const;
  [[nodiscard]] Result<void> check_size(const SweepSpec& sweep);
  [[nodiscard]] Result<void> check_batch(const SweepSpec& sweep) const;
  [[nodiscard]] static std::vector<Base> over_vars(
      const SweepSpec& sweep, const PartialPoint& partial, const Base& base);
  void add_picked(const SweepSpec& sweep, const Base& constants);
  [[nodiscard]] bool in_product(const Point& point) const;
  [[nodiscard]] std::int64_t picked_count() const {
    return static_cast<std::int64_t>(picked_.size());
  }
  static void set_scope(Base& base, const std::vector<AxisValues>& settings);
  static void apply(const Dimension& dimension, std::int64_t row, Point& point);
  void advance(std::int64_t index, Digits& digits, GridPoint& at) const;
  [[nodiscard]] Gap derive(const Base& base, Point& point) const;

  Product product_;
  std::vector<Base> picked_;
  std::int64_t duplicates_ = 0;
  std::int32_t gpus_per_node_ = 0;
  std::int64_t batch_tokens_ = 0;   // 0: not given
  std::int64_t batch_samples_ = 0;  // 0: not given
};

}  // namespace shardsweep
