// SPDX-License-Identifier: Apache-2.0
#include "search/cell_search.hpp"

#include "predict/memory.hpp"
#include "predict/residuals.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

double log2_of(std::int64_t value) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(value, 1)));
}

/// Lengths over which errors of predictions resemble each other are about a doubling of a
/// degree; what switches a mechanism on is as far away as that.
Features features_of(const SearchPoint& at, const ClusterSpec& cluster) {
  const auto& layout = at.point.layout;
  constexpr double degree = 0.7;
  constexpr double size = 0.5;
  const bool tp_leaves_node = cluster.gpus_per_node > 0 && layout.tp > cluster.gpus_per_node;
  return {degree * log2_of(layout.tp),
          degree * log2_of(layout.pp),
          size * log2_of(layout.micro_batch),
          size * log2_of(layout.grad_accum),
          degree * (layout.zero > 0 ? 1.0 : 0.0) + 0.3 * layout.zero,
          degree * static_cast<double>(layout.recompute),
          (layout.sequence_parallel ? 0.5 : 0.0) + (tp_leaves_node ? 1.0 : 0.0),
          (layout.pp > 1 ? 1.0 : 0.0),
          (at.traits.flash_attention.value_or(true) ? 0.0 : 1.0) +
              (at.traits.fused_norm.value_or(false) ? 0.5 : 0.0),
          0.3 * log2_of(at.point.gpus)};
}

/// Which share of a step each part takes, in the order of TimeEstimate::weights. Not those
/// weights: they say what a small change does, and of a transfer that is half hidden even more
/// than its share; errors are not small, and shares add up to one.
Parts shares_of(const TimeEstimate& time) {
  const double slot = time.compute_s + time.memory_s + time.launch_s + time.tp_s + time.pp_s;
  const double each = (slot > 0 ? (slot + time.bubble_s) / slot : 1) / time.step_s;
  return {each * time.compute_s,      each * time.memory_s,    each * time.launch_s,
          each * time.tp_s,           time.dp_s / time.step_s, each * time.pp_s,
          time.update_s / time.step_s};
}

/// A factor of four either way, uniform in its logarithm.
constexpr double unknown_rate_sigma = 0.8;
/// Of a machine of which nothing is known, twice as far.
constexpr double unknown_scale_sigma = 1.6;
/// Of a family's habits on hardware that it was never fitted on.
constexpr double unknown_own_sigma = 0.3;
constexpr double unknown_structure_sigma = 0.25;
/// Rates of a CPU were measured in an hour of its own: processes share it.
constexpr double shared_cpu_scale_sigma = 0.7;

ResidualPrior residual_prior(const UnknownRates& unknown, bool on_cpu) {
  ResidualPrior prior;
  std::copy_n(part_sigmas().begin(), part_count, prior.parts.begin());
  if (on_cpu) prior.scale = shared_cpu_scale_sigma;
  const double of_compute = unknown.compute ? unknown_rate_sigma : 0;
  const double of_memory = unknown.compute || unknown.memory ? unknown_rate_sigma : 0;
  const double of_links =
      unknown.compute || unknown.inside || unknown.between ? unknown_rate_sigma : 0;
  prior.unknown = {of_compute, of_memory, of_compute, of_links, of_links, of_links, of_memory};
  if (unknown.compute) {
    prior.scale = unknown_scale_sigma;
    prior.own = unknown_own_sigma;
    prior.structure = unknown_structure_sigma;
  }
  return prior;
}

constexpr std::int32_t own_cell = 0;

}  // namespace

CellSearch::CellSearch(const SearchSettings& settings, const ClusterSpec& cluster,
                       Predictor predictor)
    : settings_(settings),
      cluster_(cluster),
      predictor_(std::move(predictor)),
      residuals_(residual_prior({}, cluster.gpu.empty())) {}

/// What is unknown of a point's rates, where it needs them.
UnknownRates CellSearch::rates_of(const Point& point) const {
  auto rates = unknown_rates(cluster_, point.dtype);
  rates.inside &= point.layout.world() > 1;
  rates.between &= point.nodes > 1;
  return rates;
}

/// A cell knows as little as the point of which least is known; its axes vary where two points
/// differ.
void CellSearch::widen(const SearchPoint& point, const Structure& structure) {
  const auto rates = rates_of(point.point);
  const UnknownRates wider{unknown_.compute || rates.compute, unknown_.memory || rates.memory,
                           unknown_.inside || rates.inside, unknown_.between || rates.between};
  auto varies = varies_;
  for (std::size_t i = 0; i < varies.size() && !candidates_.empty(); ++i)
    varies.at(i) |= structure.at(i) != candidates_.front().site.structure.at(i);
  if (wider == unknown_ && varies == varies_) return;
  unknown_ = wider;
  varies_ = varies;
  residuals_ = ResidualModel(prior());
  learnt_ = 0;
  stale_ = true;
}

ResidualPrior CellSearch::prior() const {
  auto prior = residual_prior(unknown_, cluster_.gpu.empty());
  prior.varies = varies_;
  return prior;
}

FitBelief::Bounds CellSearch::bounds_of(const MemoryGuess& guess) const {
  return {guess.lower_bytes, guess.upper_bytes, cluster_.memory_bytes};
}

ResidualSite CellSearch::site_of(const SearchPoint& point, const Guess& guess) const {
  return {features_of(point, cluster_), shares_of(guess.time), structure_of(point.point),
          own_cell};
}

std::size_t CellSearch::add(SearchPoint point) {
  Candidate candidate;
  widen(point, structure_of(point.point));
  const auto guess = predictor_.guess(point.model, point.point, point.traits);
  candidate.site = site_of(point, guess);
  candidate.bounds = bounds_of(guess.memory);
  candidate.need = memory_need(predictor_, point.model, point.point, point.traits);
  candidate.prior = std::log(speed_of(guess.step_s, point.point));
  const auto belief = ResidualModel(prior()).at(candidate.site);
  candidate.mean = candidate.prior + belief.mean;
  candidate.sigma = belief.sigma;
  candidate.fits = fit_.probability(candidate.bounds);
  candidate.late =
      settings_.rules.grad_accum && point.point.layout.grad_accum < point.point.layout.pp - 1;
  candidate.is = std::move(point);
  candidates_.push_back(std::move(candidate));
  stale_ = true;
  missing_.reset();
  return candidates_.size() - 1;
}

void CellSearch::start(std::size_t number) {
  if (candidates_[number].status != Status::waiting) return;
  candidates_[number].status = Status::started;
  ++started_;
  missing_.reset();
}

void CellSearch::put_back(std::size_t number) {
  auto& status = candidates_[number].status;
  if (status != Status::started && status != Status::spared) return;
  if (status == Status::started) --started_;
  // What was spared has no place in the order.
  if (status == Status::spared) stale_ = true;
  status = Status::waiting;
  missing_.reset();
}

void CellSearch::spare(std::size_t number) {
  if (candidates_[number].status != Status::waiting) return;
  candidates_[number].status = Status::spared;
  missing_.reset();
}

void CellSearch::end(std::size_t number, const SearchNews& news) {
  auto& candidate = candidates_[number];
  if (candidate.has_ended()) return;
  const bool ran = news.outcome != Outcome::skipped && news.outcome != Outcome::cancelled;
  if (candidate.status != Status::started && ran) ++started_;
  candidate.status = ran && news.outcome != Outcome::oom ? Status::tried : Status::gone;
  hear(candidate.is, news, own_cell);
  if (news.outcome == Outcome::oom && settings_.rules.memory && !ruled_out_by(number) &&
      candidate.is.memory_is_known)
    out_of_memory_.push_back(number);
  if (news.outcome != Outcome::completed || news.tokens_per_s_per_gpu <= 0) return;
  const double value = std::log(news.tokens_per_s_per_gpu);
  if (best_ && *best_ >= value) return;
  best_ = value;
}

void CellSearch::learn(const SearchPoint& point, const SearchNews& news) {
  const auto& at = point.point;
  const auto next = static_cast<std::int32_t>(others_.size()) + 1;
  const auto cell =
      others_.try_emplace({parameters(point.model), at.seq_len, at.nodes, at.gpus}, next).first;
  hear(point, news, cell->second);
}

void CellSearch::hear(const SearchPoint& point, const SearchNews& news, std::int32_t cell) {
  stale_ = true;
  missing_.reset();
  const auto guess = predictor_.guess(point.model, point.point, point.traits);
  if (news.outcome == Outcome::oom) fit_.learn(bounds_of(guess.memory), false);
  if (news.outcome == Outcome::completed) fit_.learn(bounds_of(guess.memory), true);
  if (news.outcome != Outcome::completed || news.tokens_per_s_per_gpu <= 0) return;
  Measured measured{site_of(point, guess)};
  measured.site.cell = cell;
  measured.speed = std::log(news.tokens_per_s_per_gpu);
  measured.off = measured.speed - std::log(speed_of(guess.step_s, point.point));
  measured_.push_back(measured);
}

/// Of other cells the last that were about as fast as their cell's best: what makes layouts
/// slow there is not what has to be known here.
void CellSearch::add_others() {
  constexpr double about = 0.7;
  constexpr std::size_t most = 100;
  std::map<std::int32_t, double> best;
  for (const auto& one : measured_) {
    const auto [found, first] = best.try_emplace(one.site.cell, one.speed);
    if (!first) found->second = std::max(found->second, one.speed);
  }
  std::size_t count = 0;
  for (auto one = measured_.rbegin(); one != measured_.rend() && count < most; ++one) {
    if (one->site.cell == own_cell) continue;
    if (one->speed < best.at(one->site.cell) + std::log(about)) continue;
    residuals_.add(one->site, one->off);
    ++count;
  }
}

void CellSearch::learn_residuals() {
  const auto is_other = [](const Measured& one) { return one.site.cell != own_cell; };
  const auto fresh = measured_.begin() + static_cast<std::ptrdiff_t>(learnt_);
  if (fresh == measured_.end()) return;
  if (std::any_of(fresh, measured_.end(), is_other)) {
    residuals_.clear();
    add_others();
    learnt_ = 0;
  }
  for (; learnt_ < measured_.size(); ++learnt_) {
    const auto& one = measured_[learnt_];
    if (!is_other(one)) residuals_.add(one.site, one.off);
  }
  residuals_.fit();
}

/// Of those that have not ended the ones that may be fastest by what is known of them. In a
/// cell of 100,000 most are never looked at more closely: each look costs what all
/// measurements are worth, and what was last known of the others bounds them still.
std::vector<std::size_t> CellSearch::promising() const {
  constexpr std::size_t most = 2000;
  constexpr double sigmas = 2;
  constexpr double impossible = 1e-9;
  std::vector<std::pair<double, std::size_t>> open;  // at best, ln; negative
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& candidate = candidates_[i];
    if (candidate.has_ended()) continue;
    open.emplace_back(
        -candidate.mean - sigmas * candidate.sigma - std::log(candidate.fits + impossible), i);
  }
  if (open.size() > most) {
    const auto end = open.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(open.begin(), end, open.end());
    open.erase(end, open.end());
  }
  std::vector<std::size_t> numbers;
  numbers.reserve(open.size());
  for (const auto& [value, number] : open)
    numbers.push_back(number);
  return numbers;
}

/// Everything that the measurements say of what has not ended.
void CellSearch::refresh() {
  if (!std::exchange(stale_, false)) return;
  learn_residuals();
  for (const auto i : promising()) {
    auto& candidate = candidates_[i];
    const auto belief = residuals_.at(candidate.site);
    candidate.mean = candidate.prior + belief.mean;
    candidate.sigma = belief.sigma;
    candidate.known = belief.known;
    candidate.fits = fit_.probability(candidate.bounds);
  }
  rank();
}

/// The order of all that has not ended, and each one's chance of making it worth while.
void CellSearch::rank() {
  std::vector<std::tuple<bool, bool, double, std::size_t>> ranks;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    auto& candidate = candidates_[i];
    if (candidate.has_ended()) continue;
    candidate.better = chance_of_better(candidate, settings_.until.regret);
    // Of the doubtful ones the one that needs least comes first: its OOM settles the others.
    const bool doubtful = is_doubtful(candidate);
    ranks.emplace_back(
        candidate.late, doubtful,
        doubtful ? static_cast<double>(candidate.bounds.lower) : -gain(candidate), i);
  }
  std::sort(ranks.begin(), ranks.end());
  ranked_.clear();
  for (const auto& one : ranks)
    ranked_.push_back(std::get<std::size_t>(one));
}

/// Expected improvement over the best, in its units (Jones, Schonlau and Welch 1998, equation
/// 15, on the log of the speed), times the chance that it fits at all.
double CellSearch::gain(const Candidate& candidate) const {
  if (!best_) return candidate.fits * std::exp(candidate.mean);
  const double sigma = std::max(candidate.sigma, 1e-6);
  const double z = (candidate.mean - *best_) / sigma;
  constexpr double root_two_pi = 2.5066282746310002;
  const double density = std::exp(-0.5 * z * z) / root_two_pi;
  return candidate.fits * sigma * (z * normal_cdf(z) + density);
}

/// More likely than not it does not fit, by its bounds, and the cell has not shown otherwise.
bool CellSearch::is_doubtful(const Candidate& candidate) {
  constexpr double shown = 0.95;
  const auto& bounds = candidate.bounds;
  if (bounds.capacity <= 0) return false;
  return bounds.lower / 2 + bounds.upper / 2 > bounds.capacity && candidate.fits < shown;
}

std::vector<std::size_t> CellSearch::order() {
  std::vector<std::size_t> waiting;
  const auto take = [&](std::size_t number) {
    if (candidates_[number].status == Status::waiting) waiting.push_back(number);
  };
  if (settings_.policy == SearchPolicy::exhaustive) {
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      take(i);
    return waiting;
  }
  refresh();
  for (const auto number : ranked_)
    take(number);
  // Where nothing but coverage holds the end up, what covers comes first.
  if (settings_.until.regret > 0 && best_ &&
      chance_of_none(false) >= settings_.until.confidence && !missing().empty()) {
    std::stable_partition(waiting.begin(), waiting.end(), [&](std::size_t number) {
      const auto& candidate = candidates_[number];
      return standing_of(candidate) == Standing::open &&
             would_cover(candidate.site.structure, missing());
    });
  }
  return waiting;
}

double CellSearch::chance_of_better(const Candidate& candidate, double by) const {
  if (!best_) return candidate.fits;
  const double needed = *best_ + std::log1p(by);
  return candidate.fits *
         normal_cdf((candidate.mean - needed) / std::max(candidate.sigma, 1e-6));
}

/// That no point which waits is faster than the best by `regret`.
double CellSearch::chance_of_none(bool with_spared) const {
  double none = 1;
  for (const auto& candidate : candidates_) {
    const bool counts = candidate.status == Status::waiting ||
                        (with_spared && candidate.status == Status::spared);
    if (counts && !candidate.late) none *= 1 - candidate.better;
  }
  return none;
}

Standing CellSearch::standing_of(const Candidate& candidate) const {
  switch (candidate.status) {
    case Status::tried:
      return Standing::tried;
    case Status::gone:
      return Standing::gone;
    case Status::started:
      return Standing::running;
    case Status::waiting:
    case Status::spared:
      break;
  }
  // Of its error that much has to be explained by measurements before its bound is one.
  constexpr double explained = 0.5;
  constexpr double likely = 0.5;
  const double negligible = (1 - settings_.until.confidence) / 4;
  const bool is_bounded = candidate.known >= explained && candidate.better < negligible;
  return candidate.late || candidate.fits < likely || is_bounded ? Standing::bounded
                                                                 : Standing::open;
}

const std::vector<Uncovered>& CellSearch::missing() {
  if (missing_) return *missing_;
  std::vector<StructuredPoint> points;
  points.reserve(candidates_.size());
  for (const auto& candidate : candidates_)
    points.push_back({candidate.site.structure, standing_of(candidate)});
  missing_ = uncovered(points);
  return *missing_;
}

bool CellSearch::limits_are_reached(double gpu_hours) const {
  const auto& until = settings_.until;
  return (until.runs > 0 && started_ >= until.runs) ||
         (until.gpu_hours > 0 && gpu_hours >= until.gpu_hours);
}

std::optional<std::string> CellSearch::enough(double gpu_hours) {
  const auto& until = settings_.until;
  if (limits_are_reached(gpu_hours)) {
    if (until.runs > 0 && started_ >= until.runs)
      return fmt::format("Search stopped: this cell has used its {} (search.until.runs).",
                         counted(until.runs, "run"));
    return fmt::format(
        "Search stopped: this cell has used {:.2f} of its {:g} GPU-hours "
        "(search.until.gpu_hours).",
        gpu_hours, until.gpu_hours);
  }
  if (until.regret <= 0) return std::nullopt;
  refresh();
  const double none = chance_of_none(false);
  if (none < until.confidence) return std::nullopt;
  // Rounded down: 99.9 % is not certainty.
  const double sure = std::min(std::floor(100 * none), 99.0);
  if (!best_)
    return fmt::format("Search stopped: {:.0f} % sure that nothing untested fits into memory.",
                       sure);
  if (!missing().empty()) return std::nullopt;
  return fmt::format(
      "Search stopped: {:.0f} % sure that nothing untested beats {} tokens/s per GPU by {:g} "
      "%.{}",
      sure, grouped(std::llround(std::exp(*best_))), 100 * until.regret, still_running());
}

/// A run that goes on may beat the best: it is part of no claim about what is untested.
std::string CellSearch::still_running() const {
  const auto running = std::count_if(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& candidate) { return candidate.status == Status::started; });
  if (running == 0) return "";
  return fmt::format(" Not yet measured: {} of this cell.", counted(running, "run"));
}

bool CellSearch::is_contradicted(double gpu_hours) {
  const auto& until = settings_.until;
  if (until.regret <= 0 || limits_are_reached(gpu_hours)) return false;
  constexpr double as_large_again = 1.5;
  refresh();
  return 1 - chance_of_none(true) > as_large_again * (1 - until.confidence);
}

std::optional<std::size_t> CellSearch::ruled_out_by(std::size_t number) {
  auto& candidate = candidates_[number];
  if (!candidate.is.memory_is_known) return std::nullopt;
  for (; candidate.held_against < out_of_memory_.size(); ++candidate.held_against) {
    const auto other = out_of_memory_[candidate.held_against];
    if (needs_as_much(candidate.need, candidates_[other].need)) return other;
  }
  return std::nullopt;
}

std::string CellSearch::bound_text(std::size_t number) {
  refresh();
  const auto& candidate = candidates_[number];
  constexpr double upper_sigmas = 1.645;
  return fmt::format(
      "Here: predicted {} (95 % below {}), {:.0f} % likely to fit.",
      grouped(std::llround(std::exp(candidate.mean))),
      grouped(std::llround(std::exp(candidate.mean + upper_sigmas * candidate.sigma))),
      100 * candidate.fits);
}

}  // namespace shardsweep
