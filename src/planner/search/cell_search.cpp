// SPDX-License-Identifier: Apache-2.0
#include "search/cell_search.hpp"

#include "text/numbers.hpp"

#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::int32_t own_cell = SpeedBelief::own_cell;

/// How many points get a new posterior: usually, and when scales are calibrated, times the square
/// of the number of runs.
constexpr std::size_t usually_renewed = 2000;
constexpr std::size_t renewed_at_calibration = 3'000'000;

/// Scale of a run's ln(speed) around its prediction.
constexpr double time_sigma = 0.25;

/// A density of three degrees of freedom, up to a constant: a run may be off for reasons of its
/// own.
double heavy_tailed(double off, double scale) {
  return std::pow(1 + off * off / (3 * scale * scale), -2);
}

}  // namespace

CellSearch::CellSearch(const SearchSettings& settings, const ClusterSpec& cluster,
    Predictor predictor, const LaunchCost& cost, std::unique_ptr<Alternatives> alternatives)
    : settings_(settings),
      predictor_(std::move(predictor)),
      speed_(cluster),
      memory_(cluster.memory_bytes),
      alternatives_(std::move(alternatives)),
      cost_(cost) {}

std::vector<Candidate::Component> CellSearch::components_of(const SearchPoint& point) const {
  std::vector<Alternative> layouts{{point.point, point.traits}};
  if (alternatives_) layouts = alternatives_->of(point);
  std::vector<Component> components;
  for (const auto& layout : layouts) {
    const SearchPoint at{point.model, layout.point, layout.traits};
    const auto guess = predictor_.guess(at.model, at.point, at.traits);
    components.push_back(
        {speed_.input_of(at, guess.time), {guess.memory.lower_bytes, guess.memory.upper_bytes},
            std::log(speed_of(guess.step_s, at.point)), std::log(guess.retries)});
  }
  return components;
}

Candidate::Layout CellSearch::layout_of(const SearchPoint& point, bool elsewhere) {
  Candidate::Layout layout{point, components_of(point)};
  if (layout.components.size() > 1) layout.alternatives = alternatives_->add(point, elsewhere);
  return layout;
}

/// The chance that no retries slow a layout down although they are predicted. They follow from an
/// estimate of its memory, which is in doubt: taken for certain, 40 % of the claims of 99 % are
/// true on made machines, in place of 100, and regrets reach 22 % (bench_planner, 20 seeds).
double CellSearch::chance_unslowed(const Component& component) const {
  return component.log_retries > 0 ? memory_.headroom(component.bounds) : 0;
}

/// Posterior chance that no retries slowed a run, by its measured ln(speed); chance_unslowed() is
/// the prior.
double CellSearch::posterior_unslowed(
    const Component& component, double speed, std::int32_t cell) const {
  const double headroom = chance_unslowed(component);
  if (headroom <= 0) return 0;
  auto input = component.input;
  input.cell = cell;
  const double off = speed - component.prior - speed_.posterior(input).mean;
  const double fast = headroom * heavy_tailed(off - component.log_retries, time_sigma);
  const double slow = (1 - headroom) * heavy_tailed(off, time_sigma);
  return fast / (fast + slow);
}

/// Predicted ln(speed) of a run that is now measured, with retries of the allocator as far as its
/// speed shows them. Retries follow from memory, and teach nothing about time.
double CellSearch::predicted(const Component& component, double speed, std::int32_t cell) const {
  return component.prior + component.log_retries * posterior_unslowed(component, speed, cell);
}

/// Updates the mixture over a point's components, each by its weight.
void CellSearch::update_posterior(Candidate& candidate) const {
  const auto& [point, components, alternatives] = *candidate.layout;
  std::vector<double> weights{1};
  if (alternatives) weights = alternatives_->weights(*alternatives);
  candidate.fits = 0;
  constexpr double least = 1e-9;
  for (std::size_t i = 0; i < weights.size(); ++i)
    candidate.fits += weights[i] * memory_.fits(components[i].bounds);
  // Only layouts that fit have a speed, so weigh each component by its chance to fit.
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double fits = memory_.fits(components[i].bounds);
    weights[i] *= (fits + least) / (candidate.fits + least);
  }
  const auto likeliest = std::max_element(weights.begin(), weights.end());
  candidate.likeliest = static_cast<std::size_t>(likeliest - weights.begin());
  candidate.speeds.clear();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    // Each component costs a pass over all measurements.
    constexpr double negligible = 0.01;
    if (weights[i] < negligible * *likeliest) continue;
    const auto& component = components[i];
    const auto off = speed_.posterior(component.input);
    const auto guess = [&](double chance, double retries) {
      if (chance > 0)
        candidate.speeds.push_back(
            {weights[i] * chance, component.prior + retries + off.mean, off.sigma, off.noise});
    };
    const double headroom = chance_unslowed(component);
    guess(headroom, component.log_retries);
    guess(1 - headroom, 0);
  }
  double sum = 0;
  for (const auto& guess : candidate.speeds)
    sum += guess.chance;
  for (auto& guess : candidate.speeds)
    guess.chance /= sum;
  const auto all = moments_of(candidate.speeds);
  candidate.mean = all.mean;
  candidate.sigma = all.sigma;
  candidate.step_s = speed_of(1, point.point) / std::exp(all.mean);
}

std::size_t CellSearch::add(const SearchPoint& point) {
  speed_.widen(point.point, structure_of(point.point),
      candidates_.empty() ? nullptr : &candidates_.front().input().structure);
  Candidate candidate{.layout = std::make_unique<Candidate::Layout>(layout_of(point, false))};
  update_posterior(candidate);
  candidates_.push_back(std::move(candidate));
  renewed_.clear();
  stale_ = judge_all_ = true;
  return candidates_.size() - 1;
}

void CellSearch::set(Candidate& candidate, Status status) {
  if (candidate.status == Status::spared) --spared_;
  if (status == Status::spared) ++spared_;
  candidate.status = status;
}

void CellSearch::start(std::size_t number) {
  if (candidates_[number].status != Status::waiting) return;
  set(candidates_[number], Status::started);
  ++started_;
}

void CellSearch::put_back(std::size_t number) {
  auto& candidate = candidates_[number];
  const auto status = candidate.status;
  if (status != Status::started && status != Status::spared) return;
  if (status == Status::started) --started_;
  INVARIANT(started_ >= 0, "no more is put back than was started", number, started_);
  // Rank a point anew when it comes back.
  if (status == Status::spared) stale_ = true;
  set(candidate, Status::waiting);
}

void CellSearch::spare(std::size_t number) {
  if (candidates_[number].status != Status::waiting) return;
  set(candidates_[number], Status::spared);
}

void CellSearch::end(std::size_t number, const SearchNews& news) {
  auto& candidate = candidates_[number];
  if (candidate.has_ended()) return;
  const bool ran = news.outcome != Outcome::skipped && news.outcome != Outcome::cancelled;
  if (candidate.status != Status::started && ran) ++started_;
  INVARIANT(started_ <= static_cast<std::int64_t>(candidates_.size()),
      "no point of a cell is started twice", number, started_, candidates_.size());
  set(candidate, ran && news.outcome != Outcome::oom ? Status::tried : Status::gone);
  const bool was_last = std::erase(renewed_, number) > 0 && renewed_.empty();
  observe(*candidate.layout, news, own_cell);
  const bool completed = news.outcome == Outcome::completed;
  if (completed) memory_.observe_fit(point(number));
  if (news.outcome == Outcome::oom) observe_oom({point(number), number, 0});
  if (completed || news.outcome == Outcome::oom) ++judged_;
  const double speed = news.tokens_per_s_per_gpu;
  if (completed && !news.cut_short && speed > (leader_ ? leader_->tokens_per_s_per_gpu : 0)) {
    leader_ = {number, speed, news.resolution};
    best_ = std::log(speed);
    judge_all_ = true;
  }
  refresh_if_due(was_last);
}

void CellSearch::observe_oom(OutOfMemory oom) {
  if (!settings_.rules.memory || candidates_.empty()) return;
  if (oom.is.model.name == point(0).model.name) memory_.observe_oom(std::move(oom));
}

void CellSearch::learn(const SearchPoint& point, const SearchNews& news, std::size_t lesson) {
  if (news.outcome == Outcome::oom) observe_oom({point, std::nullopt, lesson});
  if (news.outcome == Outcome::completed) memory_.observe_fit(point);
  observe(layout_of(point, true), news, speed_.cell_of(point));
  refresh_if_due();
}

namespace {

/// How much the memory of a run tells of that of another one, which has another model and
/// another number of GPUs: half as much for each doubling of either.
double likeness(const SearchPoint& a, const SearchPoint& b) {
  const auto doublings = [](double one, double other) {
    return std::abs(std::log2(std::max(one, 1.0) / std::max(other, 1.0)));
  };
  return std::exp2(-doublings(static_cast<double>(parameters(a.model)),
                       static_cast<double>(parameters(b.model))) -
      doublings(a.point.gpus, b.point.gpus));
}

}  // namespace

void CellSearch::remember(const SearchPoint& then, const SearchNews& news) {
  auto layout = layout_of(then, true);
  if (layout.components.size() == 1 && !candidates_.empty())
    memory_.remember(layout.components.front().bounds, news.outcome, likeness(then, point(0)));
  stale_ = true;
  for (auto& component : layout.components)
    component.input.remembered = true;
  observe(layout, {news.outcome, news.tokens_per_s_per_gpu}, speed_.cell_of(then, true));
  refresh_if_due();
}

/// How likely each component is the one that was measured.
std::vector<double> CellSearch::component_posterior(
    const Candidate::Layout& layout, const SearchNews& news, std::int32_t cell) {
  if (!layout.alternatives) return {1};
  constexpr double memory_sigma = 0.15;
  const auto layouts = alternatives_->of(layout.is);
  std::vector<double> likelihoods;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const auto& component = layout.components[i];
    const double fits = memory_.fits(component.bounds);
    double likely = news.outcome == Outcome::oom ? 1 - fits : fits;
    if (news.outcome == Outcome::completed && news.peak_bytes > 0) {
      const auto reported =
          predictor_.reported_peak_bytes(layout.is.model, layouts[i].point, layout.is.traits);
      likely *= heavy_tailed(
          std::log(static_cast<double>(news.peak_bytes) / static_cast<double>(reported)),
          memory_sigma);
    }
    if (news.tokens_per_s_per_gpu > 0) {
      auto input = component.input;
      input.cell = cell;
      const double speed = std::log(news.tokens_per_s_per_gpu);
      const double expected = predicted(component, speed, cell) + speed_.posterior(input).mean;
      likely *= heavy_tailed(speed - expected, time_sigma);
    }
    likelihoods.push_back(likely);
  }
  return alternatives_->learn(*layout.alternatives, std::move(likelihoods));
}

void CellSearch::observe(
    const Candidate::Layout& layout, const SearchNews& news, std::int32_t cell) {
  const auto& point = layout.is;
  const auto& components = layout.components;
  if (news.outcome != Outcome::completed && news.outcome != Outcome::oom) return;
  stale_ |= cell == own_cell || point.unknown.any();
  cost_.observe(point.point, news);
  unranked_ |= news.seconds > 0;
  // All runs before this one judge which of several layouts it was.
  if (components.size() > 1 || components.front().log_retries > 0) speed_.learn();
  const auto likely = component_posterior(layout, news, cell);
  const auto found =
      static_cast<std::size_t>(std::max_element(likely.begin(), likely.end()) - likely.begin());
  constexpr double clear = 0.6;
  // Estimates of another size of model err in their own way: the bench finds the best layouts
  // later if their shift is shared. What a table leaves out is the same in all its cells.
  const bool tells_memory = cell == own_cell || point.unknown.any();
  if (tells_memory && likely[found] >= clear)
    memory_.observe(components[found].bounds, news.outcome);
  if (news.outcome != Outcome::completed || news.tokens_per_s_per_gpu <= 0) return;
  // A run that was cut short counts as any slow run does: it may be slow for reasons of its own
  // (residuals.hpp). As a bound alone it would say less, and the bench of published tables would
  // find less.
  auto input = components[found].input;
  input.cell = cell;
  const double speed = std::log(news.tokens_per_s_per_gpu);
  double expected = 0;
  for (std::size_t i = 0; i < components.size(); ++i)
    expected += likely[i] * predicted(components[i], speed, cell);
  stale_ |= speed_.observe(input, speed, expected);
}

/// Points that have not ended and may be fastest, by their last posterior: at most so many.
std::vector<std::size_t> CellSearch::promising(std::size_t most) const {
  constexpr double sigmas = 2;
  constexpr double impossible = 1e-9;
  Ranks open;  // minus the ln(speed) at best, and the point
  open.reserve(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& candidate = candidates_[i];
    if (candidate.has_ended()) continue;
    open.emplace_back(
        -candidate.mean - sigmas * candidate.sigma - std::log(candidate.fits + impossible), i);
  }
  const auto count = std::min(most, open.size());
  std::nth_element(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(count), open.end());
  std::vector<std::size_t> numbers;
  numbers.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers.push_back(open[i].second);
  return numbers;
}

/// Brings the posteriors and the order of points that have not ended up to all measurements. A
/// posterior costs a pass over these, and a cell may have 100,000 points: the most promising get a
/// new one. Which these are is decided whenever scales are calibrated or the last of them has
/// ended, and of a number that such a pass is fast for. It follows from the measurements, and not
/// from when somebody asked.
void CellSearch::refresh() {
  if (!std::exchange(stale_, false)) {
    if (unranked_) rank();
    return;
  }
  const bool anew = renewed_.empty() || speed_.calibrates_next() || !speed_.is_calibrated();
  speed_.learn();
  const auto renew = [&] {
    for (const auto number : renewed_)
      update_posterior(candidates_[number]);
  };
  renew();
  if (anew) {
    // The last choice is renewed first: else this one would depend on how many runs there were
    // when somebody asked last.
    const auto cost = std::max<std::size_t>(speed_.runs() * speed_.runs(), 1);
    renewed_ = promising(std::max(usually_renewed, renewed_at_calibration / cost));
    renew();
    judge_all_ = true;  // what is no longer chosen has a new posterior too
  }
  judge();
  rank();
  if (anew && renewed_.size() > usually_renewed) renewed_ = promising(usually_renewed);
}

/// A search that is made anew from rows learns all at once; it must not miss a moment at which the
/// promising points of a large cell are decided. Before scales are calibrated there is none: each
/// question renews all points.
void CellSearch::refresh_if_due(bool none_left) {
  if (candidates_.size() <= usually_renewed) return;
  const bool chooses = none_left && speed_.is_calibrated();
  stale_ |= chooses;
  if (chooses || speed_.calibrates_next()) refresh();
}

/// Judges points against the best: those with a new posterior, or all if the best has changed.
void CellSearch::judge() {
  const auto judge_one = [&](std::size_t number) {
    auto& candidate = candidates_[number];
    candidate.better = chance_of_better(candidate);
    candidate.log_gain = log_gain(candidate.speeds, candidate.fits, best_);
    INVARIANT(!std::isnan(candidate.log_gain), "what a run is worth is a number", number,
        candidate.mean, candidate.sigma, candidate.fits, candidate.better);
  };
  if (!std::exchange(judge_all_, false)) {
    std::for_each(renewed_.begin(), renewed_.end(), judge_one);
    return;
  }
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    if (!candidates_[i].has_ended()) judge_one(i);
}

/// The order of all that has not ended, by what each one's run is worth.
void CellSearch::rank() {
  unranked_ = false;
  ranked_.clear();
  ranked_.reserve(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& candidate = candidates_[i];
    if (candidate.has_ended()) continue;
    const double seconds = expected_seconds(candidate.fits, candidate.step_s, cost_.cost());
    ranked_.emplace_back(-log_value(candidate.log_gain, seconds), i);
  }
  std::sort(ranked_.begin(), ranked_.end());
}

const OutOfMemory* CellSearch::ruled_out_by(std::size_t number) {
  return memory_.ruled_out_by(point(number), candidates_[number].held_against);
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
  for (const auto& [value, number] : ranked_)
    take(number);
  return waiting;
}

/// The chance that a point fits and beats the best by until.regret.
double CellSearch::chance_of_better(const Candidate& candidate) const {
  if (!leader_) return candidate.fits;
  // The best may be slower than its log says.
  const double rounded = std::min(leader_->resolution, 0.5);
  return candidate.fits *
      chance_above(
          candidate.speeds, *best_ + std::log1p(-rounded) + std::log1p(settings_.until.regret));
}

/// Chance that no waiting point beats the best by until.regret; `with_spared`: nor a spared one.
double CellSearch::chance_of_none(bool with_spared) const {
  double none = 1;
  for (const auto& candidate : candidates_) {
    const bool counts =
        candidate.status == Status::waiting || (with_spared && candidate.status == Status::spared);
    if (counts) none *= 1 - candidate.better;
  }
  return none;
}

/// A sentence if a limit of runs or GPU-hours is reached; else none.
std::optional<std::string> CellSearch::limit_reached(double gpu_hours) const {
  const auto& until = settings_.until;
  if (until.runs > 0 && started_ >= until.runs)
    return fmt::format("Search stopped: this cell has used its {} (search.until.runs).",
        counted(until.runs, "run"));
  if (until.gpu_hours > 0 && gpu_hours >= until.gpu_hours)
    return fmt::format(
        "Search stopped: this cell has used {:.2f} of its {:g} GPU-hours "
        "(search.until.gpu_hours).",
        gpu_hours, until.gpu_hours);
  return std::nullopt;
}

std::optional<std::string> CellSearch::enough(double gpu_hours) {
  if (auto limit = limit_reached(gpu_hours)) return limit;
  const auto& until = settings_.until;
  if (until.regret <= 0) return std::nullopt;
  refresh();
  const double none = chance_of_none(false);
  if (none < until.confidence) return std::nullopt;
  // Round down, because 99.9 % is no certainty.
  const double sure = std::min(std::floor(100 * none), 99.0);
  if (!leader_)
    return fmt::format(
        "Search stopped: {:.0f} % sure that nothing untested fits into memory.", sure);
  auto text = fmt::format(
      "Search stopped: {:.0f} % sure that nothing untested beats {} tokens/s per GPU by {:g} %",
      sure, grouped(std::llround(leader_->tokens_per_s_per_gpu)), 100 * until.regret);
  if (leader_->resolution > 0)
    text += fmt::format(" (its log rounds {} away)", percent_text(leader_->resolution));
  // A point that is still running may beat the best, and is no part of what is said.
  const auto running = std::count_if(candidates_.begin(), candidates_.end(),
      [](const Candidate& candidate) { return candidate.status == Status::started; });
  if (running > 0)
    text += fmt::format(". Not yet measured: {} of this cell", counted(running, "run"));
  return text + ".";
}

/// A chance below which a layout is left out, and one from which it is taken back.
constexpr double least_chance = 0.003;
constexpr double fair_chance = 0.05;

std::vector<std::size_t> CellSearch::to_reopen(double gpu_hours) {
  std::vector<std::size_t> numbers;
  if (limit_reached(gpu_hours)) return numbers;
  refresh();
  constexpr double as_large_again = 1.5;
  const auto& [regret, confidence, runs, hours] = settings_.until;
  if (regret > 0 && 1 - chance_of_none(true) <= as_large_again * (1 - confidence)) return numbers;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& candidate = candidates_[i];
    if (candidate.status != Status::spared) continue;
    if (candidate.fits >= fair_chance) numbers.push_back(i);
  }
  return numbers;
}

std::optional<std::string> CellSearch::wont_fit(std::size_t number) {
  const auto& candidate = candidates_[number];
  // No cell is given up before it has run at least one point.
  if (!settings_.rules.memory || judged_ == 0) return std::nullopt;
  if (settings_.policy == SearchPolicy::exhaustive || candidate.status != Status::waiting)
    return std::nullopt;
  refresh();
  if (candidate.fits >= least_chance) return std::nullopt;
  constexpr double gib = 1024.0 * 1024 * 1024;
  const auto& bounds = candidate.layout->components[candidate.likeliest].bounds;
  return fmt::format("{} Estimate: {:.1f} to {:.1f} GiB of {:.1f} GiB, {:.1f} % likely to fit.",
      unfit_reason, static_cast<double>(bounds.lower) / gib,
      static_cast<double>(bounds.upper) / gib, static_cast<double>(memory_.capacity()) / gib,
      100 * candidate.fits);
}

std::string CellSearch::why_next(std::size_t number) {
  const auto& candidate = candidates_[number];
  if (!best_) return "No layout of the cell has been measured yet.";
  return fmt::format("{:.1f} % likely to beat {} tokens/s per GPU.", 100 * candidate.better,
      grouped(std::llround(std::exp(*best_))));
}

CellSearch::Outlook CellSearch::outlook(std::size_t number) {
  if (settings_.policy == SearchPolicy::exhaustive) return {.why = "The plan's order."};
  refresh();
  const auto& candidate = candidates_[number];
  return {std::exp(candidate.mean), candidate.sigma, candidate.fits, candidate.better,
      expected_seconds(candidate.fits, candidate.step_s, cost_.cost()), why_next(number)};
}

std::string CellSearch::bound_text(std::size_t number) {
  refresh();
  const auto& candidate = candidates_[number];
  constexpr double upper_sigmas = 1.645;
  return fmt::format(
      "This layout: predicted {} (95 % sure to be below {}), {:.0f} % likely to fit.",
      grouped(std::llround(std::exp(candidate.mean))),
      grouped(std::llround(std::exp(candidate.mean + upper_sigmas * candidate.sigma))),
      100 * candidate.fits);
}

}  // namespace shardsweep
