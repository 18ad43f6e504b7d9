// SPDX-License-Identifier: Apache-2.0
// Decision: The information criterion has a price for each change by the length of the level
// behind it. Short levels cost more, because the noise of two points is seldom known; long ones
// too, because they had many chances to be looked at, as in a cumulative sum. A level that has
// ended costs more than the newest: whoever looks after each point sees a change while its
// level is the newest, and a bump of noise in the past is two changes. The constants are set by
// bench_history, on other seeds than it prints: lower ones find more steps of 3 % at 2 % noise,
// and give more than one false alarm per hundred points. A lone point far off is clipped first,
// so a change needs two points.
//
// What can be reached: somebody who knows the noise, the level before and the size of the step
// (the likelihood ratio, as a cumulative sum) finds 95.6 % of steps of 3 % at 2 % noise within
// 8 points, with one false alarm per hundred points; at 1 % noise within 3 points 98.7 %. Who
// knows the noise alone finds 92.4 % and 98.7 %. Here nothing is known, and a drift and the
// nodes may be the reason.
#include "answer/series.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace shardsweep {
namespace {

/// Points on one node that are needed before the node gets an effect of its own.
constexpr std::size_t enough_of_node = 3;
constexpr std::size_t no_node = std::numeric_limits<std::size_t>::max();
constexpr double clip_at = 3;  ///< standard deviations
constexpr double discount = 0.8;
/// Noise assumed for a program whose runs are all equal. It is small beside any change that
/// matters, and large beside the rounding of sums of squares.
constexpr double exact = 1e-5;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Price of a change, in variances of the noise, if its level has `length` points.
double price_of_level(std::size_t length, double freedom) {
  constexpr double each = 6;
  constexpr double short_level = 4;
  constexpr double long_level = 0.1;
  constexpr double longest = 40;
  constexpr double small_sample = 4;
  const auto long_as = static_cast<double>(length);
  return (each + short_level / long_as + long_level * std::min(long_as, longest)) *
      (1 + small_sample / std::max(freedom, 1.0));
}

/// Price of the level of points [from, end): nothing for the first level, and most for a level that
/// has ended.
double price_at(const std::vector<double>& prices, std::size_t from, std::size_t end) {
  constexpr double has_ended = 6;
  if (from == 0) return 0;
  return prices[end - from] + (end + 1 < prices.size() ? has_ended : 0);
}

/// A series as numbers: logarithms of speeds, times, and nodes that have an effect.
struct SeriesNumbers {
  std::vector<double> log_speed;
  std::vector<double> at;
  std::vector<std::size_t> node;  ///< no_node: none of its own
  std::size_t nodes = 0;
  bool first_alone = false;  ///< the first point may be a level
  [[nodiscard]] std::size_t size() const { return log_speed.size(); }
};

/// True if the first point is the only one of its time, and the points of the next time agree that
/// it was no outlier.
bool may_stand_alone(const std::vector<SeriesPoint>& points) {
  constexpr std::ptrdiff_t enough = 3;
  if (points.size() < 2 || points[0].time == points[1].time) return false;
  return std::count_if(points.begin() + 1, points.end(),
             [&](const auto& one) { return one.time == points[1].time; }) >= enough;
}

SeriesNumbers numbers_of(const std::vector<SeriesPoint>& points) {
  SeriesNumbers numbers{.first_alone = may_stand_alone(points)};
  std::map<std::string, std::size_t> counts;
  for (const auto& point : points)
    ++counts[point.nodes];
  std::map<std::string, std::size_t> known;
  std::size_t turns = 0;  // stretches of points on the same nodes
  std::size_t last = no_node;
  for (const auto& point : points) {
    numbers.log_speed.push_back(std::log(point.speed));
    numbers.at.push_back(point.at);
    const bool own = !point.nodes.empty() && counts[point.nodes] >= enough_of_node;
    numbers.node.push_back(
        own ? known.try_emplace(point.nodes, known.size()).first->second : no_node);
    if (!own || numbers.node.back() == last) continue;
    last = numbers.node.back();
    ++turns;
  }
  // Nodes that never come back can't be told apart from other changes at the same time.
  if (turns > known.size()) {
    numbers.nodes = known.size();
  } else {
    std::fill(numbers.node.begin(), numbers.node.end(), no_node);
  }
  return numbers;
}

/// Noise of one point, from the differences between neighbours on the same nodes. Steps and drifts
/// hardly count in these, and nodes do not.
double noise_of_neighbours(const SeriesNumbers& numbers) {
  std::map<std::size_t, double> last;
  std::vector<double> gaps;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [known, fresh] = last.try_emplace(numbers.node[i], numbers.log_speed[i]);
    if (fresh) continue;
    gaps.push_back(std::abs(numbers.log_speed[i] - known->second));
    known->second = numbers.log_speed[i];
  }
  if (gaps.empty()) return 0;
  constexpr double median_of_normal = 0.6745;
  const double wide = median_of(gaps) / median_of_normal;
  double squares = 0;
  for (const double gap : gaps)
    squares += std::min(gap, clip_at * wide) * std::min(gap, clip_at * wide);
  const double deviation = std::sqrt(squares / static_cast<double>(gaps.size()));
  return std::max(deviation, wide / 2) / std::sqrt(2.0);
}

double middle_of(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

/// A point that is far from both of its neighbours is brought to `clip_at` deviations; the points
/// before `first` stay as they are.
std::vector<double> without_spikes(
    const std::vector<double>& values, double sigma, std::size_t first = 0) {
  if (values.size() < 3) return values;
  auto clipped = values;
  for (std::size_t i = first; i < values.size(); ++i) {
    const auto middle = std::clamp<std::size_t>(i, 1, values.size() - 2);
    const double usual = middle_of(values[middle - 1], values[middle], values[middle + 1]);
    clipped[i] = std::clamp(values[i], usual - clip_at * sigma, usual + clip_at * sigma);
  }
  return clipped;
}

/// Borders at which levels may begin: each of the newest points, and further back one in 2, 4, 8 …
/// points. A daily measurement may go on for years, and the search takes quadratic time.
std::vector<std::size_t> borders_of(std::size_t count) {
  constexpr std::size_t newest = 512;
  constexpr std::size_t of_each_size = 128;
  std::vector<std::size_t> borders{count};
  std::size_t block = 1;
  std::size_t left = newest;
  while (borders.back() > 0) {
    if (left-- == 0) {
      block *= 2;
      left = of_each_size;
    }
    borders.push_back(borders.back() - std::min(block, borders.back()));
  }
  std::reverse(borders.begin(), borders.end());
  return borders;
}

/// Finds levels of `least` points or more each: the minimum of the sum of squares, in variances,
/// and the prices by length.
class LevelFinder {
 public:
  LevelFinder(const std::vector<double>& values, double sigma, const std::vector<double>& prices,
      std::size_t least, bool first_alone)
      : sums_(values.size() + 1),
        squares_(values.size() + 1),
        variance_(sigma * sigma),
        prices_(prices),
        least_(least),
        first_alone_(first_alone) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i] - values.front();
      sums_[i + 1] = sums_[i] + value;
      squares_[i + 1] = squares_[i] + value * value;
    }
  }

  /// First points of the levels. In a long series exact among borders_of(), and then once more
  /// with the places around these that are better.
  [[nodiscard]] std::vector<std::size_t> find() const {
    auto borders = borders_of(sums_.size() - 1);
    auto firsts = among(borders);
    if (borders.size() == sums_.size()) return firsts;
    std::vector<std::size_t> better;
    for (std::size_t level = 1; level < firsts.size(); ++level) {
      const auto end = level + 1 < firsts.size() ? firsts[level + 1] : sums_.size() - 1;
      const auto place = std::lower_bound(borders.begin(), borders.end(), firsts[level]);
      better.push_back(
          between(*std::prev(place), *std::next(place), firsts[level - 1], firsts[level], end));
    }
    borders.insert(borders.end(), better.begin(), better.end());
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    return among(borders);
  }

 private:
  [[nodiscard]] bool is_level(std::size_t from, std::size_t end) const {
    return end - from >= least_ || (first_alone_ && from == 0 && end == 1);
  }

  [[nodiscard]] double price(std::size_t from, std::size_t end) const {
    const double sum = sums_[end] - sums_[from];
    const double squares =
        squares_[end] - squares_[from] - sum * sum / static_cast<double>(end - from);
    return squares / variance_ + price_at(prices_, from, end);
  }

  [[nodiscard]] std::vector<std::size_t> among(const std::vector<std::size_t>& borders) const {
    constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<double> best(borders.size(), never);
    std::vector<std::size_t> begins(borders.size(), 0);
    best[0] = 0;
    for (std::size_t end = 1; end < borders.size(); ++end) {
      for (std::size_t from = 0; from < end; ++from) {
        if (!is_level(borders[from], borders[end])) continue;
        const double total = best[from] + price(borders[from], borders[end]);
        if (total < best[end]) {
          best[end] = total;
          begins[end] = from;
        }
      }
    }
    std::vector<std::size_t> firsts;
    for (std::size_t end = borders.size() - 1; end > 0; end = begins[end])
      firsts.push_back(borders[begins[end]]);
    std::reverse(firsts.begin(), firsts.end());
    return firsts;
  }

  /// The best point for the change between the levels [from, …) and […, end): `first`, or one
  /// between `low` and `high`.
  [[nodiscard]] std::size_t between(std::size_t low, std::size_t high, std::size_t from,
      std::size_t first, std::size_t end) const {
    const auto total = [&](std::size_t at) { return price(from, at) + price(at, end); };
    auto best = first;
    for (auto at = std::max(low, from) + 1; at < std::min(high, end); ++at) {
      if (is_level(from, at) && is_level(at, end) && total(at) < total(best)) best = at;
    }
    return best;
  }

  std::vector<double> sums_;
  std::vector<double> squares_;
  double variance_;
  const std::vector<double>& prices_;
  std::size_t least_;
  bool first_alone_;
};

/// A fitted model of a series: its levels, drift and effects of nodes.
struct SeriesFit {
  std::vector<std::size_t> firsts{0};  ///< points with which levels begin
  std::vector<double> levels{0};       ///< log speed at time 0, of each
  double drift = 0;                    ///< change of the log speed per unit of time
  std::vector<double> of_node{};       ///< log speed; empty: no effects
  double squares = 0;                  ///< sum of squared residuals, without spikes
  double score = 0;                    ///< squares in variances, and what the model costs
};

std::size_t end_of_level(const SeriesFit& fit, std::size_t level, std::size_t count) {
  return level + 1 < fit.firsts.size() ? fit.firsts[level + 1] : count;
}

/// Parts that a model may have beside levels.
struct FitModel {
  bool drift = false;
  bool nodes = false;
};

/// Fits a model to a series by turns: where the levels are, given drift and nodes; then all of
/// them, given where the levels are.
class SeriesFitter {
 public:
  SeriesFitter(const SeriesNumbers& numbers, double sigma, double freedom, std::size_t least,
      double of_price = 1)
      : numbers_(numbers), sigma_(sigma), least_(least), prices_(numbers.size() + 1) {
    for (std::size_t length = 1; length < prices_.size(); ++length)
      prices_[length] = of_price * price_of_level(length, freedom);
  }

  [[nodiscard]] SeriesFit fit(FitModel model, SeriesFit start) const {
    constexpr int turns = 8;
    if (model.nodes) start.of_node.assign(numbers_.nodes, 0);
    solve(model, start);
    for (int turn = 0; turn < turns; ++turn) {
      auto firsts =
          LevelFinder(clipped(start), sigma_, prices_, least_, numbers_.first_alone).find();
      const bool same = firsts == start.firsts;
      start.firsts = std::move(firsts);
      solve(model, start);
      if (same) break;
    }
    score(model, start);
    return start;
  }

  /// The fit with the lowest score, of all models and starting points.
  [[nodiscard]] SeriesFit best() const {
    const auto plain = fit({}, {});
    std::vector<SeriesFit> fits{plain};
    for (const bool nodes : {false, true}) {
      if (nodes && numbers_.nodes < 2) continue;
      for (const bool drift : {false, true}) {
        if (!nodes && !drift) continue;
        if (drift && numbers_.size() < enough_points) continue;
        fits.push_back(fit({drift, nodes}, {}));
        fits.push_back(fit({drift, nodes}, plain));
      }
    }
    return *std::min_element(
        fits.begin(), fits.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
  }

  /// Log speeds without drift and effects of nodes: levels and noise are left.
  [[nodiscard]] std::vector<double> explained(const SeriesFit& fit) const {
    std::vector<double> rest(numbers_.size());
    for (std::size_t i = 0; i < rest.size(); ++i)
      rest[i] = numbers_.log_speed[i] - fit.drift * numbers_.at[i] - effect(fit, i);
    return rest;
  }

  [[nodiscard]] double effect(const SeriesFit& fit, std::size_t point) const {
    return fit.of_node.empty() || numbers_.node[point] == no_node
        ? 0
        : fit.of_node[numbers_.node[point]];
  }

 private:
  [[nodiscard]] std::vector<double> clipped(const SeriesFit& fit) const {
    return without_spikes(explained(fit), sigma_, numbers_.first_alone ? 1 : 0);
  }

  template <class Do>
  void each_level(const SeriesFit& fit, Do&& act) const {
    for (std::size_t level = 0; level < fit.firsts.size(); ++level)
      act(level, fit.firsts[level], end_of_level(fit, level, numbers_.size()));
  }

  void solve(FitModel model, SeriesFit& fit) const {
    constexpr int most_rounds = 40;
    for (int round = 0; round < (model.nodes ? most_rounds : 1); ++round) {
      if (model.drift) solve_drift(fit);
      solve_levels(fit);
      if (model.nodes) solve_nodes(fit);
    }
    solve_levels(fit);
  }

  /// The common slope within the levels.
  void solve_drift(SeriesFit& fit) const {
    fit.drift = 0;
    const auto rest = clipped(fit);
    double across = 0;
    double along = 0;
    each_level(fit, [&](std::size_t, std::size_t from, std::size_t end) {
      double at = 0;
      double value = 0;
      for (std::size_t i = from; i < end; ++i) {
        at += numbers_.at[i];
        value += rest[i];
      }
      at /= static_cast<double>(end - from);
      value /= static_cast<double>(end - from);
      for (std::size_t i = from; i < end; ++i) {
        across += (numbers_.at[i] - at) * (rest[i] - value);
        along += (numbers_.at[i] - at) * (numbers_.at[i] - at);
      }
    });
    fit.drift = along > 0 ? across / along : 0;
  }

  void solve_levels(SeriesFit& fit) const {
    const auto rest = clipped(fit);
    fit.levels.assign(fit.firsts.size(), 0);
    each_level(fit, [&](std::size_t level, std::size_t from, std::size_t end) {
      for (std::size_t i = from; i < end; ++i)
        fit.levels[level] += rest[i];
      fit.levels[level] /= static_cast<double>(end - from);
    });
  }

  /// Fits the effects of nodes, whose mean over the points is zero.
  void solve_nodes(SeriesFit& fit) const {
    std::vector<double> sums(numbers_.nodes, 0);
    std::vector<double> counts(numbers_.nodes, 0);
    double mean = 0;
    each_level(fit, [&](std::size_t level, std::size_t from, std::size_t end) {
      for (std::size_t i = from; i < end; ++i) {
        if (numbers_.node[i] == no_node) continue;
        sums[numbers_.node[i]] +=
            numbers_.log_speed[i] - fit.drift * numbers_.at[i] - fit.levels[level];
        counts[numbers_.node[i]] += 1;
      }
    });
    double all = 0;
    for (std::size_t node = 0; node < sums.size(); ++node) {
      mean += sums[node];
      all += counts[node];
      fit.of_node[node] = sums[node] / std::max(counts[node], 1.0);
    }
    mean /= std::max(all, 1.0);
    for (auto& one : fit.of_node)
      one -= mean;
  }

  void score(FitModel model, SeriesFit& fit) const {
    const auto rest = clipped(fit);
    fit.squares = 0;
    fit.score = 0;
    each_level(fit, [&](std::size_t level, std::size_t from, std::size_t end) {
      fit.score += price_at(prices_, from, end);
      for (std::size_t i = from; i < end; ++i)
        fit.squares += (rest[i] - fit.levels[level]) * (rest[i] - fit.levels[level]);
    });
    const double of_parameter = 1.3 * std::log(static_cast<double>(numbers_.size()));
    const double parameters =
        (model.drift ? 1.0 : 0.0) + (model.nodes ? static_cast<double>(numbers_.nodes - 1) : 0.0);
    fit.score += fit.squares / (sigma_ * sigma_) + parameters * of_parameter;
  }

  const SeriesNumbers& numbers_;
  double sigma_;
  std::size_t least_;
  std::vector<double> prices_;  ///< price of a level, by its length
};

std::int64_t freedom_of(const SeriesFit& fit, std::size_t count) {
  const auto used = fit.firsts.size() + (fit.drift != 0 ? 1 : 0) +
      (fit.of_node.empty() ? 0 : fit.of_node.size() - 1);
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(count) - static_cast<std::int64_t>(used), 1);
}

double step_noise_of_series(const std::vector<SeriesPoint>& points) {
  std::vector<double> known;
  for (const auto& point : points) {
    if (point.step_noise > 0) known.push_back(point.step_noise);
  }
  return median_of(std::move(known));
}

/// Points `from` to `end` as one side of a comparison, with the state of the machine in those
/// that are nearest to `near`.
LayoutSpeed side_of_series(const std::vector<SeriesPoint>& points, std::size_t from,
    std::size_t end, std::size_t near, double log_level) {
  constexpr std::size_t most_near = 256;
  const auto runs = static_cast<std::int64_t>(end - from);
  if (near == from) end = std::min(end, from + most_near);
  if (near == end && end - from > most_near) from = end - most_near;
  std::vector<double> clocks;
  std::vector<double> loads;
  double resolution = 0;
  for (std::size_t i = from; i < end; ++i) {
    clocks.push_back(points[i].sm_clock_mhz);
    loads.push_back(points[i].others_cpu);
    resolution = std::max(resolution, points[i].resolution);
  }
  const bool all_clocks = *std::min_element(clocks.begin(), clocks.end()) > 0;
  return {.value = std::exp(log_level),
      .runs = runs,
      .resolution = resolution,
      .sm_clock_mhz = all_clocks ? median_of(std::move(clocks)) : 0,
      .others_cpu = median_of(std::move(loads)),
      .mean = true};
}

/// The nodes of all these points; empty: they are not the same, or not known.
std::string only_nodes(const std::vector<SeriesPoint>& points, std::size_t from, std::size_t end) {
  for (std::size_t i = from + 1; i < end; ++i) {
    if (points[i].nodes != points[from].nodes) return {};
  }
  return points[from].nodes;
}

SpeedVerdict undecided_because(SpeedVerdict verdict, Open open, std::string reason) {
  verdict.difference = Difference::undecided;
  verdict.open = open;
  verdict.reason = std::move(reason);
  return verdict;
}

/// Explains a fitted series: what changed, and the verdict of each point.
class SeriesJudge {
 public:
  /// `own`: log speeds that are left for levels; `rest`: the same without spikes.
  SeriesJudge(const std::vector<SeriesPoint>& points, const SeriesFit& fit, bool levelled,
      std::vector<double> own, const std::vector<double>& rest, const SeriesSettings& settings,
      const Noise& noise)
      : points_(points),
        fit_(fit),
        levelled_(levelled),
        own_(std::move(own)),
        sums_(rest.size() + 1),
        settings_(settings),
        noise_(noise) {
    std::partial_sum(rest.begin(), rest.end(), sums_.begin() + 1);
  }

  void judge(SeriesAnswer& answer) const {
    for (std::size_t level = 0; level < fit_.firsts.size(); ++level) {
      const auto first = fit_.firsts[level];
      const auto end = end_of_level(fit_, level, points_.size());
      answer.points.push_back(level == 0 ? first_point() : change(level));
      if (level > 0)
        answer.changes.push_back({first, fit_.firsts[level - 1], end, answer.points.back()});
      for (auto i = first + 1; i < end; ++i)
        answer.points.push_back(within(first, i, end));
    }
  }

 private:
  [[nodiscard]] double mean(std::size_t from, std::size_t end) const {
    return (sums_[end] - sums_[from]) / static_cast<double>(end - from);
  }

  [[nodiscard]] LayoutSpeed side(
      std::size_t from, std::size_t end, std::size_t near, double log_level) const {
    return side_of_series(points_, from, end, near, log_level + fit_.drift * points_[near].at);
  }

  [[nodiscard]] SpeedVerdict between(std::size_t from, std::size_t first, std::size_t end) const {
    return compared(side(first, end, first, mean(first, end)),
        side(from, first, first, mean(from, first)), noise_, settings_.resolve);
  }

  /// Compares a single point, as measured, with the level before it; with the point before it if
  /// there is no level.
  [[nodiscard]] SpeedVerdict alone(std::size_t from, std::size_t point) const {
    const bool one = !levelled_ || point - from == 1;
    if (one) from = point - 1;
    return compared(side(point, point + 1, point, own_[point]),
        side(from, point, point, one ? own_[from] : mean(from, point)), noise_, settings_.resolve);
  }

  static SpeedVerdict first_point() {
    return {
        .first_runs = 1, .reason = "the first measurement, so there is none to compare it with"};
  }

  /// Turns a change into SAME that is certain, but too small to matter.
  [[nodiscard]] SpeedVerdict too_small(SpeedVerdict verdict) const {
    verdict.difference = Difference::same;
    verdict.reason +=
        fmt::format(", but the change is smaller than {}", percent_text(settings_.resolve));
    return verdict;
  }

  [[nodiscard]] SpeedVerdict change(std::size_t level) const {
    const auto from = fit_.firsts[level - 1];
    const auto first = fit_.firsts[level];
    const auto end = end_of_level(fit_, level, points_.size());
    auto verdict = between(from, first, end);
    if (!is_sure(verdict)) return verdict;
    if (std::abs(verdict.share) <= settings_.resolve) return too_small(std::move(verdict));
    const auto before = only_nodes(points_, from, first);
    const auto after = only_nodes(points_, first, end);
    if (before.empty() || after.empty() || before == after) return verdict;
    auto reason = fmt::format(
        "the nodes changed at the same time, from {} to {}, and may be the reason. A run on {} "
        "today would decide it; {}",
        before, after, before, verdict.reason);
    return undecided_because(std::move(verdict), Open::mixed_state, std::move(reason));
  }

  /// Verdict of a point over those before it in its level: no change was found here, so FASTER
  /// and SLOWER become UNDECIDED.
  [[nodiscard]] SpeedVerdict within(std::size_t from, std::size_t point, std::size_t end) const {
    auto verdict = alone(from, point);
    if (!is_sure(verdict)) return verdict;
    if (std::abs(verdict.share) <= settings_.resolve) return too_small(std::move(verdict));
    const bool lone = end - point < 2;
    auto reason = lone
        ? fmt::format("one run alone proves no change: run it once more; {}", verdict.reason)
        : fmt::format("among {} points with a noise of {} such a step may be chance; {}",
              points_.size(), percent_text(noise_.of_run), verdict.reason);
    return undecided_because(
        std::move(verdict), lone ? Open::too_little_data : Open::overlapping, std::move(reason));
  }

  const std::vector<SeriesPoint>& points_;
  const SeriesFit& fit_;
  bool levelled_;
  std::vector<double> own_;
  std::vector<double> sums_;  ///< running sums of the log speeds without spikes
  const SeriesSettings& settings_;
  const Noise& noise_;
};

/// The fit, and the noise that it leaves.
std::pair<SeriesFit, Noise> fitted(const std::vector<SeriesPoint>& points,
    const SeriesNumbers& numbers, const SeriesSettings& settings) {
  const auto count = points.size();
  const bool tells = count >= enough_points;
  const double floor = step_noise_of_series(points);
  Noise noise = settings.elsewhere;
  if (tells) noise = {noise_of_neighbours(numbers), static_cast<std::int64_t>(count) - 1};
  noise.of_run = std::max(noise.of_run, floor);
  const std::size_t least = count >= 4 ? 2 : 1;
  if (!noise.known()) {
    if (least == 1) return {SeriesFit(), noise};
    // A change that is obvious beside its neighbours is reported, if only as UNDECIDED.
    const double guess = std::max({noise_of_neighbours(numbers), floor, exact});
    return {SeriesFitter(numbers, guess, static_cast<double>(count), least).best(), noise};
  }
  noise.of_run = std::max(noise.of_run, exact);
  const auto freedom = static_cast<double>(noise.freedom);
  if (!tells) return {SeriesFitter(numbers, noise.of_run, freedom, least).best(), noise};
  // First levels at a discount, because a step that is missed would count as noise; then by the
  // noise around them, of which each level has cost its height and its place.
  auto fit = SeriesFitter(numbers, noise.of_run, freedom, least, discount).best();
  noise.freedom = std::max<std::int64_t>(
      freedom_of(fit, count) - static_cast<std::int64_t>(fit.firsts.size()) + 1, 1);
  noise.of_run =
      std::max({std::sqrt(fit.squares / static_cast<double>(noise.freedom)), floor, exact});
  fit = SeriesFitter(numbers, noise.of_run, static_cast<double>(noise.freedom), least).best();
  noise.freedom = freedom_of(fit, count);
  noise.of_run =
      std::max({std::sqrt(fit.squares / static_cast<double>(noise.freedom)), floor, exact});
  return {fit, noise};
}

/// True if more than half of the points are no spikes: only these have a level.
bool mostly_equal(const std::vector<double>& own, const std::vector<double>& without_spikes) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < own.size(); ++i)
    equal += own[i] == without_spikes[i] ? 1 : 0;
  return 2 * equal > own.size();
}

}  // namespace

SeriesAnswer answer_of_series(
    const std::vector<SeriesPoint>& points, const SeriesSettings& settings) {
  SeriesAnswer answer{.resolve = settings.resolve};
  if (points.empty()) return answer;
  const auto numbers = numbers_of(points);
  const auto [fit, noise] = fitted(points, numbers, settings);
  const SeriesFitter by(numbers, 1, 1, 1);
  answer.noise = noise;
  answer.drift = std::expm1(fit.drift);
  answer.by_nodes = !fit.of_node.empty();
  auto own = by.explained(fit);
  auto rest = own;
  if (noise.of_run > 0) rest = without_spikes(rest, noise.of_run, numbers.first_alone ? 1 : 0);
  answer.levelled = fit.firsts.size() > 1 || (noise.known() && mostly_equal(own, rest));
  for (std::size_t level = 0; level < fit.firsts.size(); ++level) {
    for (auto i = fit.firsts[level]; i < end_of_level(fit, level, points.size()); ++i)
      answer.levels.push_back(answer.levelled
              ? std::exp(fit.levels[level] + fit.drift * points[i].at + by.effect(fit, i))
              : points[i].speed);
  }
  SeriesJudge(points, fit, answer.levelled, std::move(own), rest, settings, noise).judge(answer);
  return answer;
}

}  // namespace shardsweep
