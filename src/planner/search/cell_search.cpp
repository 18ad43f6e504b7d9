// SPDX-License-Identifier: Apache-2.0
// A cell keeps apart how far predicted speeds are off (residuals), whether memory suffices
// (fit_belief), which layout a point is (readings), and what a launch takes. Each has lessons
// of its own. refresh() brings all of it to the points that have not ended, and rank() makes
// one order of them; neither runs while nothing new was heard. The state follows from the calls
// and their order alone, so that a daemon that was started again and hears the same rows
// launches the same points. What is spared is not gone: measurements may bring it back.
#include "search/cell_search.hpp"

#include "predict/memory.hpp"
#include "predict/predictor.hpp"
#include "search/search_point.hpp"

#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
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
          0.3 * log2_of(at.point.gpus),
          0.3 * log2_of(parameters(at.model))};
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
                       Predictor predictor, const LaunchCost& cost)
    : settings_(settings),
      cluster_(cluster),
      predictor_(std::move(predictor)),
      residuals_(residual_prior({}, cluster.gpu.empty())),
      cost_(cost) {}

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
    varies.at(i) |= structure.at(i) != candidates_.front().site().structure.at(i);
  if (wider == unknown_ && varies == varies_) return;
  unknown_ = wider;
  varies_ = varies;
  residuals_ = ResidualModel(prior());
  learnt_ = heard_learnt_ = 0;
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

std::vector<CellSearch::Read> CellSearch::reads_of(const SearchPoint& point) const {
  std::vector<Read> reads;
  for (const auto& reading : readings_of(point)) {
    const SearchPoint at{point.model, reading.point, reading.traits};
    const auto guess = predictor_.guess(at.model, at.point, at.traits);
    const ResidualSite site{features_of(at, cluster_), shares_of(guess.time),
                            structure_of(at.point), own_cell};
    reads.push_back({reading.kind, site, bounds_of(guess.memory),
                     std::log(speed_of(guess.step_s, at.point)), guess.step_s});
  }
  return reads;
}

/// Of two points that look alike each is most likely what the other is not: a sweep has few
/// layouts twice. Where there are more points than readings, so many of them are repeats. A
/// factor for each reading, by what has ended.
std::vector<double> CellSearch::not_taken(const Candidate& candidate) const {
  constexpr double rarely = 0.1;
  std::vector<double> factors(candidate.reads.size(), 1);
  if (!candidate.look) return factors;
  const auto& alike = looks_[*candidate.look];
  const auto points = static_cast<double>(alike.points);
  const auto readings = static_cast<double>(factors.size());
  const double again = std::max(rarely, points > 1 ? (points - readings) / (points - 1) : 0);
  for (const auto& likely : alike.ended) {
    for (std::size_t i = 0; i < factors.size(); ++i)
      factors[i] *= 1 - (1 - again) * likely[i];
  }
  return factors;
}

std::vector<double> CellSearch::weights_of(const Candidate& candidate) const {
  if (candidate.reads.size() == 1) return {1};
  std::vector<std::size_t> kinds;
  kinds.reserve(candidate.reads.size());
  for (const auto& read : candidate.reads)
    kinds.push_back(read.kind);
  auto weights = readings_.weights(kinds);
  const auto factors = not_taken(candidate);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    sum += weights[i] *= factors[i];
  for (auto& weight : weights)
    weight /= sum;
  return weights;
}

void CellSearch::look_for_twins(Candidate& candidate) {
  if (candidate.reads.size() == 1) return;
  std::string look = candidate.is.software;
  for (const auto& axis : axes())
    look += fmt::format("|{}", axis.get(candidate.is.point));
  const auto [found, fresh] = look_of_.try_emplace(std::move(look), looks_.size());
  if (fresh) looks_.emplace_back();
  ++looks_[found->second].points;
  candidate.look = found->second;
}

/// What is predicted of a point: the average over all that it may be, where it fits.
void CellSearch::settle(Candidate& candidate) const {
  auto weights = weights_of(candidate);
  candidate.likeliest = 0;
  candidate.prior = candidate.step_s = candidate.fits = candidate.between = 0;
  constexpr double least = 1e-9;
  for (std::size_t i = 0; i < weights.size(); ++i)
    candidate.fits += weights[i] * fit_.probability(candidate.reads[i].bounds);
  // Its speed is that of readings that fit: of the others there is none.
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double fits = fit_.probability(candidate.reads[i].bounds);
    weights[i] *= (fits + least) / (candidate.fits + least);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto& read = candidate.reads[i];
    candidate.prior += weights[i] * read.prior;
    candidate.step_s += weights[i] * read.step_s;
    if (weights[i] > weights[candidate.likeliest]) candidate.likeliest = i;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double off = candidate.reads[i].prior - candidate.prior;
    candidate.between += weights[i] * off * off;
  }
}

std::size_t CellSearch::add(SearchPoint point) {
  Candidate candidate;
  widen(point, structure_of(point.point));
  candidate.is = std::move(point);
  candidate.reads = reads_of(candidate.is);
  look_for_twins(candidate);
  settle(candidate);
  const auto belief = ResidualModel(prior()).at(candidate.site());
  candidate.mean = candidate.prior + belief.mean;
  candidate.sigma = belief.sigma;
  candidate.late = settings_.rules.grad_accum &&
                   candidate.is.point.layout.grad_accum < candidate.is.point.layout.pp - 1;
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
  INVARIANT(started_ >= 0, "no more is put back than was started", number, started_);
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
  INVARIANT(started_ <= static_cast<std::int64_t>(candidates_.size()),
            "no point of a cell is started twice", number, started_, candidates_.size());
  candidate.status = ran && news.outcome != Outcome::oom ? Status::tried : Status::gone;
  hear(candidate, news, own_cell);
  if (candidate.late && ran) {
    ++late_runs_.tried;
    if (news.outcome == Outcome::completed) ++late_runs_.worked;
  }
  if (news.outcome == Outcome::oom) hear_oom({candidate.is, number, 0});
  if (news.outcome != Outcome::completed || news.tokens_per_s_per_gpu <= 0) return;
  const double value = std::log(news.tokens_per_s_per_gpu);
  if (news.cut_short || (best_ && *best_ >= value)) return;
  best_ = value;
  leader_ = {number, news.tokens_per_s_per_gpu, news.resolution};
}

/// Kept where it rules out what nothing before it does.
void CellSearch::hear_oom(OutOfMemory oom) {
  if (!settings_.rules.memory || candidates_.empty()) return;
  if (oom.is.model.name != candidates_.front().is.model.name) return;
  const bool known =
      std::any_of(out_of_memory_.begin(), out_of_memory_.end(),
                  [&](const OutOfMemory& other) { return needs_as_much(oom.is, other.is); });
  if (!known) out_of_memory_.push_back(std::move(oom));
}

void CellSearch::learn(const SearchPoint& point, const SearchNews& news, std::size_t lesson) {
  if (news.outcome == Outcome::oom) hear_oom({point, std::nullopt, lesson});
  const auto& at = point.point;
  const auto next = static_cast<std::int32_t>(others_.size()) + 1;
  const auto cell =
      others_.try_emplace({parameters(point.model), at.seq_len, at.nodes, at.gpus}, next).first;
  hear({.is = point, .reads = reads_of(point), .look = {}}, news, cell->second);
}

/// How likely each reading is the one that was measured.
std::vector<double> CellSearch::which(const Candidate& candidate, const SearchNews& news,
                                      std::int32_t cell) {
  const auto& point = candidate.is;
  const auto& reads = candidate.reads;
  if (reads.size() == 1) return {1};
  // Student's t with three degrees of freedom: a run may be off for reasons of its own.
  const auto density = [](double off, double scale) {
    return std::pow(1 + off * off / (3 * scale * scale), -2);
  };
  constexpr double time_sigma = 0.25;
  constexpr double memory_sigma = 0.15;
  const auto factors = not_taken(candidate);
  std::vector<std::size_t> kinds;
  std::vector<double> likelihoods;
  const auto readings = readings_of(point);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const double fits = fit_.probability(reads[i].bounds);
    double likely = factors[i];
    if (news.outcome == Outcome::oom) likely *= 1 - fits;
    if (news.outcome == Outcome::completed) likely *= fits;
    if (news.outcome == Outcome::completed && news.peak_bytes > 0) {
      const auto reported =
          predictor_.reported_peak_bytes(point.model, readings[i].point, point.traits);
      likely *= density(
          std::log(static_cast<double>(news.peak_bytes) / static_cast<double>(reported)),
          memory_sigma);
    }
    if (news.tokens_per_s_per_gpu > 0) {
      auto site = reads[i].site;
      site.cell = cell;
      const double expected = reads[i].prior + residuals_.at(site).mean;
      likely *= density(std::log(news.tokens_per_s_per_gpu) - expected, time_sigma);
    }
    kinds.push_back(reads[i].kind);
    likelihoods.push_back(likely);
  }
  return readings_.learn(kinds, likelihoods);
}

void CellSearch::hear_memory(const SearchPoint& point, const Read& read,
                             const SearchNews& news) {
  if (news.outcome == Outcome::oom) fit_.learn(read.bounds, false);
  if (news.outcome != Outcome::completed) return;
  fit_.learn(read.bounds, true);
  const auto reported = predictor_.reported_peak_bytes(point.model, point.point, point.traits);
  const double share =
      static_cast<double>(reported) /
      static_cast<double>(
          predictor_.guess_memory(point.model, point.point, point.traits).estimate.total());
  const auto part = [&](std::int64_t bytes) {
    return static_cast<std::int64_t>(share * static_cast<double>(bytes));
  };
  fit_.learn_peak({part(read.bounds.lower), part(read.bounds.upper), read.bounds.capacity},
                  news.peak_bytes);
}

/// What starts and OOMs really take here.
void CellSearch::hear_cost(const Point& point, const SearchNews& news) {
  if (news.seconds <= 0) return;
  if (news.outcome == Outcome::oom) {
    cost_.oom_s += (news.seconds - cost_.oom_s) / ++ooms_;
  } else if (news.outcome == Outcome::completed && news.tokens_per_s_per_gpu > 0 &&
             !news.cut_short) {
    const double step_s = speed_of(1, point) / news.tokens_per_s_per_gpu;
    const double start_s = std::max(0.0, news.seconds - cost_.steps * step_s);
    cost_.start_s += (start_s - cost_.start_s) / ++starts_;
  }
}

void CellSearch::hear(const Candidate& candidate, const SearchNews& news, std::int32_t cell) {
  const auto& point = candidate.is;
  const auto& reads = candidate.reads;
  if (cell != own_cell) ++heard_;
  stale_ |= cell == own_cell || point.unknown.any() || others_have_grown();
  missing_.reset();
  if (news.outcome != Outcome::completed && news.outcome != Outcome::oom) return;
  if (cell == own_cell) ++judged_;
  hear_cost(point.point, news);
  if (news.outcome == Outcome::completed) fit_.learn_capacity(news.peak_bytes);
  const auto likely = which(candidate, news, cell);
  if (candidate.look) looks_[*candidate.look].ended.push_back(likely);
  const auto found =
      static_cast<std::size_t>(std::max_element(likely.begin(), likely.end()) - likely.begin());
  const auto& read = reads[found];
  constexpr double clear = 0.6;
  // Estimates of another size of model err in their own way: the bench finds the best layouts
  // later where their shift is shared. What a table leaves out is the same in all its cells.
  const bool tells_memory = cell == own_cell || point.unknown.any();
  if (tells_memory && likely[found] >= clear) {
    auto known = point;
    const auto reading = readings_of(point)[found];
    known.point = reading.point;
    known.traits = reading.traits;
    hear_memory(known, read, news);
  }
  if (news.outcome != Outcome::completed || news.tokens_per_s_per_gpu <= 0) return;
  // One that was cut short is slow, maybe for reasons of its own: as any slow run
  // (residuals.hpp). As a bound alone it says less, and the bench of published tables finds
  // less.
  Measured measured{read.site};
  measured.site.cell = cell;
  measured.speed = std::log(news.tokens_per_s_per_gpu);
  double prior = 0;
  for (std::size_t i = 0; i < reads.size(); ++i)
    prior += likely[i] * reads[i].prior;
  measured.off = measured.speed - prior;
  measured_.push_back(measured);
}

/// Of other cells the last that were about as fast as their cell's best: what makes layouts
/// slow there is not what has to be known here.
void CellSearch::add_others() {
  constexpr double about = 0.7;
  constexpr std::size_t most = 60;
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

/// What other cells measure is taken in by tenths: all cells of a sweep hear each run.
bool CellSearch::others_have_grown() const {
  return heard_ > heard_learnt_ + heard_learnt_ / 10;
}

void CellSearch::learn_residuals() {
  const auto before = residuals_.size();
  const bool anew = others_have_grown();
  if (anew) {
    residuals_.clear();
    add_others();
    learnt_ = 0;
    heard_learnt_ = heard_;
  }
  for (; learnt_ < measured_.size(); ++learnt_) {
    const auto& one = measured_[learnt_];
    if (one.site.cell == own_cell) residuals_.add(one.site, one.off);
  }
  if (anew || residuals_.size() != before) residuals_.fit();
}

/// Of those that have not ended the ones that may be fastest by what is known of them. In a
/// cell of 100,000 most are never looked at more closely: each look costs what all
/// measurements are worth, and what was last known of the others bounds them still.
std::vector<std::size_t> CellSearch::promising() const {
  constexpr std::size_t most = 2000;
  constexpr double sigmas = 2;
  constexpr double impossible = 1e-9;
  std::vector<std::pair<double, std::size_t>> open;  // at best, ln; negative
  open.reserve(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& candidate = candidates_[i];
    if (candidate.has_ended()) continue;
    open.emplace_back(-candidate.mean - sigmas * candidate.sigma -
                          std::log(candidate.fits * works(candidate) + impossible),
                      i);
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
    settle(candidate);
    const auto belief = residuals_.at(candidate.site());
    candidate.mean = candidate.prior + belief.mean;
    candidate.sigma = std::sqrt(belief.sigma * belief.sigma + candidate.between);
    candidate.known = belief.known;
  }
  rank();
}

/// What is tried in spite of a rule about it has what the rule's runs had of a chance.
double CellSearch::works(const Candidate& candidate) const {
  return candidate.late ? late_runs_.worked / late_runs_.tried : 1;
}

Prospect CellSearch::prospect_of(const Candidate& candidate) const {
  const double step_s = candidate.step_s * std::exp(candidate.prior - candidate.mean);
  return {candidate.mean, candidate.sigma, candidate.fits, works(candidate), step_s};
}

/// The order of all that has not ended, by what each one's run is worth, and its chance of
/// making it worth while.
void CellSearch::rank() {
  std::vector<std::pair<double, std::size_t>> ranks;
  ranks.reserve(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    auto& candidate = candidates_[i];
    if (candidate.has_ended()) continue;
    candidate.better = chance_of_better(candidate, settings_.until.regret);
    candidate.value =
        log_value(prospect_of(candidate), best_.has_value(), best_.value_or(0), cost_);
    INVARIANT(!std::isnan(candidate.value), "what a run is worth is a number", i,
              candidate.mean, candidate.sigma, candidate.fits, candidate.better);
    ranks.emplace_back(-candidate.value, i);
  }
  std::sort(ranks.begin(), ranks.end());
  ranked_.clear();
  ranked_.reserve(ranks.size());
  for (const auto& [value, number] : ranks)
    ranked_.push_back(number);
}

const CellSearch::OutOfMemory* CellSearch::ruled_out_by(std::size_t number) {
  auto& candidate = candidates_[number];
  for (; candidate.held_against < out_of_memory_.size(); ++candidate.held_against) {
    const auto& other = out_of_memory_[candidate.held_against];
    if (needs_as_much(candidate.is, other.is)) return &other;
  }
  return nullptr;
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
             would_cover(candidate.site().structure, missing());
    });
  }
  return waiting;
}

}  // namespace shardsweep
