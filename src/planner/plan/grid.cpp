// SPDX-License-Identifier: Apache-2.0
// Counting, enumerating and deriving. Everything that can be said before the first point is
// said here as a fault; what only one point is guilty of is a Gap.
#include "plan/grid.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_set>

namespace shardsweep {
namespace {

constexpr std::int64_t largest_count = std::numeric_limits<std::int64_t>::max();

std::int64_t times(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > largest_count / b ? largest_count : a * b;
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return a > largest_count - b ? largest_count : a + b;
}

// The product counts if an axis varies, or if no point is picked by hand.
bool has_product(const SweepSpec& sweep) {
  const bool varies = std::any_of(
      sweep.axes.begin(), sweep.axes.end(), [](const AxisValues& axis) { return !axis.automatic; });
  return varies || !sweep.zips.empty() || sweep.points.empty();
}

std::vector<std::int64_t> without_repetition(const std::vector<std::int64_t>& values) {
  std::vector<std::int64_t> out;
  std::set<std::int64_t> seen;
  for (const auto value : values) {
    if (seen.insert(value).second) out.push_back(value);
  }
  return out;
}

std::int64_t var_value(const VarValues& var, const PartialPoint& point) {
  for (const auto& [name, value] : point.vars) {
    if (name != var.name) continue;
    const auto found = std::find(var.values.begin(), var.values.end(), value);
    return found == var.values.end() ? -2 : found - var.values.begin();
  }
  return -1;
}

std::string place(const SourcePosition& position, const std::string& sweep) {
  if (position.line == 0) return fmt::format("sweep '{}'", sweep);
  return fmt::format("{}:{}:{}", position.file, position.line, position.column);
}

Result<void> check_axis(
    const SweepSpec& sweep, const AxisValues& axis, std::set<std::string_view>& seen) {
  if (!seen.insert(axis.axis->name).second) {
    return fault(FaultKind::invalid_input, "sweep '{}': axis '{}' appears twice", sweep.name,
        axis.axis->name);
  }
  if (!axis.automatic && axis.values.empty()) {
    return fault(FaultKind::invalid_input, "sweep '{}': axis '{}' has no values", sweep.name,
        axis.axis->name);
  }
  return {};
}

struct PointHash {
  std::size_t operator()(const Point& point) const {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    const auto mix = [&](std::int64_t value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3ULL;
      hash ^= hash >> 29U;
    };
    for (const auto& axis : axes())
      mix(axis.get(point));
    mix(point.repeat);
    for (const auto value : point.vars)
      mix(value);
    return hash;
  }
};

}  // namespace

Result<Grid> Grid::make(const SweepSpec& sweep) {
  Grid grid;
  SHARDSWEEP_TRY(grid.build(sweep));
  return grid;
}

Result<void> Grid::build(const SweepSpec& sweep) {
  gpus_per_node_ = sweep.cluster.gpus_per_node;
  batch_tokens_ = sweep.global_batch_tokens.value_or(0);
  batch_samples_ = sweep.global_batch_samples.value_or(0);
  Base constants;
  for (const auto& axis : axes())
    axis.set(constants.point, axis.default_value);
  constants.point.vars.assign(sweep.vars.size(), 0);
  set_scope(constants, sweep.constants);

  auto scope = sweep.axes;
  for (const auto& zip : sweep.zips)
    scope.insert(scope.end(), zip.axes.begin(), zip.axes.end());
  std::set<std::string_view> seen;
  for (const auto& axis : scope)
    SHARDSWEEP_TRY(check_axis(sweep, axis, seen));
  product_.base = constants;
  set_scope(product_.base, scope);
  if (has_product(sweep)) SHARDSWEEP_TRY(add_dimensions(sweep));
  SHARDSWEEP_TRY(check_size(sweep));

  // Hand-picked points derive what the axes derive, besides the constants.
  auto picked = constants;
  for (const auto& axis : sweep.axes) {
    if (axis.automatic) set_scope(picked, {axis});
  }
  add_picked(sweep, picked);
  return check_batch(sweep);
}

// The innermost scope that names nodes or gpus decides which of the two gives the number of GPUs.
void Grid::set_scope(Base& base, const std::vector<AxisValues>& settings) {
  bool nodes = false;
  bool gpus = false;
  for (const auto& setting : settings) {
    const auto name = setting.axis->name;
    nodes = nodes || name == "nodes";
    gpus = gpus || name == "gpus";
    if (name == "dp") base.dp_auto = setting.automatic;
    if (name == "grad_accum") base.grad_accum_auto = setting.automatic;
    if (!setting.values.empty()) setting.axis->set(base.point, setting.values.front());
  }
  if (!nodes && !gpus) return;
  base.nodes_given = nodes;
  base.gpus_given = gpus;
  if (!nodes) base.point.nodes = 0;
}

Result<Grid::Dimension> Grid::zip_dimension(const ZipGroup& zip) const {
  Dimension dimension;
  std::set<std::vector<std::int64_t>> seen;
  const auto rows = zip.axes.empty() ? 0 : zip.axes.front().values.size();
  for (const auto& axis : zip.axes) {
    dimension.axes.push_back(axis.axis);
    if (axis.automatic || axis.values.size() != rows) {
      return fault(FaultKind::invalid_input, "zip: '{}' has {} values, '{}' has {}",
          zip.axes.front().axis->name, rows, axis.axis->name, axis.values.size());
    }
  }
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::int64_t> values;
    for (const auto& axis : zip.axes)
      values.push_back(axis.values[row]);
    if (!seen.insert(values).second) continue;
    dimension.values.insert(dimension.values.end(), values.begin(), values.end());
    ++dimension.rows;
  }
  return dimension;
}

Result<void> Grid::add_dimensions(const SweepSpec& sweep) {
  auto& dimensions = product_.dimensions;
  const auto add = [&](Dimension dimension) { dimensions.push_back(std::move(dimension)); };
  for (const auto& axis : sweep.axes) {
    if (axis.automatic) continue;
    const auto values = without_repetition(axis.values);
    add({{axis.axis}, values, -1, false, static_cast<std::int64_t>(values.size())});
  }
  for (const auto& zip : sweep.zips) {
    SHARDSWEEP_ASSIGN(auto dimension, zip_dimension(zip));
    add(std::move(dimension));
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    const auto rows = static_cast<std::int64_t>(sweep.vars[i].values.size());
    add({{}, {}, static_cast<int>(i), false, rows});
  }
  add({{}, {}, -1, true, sweep.measure.repeats});
  product_.size = 1;
  for (const auto& dimension : dimensions)
    product_.size = times(product_.size, dimension.rows);
  return {};
}

Result<void> Grid::check_size(const SweepSpec& sweep) {
  std::int64_t count = product_.size;
  for (const auto& point : sweep.points) {
    std::int64_t copies = sweep.measure.repeats;
    for (const auto& var : sweep.vars) {
      const auto value = var_value(var, point);
      if (value == -2) {
        return fault(FaultKind::invalid_input, "{}: var '{}' does not have that value",
            place(point.position, sweep.name), var.name);
      }
      if (value < 0) copies = times(copies, static_cast<std::int64_t>(var.values.size()));
    }
    count = plus(count, copies);
  }
  if (count <= sweep.policy.max_points) return {};
  return fault(FaultKind::invalid_input,
      "sweep '{}': the grid has {}{} points, more than limits.max_points ({})", sweep.name,
      count == largest_count ? "at least " : "", grouped(count), grouped(sweep.policy.max_points));
}

Result<void> Grid::check_batch(const SweepSpec& sweep) const {
  const bool wanted = (product_.size > 0 && product_.base.grad_accum_auto) ||
      std::any_of(
          picked_.begin(), picked_.end(), [](const Base& base) { return base.grad_accum_auto; });
  if (!wanted || batch_tokens_ > 0 || batch_samples_ > 0) return {};
  return fault(FaultKind::invalid_input,
      "sweep '{}': grad_accum is auto; set global_batch_tokens or global_batch_size", sweep.name);
}

// A var that a hand-picked point does not set takes each of its values.
std::vector<Grid::Base> Grid::over_vars(
    const SweepSpec& sweep, const PartialPoint& partial, const Base& base) {
  std::vector<Base> copies{base};
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    const auto& var = sweep.vars[i];
    const auto fixed = var_value(var, partial);
    const auto first = std::max<std::int64_t>(fixed, 0);
    const auto end = fixed < 0 ? static_cast<std::int64_t>(var.values.size()) : fixed + 1;
    std::vector<Base> next;
    for (auto& copy : copies) {
      for (auto value = first; value < end; ++value) {
        copy.point.vars[i] = static_cast<std::int32_t>(value);
        next.push_back(copy);
      }
    }
    copies = std::move(next);
  }
  return copies;
}

void Grid::add_picked(const SweepSpec& sweep, const Base& constants) {
  std::unordered_set<Point, PointHash> seen;
  const auto add = [&](const Base& base) {
    auto point = base.point;
    (void)derive(base, point);
    if (in_product(point) || !seen.insert(point).second) {
      ++duplicates_;
    } else {
      picked_.push_back(base);
    }
  };
  for (const auto& partial : sweep.points) {
    auto base = constants;
    set_scope(base, partial.settings);
    for (auto& copy : over_vars(sweep, partial, base)) {
      for (copy.point.repeat = 1; copy.point.repeat <= sweep.measure.repeats; ++copy.point.repeat)
        add(copy);
    }
  }
}

bool Grid::in_product(const Point& point) const {
  if (product_.size == 0) return false;
  std::int64_t index = 0;
  for (const auto& dimension : product_.dimensions) {
    std::int64_t row = 0;
    const auto matches = [&] {
      if (dimension.repeat) return point.repeat == row + 1;
      if (dimension.var >= 0) return point.vars[static_cast<std::size_t>(dimension.var)] == row;
      for (std::size_t i = 0; i < dimension.axes.size(); ++i) {
        const auto at = static_cast<std::size_t>(row) * dimension.axes.size() + i;
        if (dimension.axes[i]->get(point) != dimension.values[at]) return false;
      }
      return true;
    };
    while (row < dimension.rows && !matches())
      ++row;
    if (row == dimension.rows) return false;
    index = index * dimension.rows + row;
  }
  GridPoint same;
  read(index, same);
  return same.point == point;
}

void Grid::apply(const Dimension& dimension, std::int64_t row, Point& point) {
  if (dimension.repeat) {
    point.repeat = static_cast<std::int32_t>(row) + 1;
  } else if (dimension.var >= 0) {
    point.vars[static_cast<std::size_t>(dimension.var)] = static_cast<std::int32_t>(row);
  } else {
    const auto width = dimension.axes.size();
    for (std::size_t i = 0; i < width; ++i)
      dimension.axes[i]->set(point, dimension.values[static_cast<std::size_t>(row) * width + i]);
  }
}

void Grid::read(std::int64_t index, GridPoint& out) const {
  out.index = index;
  if (index >= product_.size) {
    const auto& base = picked_[static_cast<std::size_t>(index - product_.size)];
    out.point = base.point;
    out.gap = derive(base, out.point);
    return;
  }
  out.point = product_.base.point;
  auto rest = index;
  for (auto i = product_.dimensions.size(); i-- > 0;) {
    const auto rows = product_.dimensions[i].rows;
    apply(product_.dimensions[i], rest % rows, out.point);
    rest /= rows;
  }
  out.gap = derive(product_.base, out.point);
}

// The next point from the one before: only the digits that move are set.
void Grid::advance(std::int64_t index, Digits& digits, GridPoint& at) const {
  if (index == 0) {
    digits.assign(product_.dimensions.size(), 0);
    read(0, at);
    return;
  }
  at.index = index;
  for (auto i = product_.dimensions.size(); i-- > 0;) {
    const auto& dimension = product_.dimensions[i];
    const bool carry = ++digits[i] == dimension.rows;
    if (carry) digits[i] = 0;
    apply(dimension, digits[i], at.point);
    if (!carry) break;
  }
  at.gap = derive(product_.base, at.point);
}

Gap Grid::derive(const Base& base, Point& point) const {
  if (base.nodes_given && !base.gpus_given)
    point.gpus = static_cast<std::int32_t>(std::min<std::int64_t>(
        std::int64_t{point.nodes} * gpus_per_node_, std::numeric_limits<std::int32_t>::max()));
  auto& layout = point.layout;
  if (base.dp_auto) layout.dp = 0;
  if (base.grad_accum_auto) layout.grad_accum = 0;
  if (base.dp_auto) {
    const auto others = std::int64_t{layout.tp} * layout.pp * layout.cp;
    if (point.gpus < others || point.gpus % others != 0) return Gap::dp;
    layout.dp = static_cast<std::int32_t>(point.gpus / others);
  }
  if (base.grad_accum_auto) {
    auto samples = batch_samples_;
    if (batch_tokens_ > 0) {
      if (batch_tokens_ % point.seq_len != 0) return Gap::samples;
      samples = batch_tokens_ / point.seq_len;
    }
    const auto at_once = std::int64_t{layout.dp} * layout.micro_batch;
    if (samples % at_once != 0) return Gap::grad_accum;
    const auto accum = samples / at_once;
    if (accum < 1 || accum > std::numeric_limits<std::int32_t>::max()) return Gap::grad_accum;
    layout.grad_accum = static_cast<std::int32_t>(accum);
  }
  return Gap::none;
}

}  // namespace shardsweep
