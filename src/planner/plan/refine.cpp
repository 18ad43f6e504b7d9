// SPDX-License-Identifier: Apache-2.0
// Decision: descent and not the product of all axes. Of each way to split the GPUs the axes that
// split nothing are changed, in each round the one that helps most. Splits whose usual layout can't
// start are looked at if a bound on their steps promises more. The fastest of all are changed in
// all axes, two at once, for a few rounds. What depends on a changed axis follows it:
// stages, virtual stages, micro-batches. bench_locks asks random questions and counts answers that
// something beats.
#include "plan/refine.hpp"

#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

/// Shares of a step below which `suggest` says that two layouts are equally fast; here the larger
/// part of it, since what is given back adds up.
constexpr double tie = 0.0004;

/// True for axes that say how GPUs and state are split.
bool is_of_split(const AxisInfo& axis) {
  constexpr std::array<std::string_view, 5> names{"tp", "pp", "cp", "ep", "zero"};
  return std::find(names.begin(), names.end(), axis.name) != names.end();
}

}  // namespace

std::vector<std::int64_t> divisors(std::int64_t of, std::int64_t most) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = 1; value <= std::min(of, most); ++value)
    if (of % value == 0) values.push_back(value);
  return values;
}

std::vector<std::int64_t> virtual_stages(const SuggestRequest& request, std::int64_t most) {
  const std::int64_t ends = trainer_file(request.family->words).ends_count_as_layers ? 2 : 0;
  std::vector<std::int64_t> values;
  for (std::int64_t value = 1; value <= most; ++value)
    if ((request.model.layers + ends) % value <= ends) values.push_back(value);
  return values;
}

LayoutRefiner::LayoutRefiner(const SuggestRequest& request, const Predictor& predictor,
    SweepSpec sweep, Refusal refusal, TellStages tell_stages)
    : request_(request),
      predictor_(predictor),
      sweep_(std::move(sweep)),
      judge_(sweep_, any_, nullptr, nullptr),
      refusal_(std::move(refusal)),
      tell_stages_(std::move(tell_stages)) {}

bool LayoutRefiner::locks(std::string_view axis) const {
  return std::any_of(request_.locks.begin(), request_.locks.end(),
      [&](const AxisValues& lock) { return lock.axis->name == axis; });
}

std::vector<std::int64_t> LayoutRefiner::values(const AxisInfo& axis, const Point& at) const {
  constexpr std::int64_t most_shards = 64;
  constexpr std::int64_t smallest_bucket = 32;
  const auto& is = at.layout;
  const auto& model = request_.model;
  const auto up_to = [&](std::int64_t most) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(most - axis.minimum + 1));
    std::iota(all.begin(), all.end(), axis.minimum);
    return all;
  };
  // Offloading is never suggested unasked; dp and grad_accum follow from the others.
  if (locks(axis.name) || axis.allows_auto || axis.name == "offload") return {};
  if (axis.name == "first_stage_layers" || axis.name == "last_stage_layers") return {};
  if (axis.name == "tp") return divisors(request_.gpus, model.heads);
  if (axis.name == "pp") return divisors(request_.gpus, model.layers);
  if (axis.name == "cp") return divisors(std::gcd(request_.gpus, request_.seq_len), request_.gpus);
  if (axis.name == "ep") return divisors(model.experts, request_.gpus);
  if (axis.name == "vpp") return up_to(is.pp == 1 ? 1 : model.layers / is.pp + 1);
  if (axis.name == "dp_replicate") return divisors(is.dp, is.dp);
  if (axis.name == "micro_batch") {
    const auto samples = request_.global_batch_tokens / request_.seq_len;
    return divisors(std::max<std::int64_t>(samples / is.dp, 1), samples);
  }
  if (axis.name == "expert_tp") {
    if (model.experts == 0) return {};
    auto shards = divisors(request_.gpus / is.pp, most_shards);
    shards.insert(shards.begin(), 0);
    return shards;
  }
  if (axis.name == "bucket_mb") {
    std::vector<std::int64_t> sizes{axis.default_value};
    for (auto size = smallest_bucket; size <= axis.maximum; size *= 2)
      sizes.push_back(size);
    return sizes;
  }
  return up_to(axis.maximum);
}

/// Sets what follows from the degrees, unless somebody holds it; false: it is no whole number.
bool LayoutRefiner::derive(Point& point) const {
  auto& is = point.layout;
  const auto others = std::int64_t{is.tp} * is.pp * is.cp;
  if (!locks("dp")) {
    if (request_.gpus % others != 0) return false;
    is.dp = static_cast<std::int32_t>(request_.gpus / others);
  }
  const auto samples = request_.global_batch_tokens / request_.seq_len;
  if (samples % is.dp != 0) return false;
  if (!locks("micro_batch"))
    is.micro_batch = static_cast<std::int32_t>(std::gcd(samples / is.dp, is.micro_batch));
  if (!locks("grad_accum")) {
    const auto at_once = std::int64_t{is.dp} * is.micro_batch;
    if (samples % at_once != 0) return false;
    is.grad_accum = static_cast<std::int32_t>(samples / at_once);
  }
  if (!locks("dp_replicate")) is.dp_replicate = is.zero == 0 ? 1 : std::gcd(is.dp, is.dp_replicate);
  if (is.tp == 1 && !locks("sequence_parallel")) is.sequence_parallel = false;
  if (is.pp > 1) return true;
  if (!locks("vpp")) is.vpp = 1;
  if (!locks("schedule")) is.schedule = Schedule::one_f_one_b;
  if (!locks("first_stage_layers")) is.first_stage_layers = 0;
  if (!locks("last_stage_layers")) is.last_stage_layers = 0;
  return true;
}

bool LayoutRefiner::keeps_rules(const Point& point) {
  if (point.layout.vpp > 1 && point.layout.pp == 1) return false;
  return !judge_.breaks_rule({0, point, Gap::none});
}

bool LayoutRefiner::attempt(Point point, Best& best) {
  if (!derive(point) || point == best.layout.point) return false;
  // Cheaper questions first.
  if (!keeps_rules(point)) return false;
  const double before = best.layout.guess.step_s;
  const double longest = best.fits ? before : best.longest;
  if (longest > 0 && predictor_.least_step_s(request_.model, point) >= longest) return false;
  if (!refusal_(point).empty()) return false;
  auto guess = predictor_.guess(request_.model, point);
  const bool fits = guess.memory.fit == Fit::fits;
  const bool is_better = fits
      ? !best.fits || guess.step_s < before
      : !best.fits && guess.memory.upper_bytes < best.layout.guess.memory.upper_bytes;
  if (is_better) best = {{std::move(point), guess}, fits};
  return is_better;
}

/// The point with one axis changed and what has to change with it.
Point LayoutRefiner::changed(Point point, const AxisInfo& axis, std::int64_t value) const {
  const Layout was = point.layout;
  axis.set(point, value);
  auto& is = point.layout;
  if (was.tp == 1 && is.tp > 1 && !locks("sequence_parallel")) is.sequence_parallel = true;
  // Folded stages (zb-v) give each rank two pieces of equal size.
  const bool folds = is.schedule == Schedule::zb_v;
  const bool turns = folds != (was.schedule == Schedule::zb_v);
  if (turns && !locks("vpp")) is.vpp = folds ? 2 : 1;
  if (is.pp != was.pp || is.vpp != was.vpp || turns) tell_stages_(is);
  return point;
}

/// Takes the best of all changes of one axis, or of two at once.
bool LayoutRefiner::attempt_axes(Best& best, Reach reach) {
  bool moved = false;
  const auto each = [&](const Point& from, std::size_t first, auto&& visit) {
    for (auto at = first; at < axes().size(); ++at) {
      const auto& axis = axes()[at];
      if (!axis.of_layout() || (reach == Reach::split && is_of_split(axis))) continue;
      for (const auto value : values(axis, from)) {
        visit(changed(from, axis, value), at + 1);
        if (axis.name != "vpp" || !from.layout.has_uneven_stages()) continue;
        Point as_uneven = from;
        axis.set(as_uneven, value);
        visit(as_uneven, at + 1);
      }
    }
  };
  const Point from = best.layout.point;
  each(from, 0, [&](const Point& one, std::size_t next) {
    moved = attempt(one, best) || moved;
    if (reach != Reach::pairs || one == from) return;
    each(one, next, [&](const Point& two, std::size_t) { moved = attempt(two, best) || moved; });
  });
  return moved;
}

/// Stages whose ends have fewer layers than those between, beside the embedding and the head.
bool LayoutRefiner::attempt_stages(Best& best) {
  const auto& at = best.layout.point.layout;
  const std::int64_t stages = at.pp;
  if (stages == 1 || (locks("first_stage_layers") && locks("last_stage_layers"))) return false;
  const std::int64_t pieces = at.vpp;
  const auto layers = request_.model.layers;
  constexpr std::int64_t more = 3;
  bool moved = false;
  const auto least = (layers + stages * pieces - 1) / (stages * pieces) * pieces;
  for (auto middle = least; middle <= least + more * pieces; middle += pieces) {
    const auto rest = layers - middle * (stages - 2);
    for (std::int64_t last = std::max(pieces, rest - middle);
         last <= std::min(middle, rest - pieces); last += pieces) {
      Point point = best.layout.point;
      auto& is = point.layout;
      if (!locks("first_stage_layers"))
        is.first_stage_layers = static_cast<std::int32_t>(rest - last);
      if (!locks("last_stage_layers")) is.last_stage_layers = static_cast<std::int32_t>(last);
      moved = attempt(std::move(point), best) || moved;
    }
  }
  Point told = best.layout.point;
  tell_stages_(told.layout);
  moved = attempt(std::move(told), best) || moved;
  Point even = best.layout.point;
  if (!locks("first_stage_layers")) even.layout.first_stage_layers = 0;
  if (!locks("last_stage_layers")) even.layout.last_stage_layers = 0;
  return attempt(std::move(even), best) || moved;
}

/// The least value, or the default, of each axis with which the step is as long but for a tie.
void LayoutRefiner::give_back(Best& best) {
  const double longest = best.layout.guess.step_s * (1 + tie);
  const auto take = [&](Point point) {
    if (!derive(point) || !keeps_rules(point) || !refusal_(point).empty()) return false;
    auto guess = predictor_.guess(request_.model, point);
    if (guess.memory.fit != Fit::fits || guess.step_s > longest) return false;
    best.layout = {std::move(point), guess};
    return true;
  };
  Point even = best.layout.point;
  if (even.layout.has_uneven_stages() && !locks("first_stage_layers") &&
      !locks("last_stage_layers")) {
    even.layout.first_stage_layers = even.layout.last_stage_layers = 0;
    take(even);
  }
  for (const auto& axis : axes()) {
    // Flash attention may leave nothing to be computed again.
    const bool is_named = axis.is(AxisUse::suggested) && axis.name != "recompute";
    if (!axis.of_layout() || is_named || axis.get(best.layout.point) == axis.default_value)
      continue;
    for (const auto value : values(axis, best.layout.point)) {
      const bool is_larger = axis.name == "bucket_mb" && value >= axis.get(best.layout.point);
      if (is_larger || (axis.name != "bucket_mb" && value != axis.default_value)) continue;
      Point point = best.layout.point;
      axis.set(point, value);
      if (take(std::move(point))) break;
    }
  }
}

/// A layout that can't start gives its place to any that can.
LayoutRefiner::Best LayoutRefiner::begin(const Point& from) {
  Best best{{from, {}}, false};
  best.layout.guess.memory.upper_bytes = std::numeric_limits<std::int64_t>::max();
  if (!keeps_rules(from) || !refusal_(from).empty()) return best;
  best.layout.guess = predictor_.guess(request_.model, from);
  best.fits = best.layout.guess.memory.fit == Fit::fits;
  return best;
}

std::optional<GuessedLayout> LayoutRefiner::refined(const Point& from, double step_s, Reach reach) {
  constexpr int most_rounds = 8;
  Best best = begin(from);
  for (int round = 0; round < most_rounds; ++round) {
    const bool stages = attempt_stages(best);
    if (!attempt_axes(best, reach) && !stages) break;
  }
  if (!best.fits || best.layout.guess.step_s >= step_s) return std::nullopt;
  give_back(best);
  return best.layout;
}

/// Each combination of tp, pp, cp, ep and these stages of ZeRO, but for what is held.
std::vector<Point> LayoutRefiner::all_splits(std::vector<std::int64_t> zero) const {
  const auto& model = request_.model;
  const auto of_gpus = divisors(request_.gpus, request_.gpus);
  const auto of_samples = divisors(std::gcd(request_.gpus, request_.seq_len), request_.gpus);
  const std::array<std::pair<std::string_view, std::vector<std::int64_t>>, 5> ranges{{
      {"tp", divisors(request_.gpus, model.heads)},
      {"pp", divisors(request_.gpus, model.layers)},
      {"cp", of_samples},
      {"ep", model.experts > 0 ? of_gpus : std::vector<std::int64_t>{1}},
      {"zero", std::move(zero)},
  }};
  Point start = world_of(request_);
  start.layout.recompute = Recompute::full;
  for (const auto& lock : request_.locks)
    lock.axis->set(start, lock.values.front());
  std::vector<Point> points{start};
  for (const auto& [name, values] : ranges) {
    if (locks(name)) continue;
    std::vector<Point> more;
    for (const Point& point : points) {
      for (const auto value : values)
        find_axis(name)->set(more.emplace_back(point), value);
    }
    points = std::move(more);
  }
  return points;
}

std::vector<Point> LayoutRefiner::splits() {
  auto points = all_splits({0, 1, 3});
  std::erase_if(points, [&](Point& point) {
    auto& is = point.layout;
    if (!locks("sequence_parallel")) is.sequence_parallel = is.tp > 1;
    tell_stages_(is);
    return !derive(point) || !keeps_rules(point);
  });
  return points;
}

/// The shortest step that a split's layouts can about have: of those with the least that is
/// computed again, and with memory that other stages or buckets may give.
LayoutRefiner::Promise LayoutRefiner::promise_of(const Point& split, double step_s) {
  constexpr double less_memory = 1.15;
  constexpr double less_time = 0.97;
  constexpr std::int64_t most_samples = 8;
  const auto capacity = static_cast<double>(request_.cluster.memory_bytes);
  const auto& micro_batch = *find_axis("micro_batch");
  Promise promise{step_s, split};
  for (const auto samples : values(micro_batch, split)) {
    if (samples > most_samples) break;
    for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Point point = split;
      micro_batch.set(point, samples);
      if (!locks("recompute")) point.layout.recompute = recompute;
      if (!derive(point) || !keeps_rules(point)) break;
      const double least = less_time * predictor_.least_step_s(request_.model, point, true);
      if (least >= promise.least_s) break;
      const auto memory = predictor_.guess_memory(request_.model, point);
      if (capacity > 0 && static_cast<double>(memory.upper_bytes) > less_memory * capacity)
        continue;
      promise = {least, std::move(point)};
      break;
    }
  }
  return promise;
}

std::vector<LayoutRefiner::Promise> LayoutRefiner::promising(double step_s) {
  std::vector<Promise> found;
  for (Point& point : all_splits({1, 3})) {
    if (!locks("sequence_parallel")) point.layout.sequence_parallel = point.layout.tp > 1;
    tell_stages_(point.layout);
    if (!derive(point) || !keeps_rules(point)) continue;
    auto promise = promise_of(point, step_s);
    if (promise.least_s < step_s) found.push_back(std::move(promise));
  }
  std::stable_sort(found.begin(), found.end(),
      [](const Promise& a, const Promise& b) { return a.least_s < b.least_s; });
  // Ranks that share samples, or state, do as much as others with larger micro-batches.
  std::set<std::array<std::int32_t, 3>> kinds;
  std::erase_if(found, [&](const Promise& one) {
    const auto& is = one.point.layout;
    return !kinds.insert({is.tp, is.pp, is.ep}).second;
  });
  return found;
}

Point LayoutRefiner::first_of(const Point& split, double step_s) {
  constexpr double worth_refining = 1.5;
  Best best = begin(split);
  best.longest = worth_refining * step_s;
  constexpr std::int64_t most_samples = 8;
  const std::array<std::string_view, 4> names{"vpp", "schedule", "micro_batch", "recompute"};
  const auto change = [&](const auto& self, const Point& from, std::size_t at) -> void {
    if (at == names.size()) {
      attempt(from, best);
      return;
    }
    const auto& axis = *find_axis(names.at(at));
    const auto all = values(axis, from);
    if (all.empty()) self(self, from, at + 1);
    for (const auto value : all) {
      if (axis.name == "micro_batch" && value > most_samples) break;
      self(self, changed(from, axis, value), at + 1);
    }
  };
  change(change, split, 0);
  return best.layout.point;
}

std::vector<Point> LayoutRefiner::smallest() {
  constexpr std::size_t most = 12;
  std::vector<std::pair<std::int64_t, Point>> found;
  for (Point& point : splits()) {
    const auto needs = predictor_.guess_memory(request_.model, point).upper_bytes;
    found.emplace_back(needs, std::move(point));
  }
  std::sort(
      found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Point> points;
  for (const auto& [needs, point] : found) {
    if (points.size() == most) break;
    if (refusal_(point).empty()) points.push_back(point);
  }
  return points;
}

}  // namespace shardsweep
