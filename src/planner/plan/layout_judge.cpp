// SPDX-License-Identifier: Apache-2.0
#include "plan/layout_judge.hpp"

#include "plan/card.hpp"
#include "plan/feasibility.hpp"
#include "plan/refine.hpp"
#include "sweep/model_shape.hpp"
#include "text/numbers.hpp"
#include "trainer/configuration.hpp"
#include "trainer/point_words.hpp"
#include "trainer/trainer_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

namespace shardsweep {
namespace {

/// Largest part of a step, and what would make it smaller.
struct StepLimit {
  std::string_view part;
  std::string_view what;
  std::string_view remedy;
};

StepLimit limit_of(std::string_view part, const Layout& layout) {
  if (part == "compute" && layout.recompute == Recompute::none) return {part, "is computation", ""};
  if (part == "tp" && layout.tp == 1) {
    return layout.ep > 1
        ? StepLimit{part, "waits for the expert all-to-all", "Use less ep."}
        : StepLimit{part, "waits for the exchanges of context parallelism", "Use less cp."};
  }
  constexpr std::array<StepLimit, 8> limits{{
      {"compute", "is computation, recomputation included", "Less recomputation would be faster."},
      {"memory", "waits for device memory", "A larger micro_batch helps."},
      {"launch", "waits for kernel launches", "A larger micro_batch helps."},
      {"tp", "waits for tensor-parallel transfers", "Less tp helps, with pp or ZeRO for memory."},
      {"pp", "waits for transfers between stages", "Less pp helps."},
      {"bubble", "is the pipeline's bubble", "Less pp helps, or more micro-batches per step."},
      {"dp", "waits for data-parallel transfers",
          "More grad_accum helps, a lower ZeRO stage, or less dp."},
      {"update", "is the optimizer", "More tokens per step help, or ZeRO."},
  }};
  const auto* const found = std::find_if(
      limits.begin(), limits.end(), [&](const StepLimit& one) { return one.part == part; });
  return found == limits.end() ? StepLimit{part, part, ""} : *found;
}

}  // namespace

Predictor predictor_of(const SuggestRequest& request) {
  return request.learnt ? request.learnt->predictor : Predictor(request.cluster, *request.family);
}

LayoutJudge::LayoutJudge(const SuggestRequest& request)
    : request_(request), predictor_(predictor_of(request)) {
  if (request.family->words.empty()) return;
  const auto& file = trainer_file(request.family->words);
  std::string of_rules;
  for (const auto& rule : file.rules)
    of_rules += rule.when;
  std::string of_words;
  for (const auto* texts : {&file.layout.lacks, &file.layout.values})
    for (const auto& one : *texts)
      of_words += one.text;
  for (const auto& axis : axes()) {
    if (of_rules.find(axis.name) != std::string::npos) rule_axes_.push_back(&axis);
    if (of_words.find(axis.name) != std::string::npos) word_axes_.insert(&axis);
  }
}

Result<JudgedLayouts> LayoutJudge::make() {
  SHARDSWEEP_ASSIGN(auto found, judge_grid());
  const auto in_grid = found.fitting.size();
  refine(found.fitting);
  found.judged += static_cast<std::int64_t>(found.fitting.size() - in_grid);
  return found;
}

Result<JudgedLayouts> LayoutJudge::judge_grid() {
  SHARDSWEEP_TRY(check());
  std::vector<Guess> guesses;
  SHARDSWEEP_ASSIGN(const auto plan, make_plan(sweep(), guesses));
  JudgedLayouts found;
  plan_size_ = plan.trials.size();
  found.left_out_by_constraint = plan.left_out_by_constraint;
  found.why_left_out = why_nothing_runs(plan);
  std::string why_refused;
  std::optional<MemoryEstimate> least;  // smallest estimate of the layouts that are too large
  for (std::size_t at = 0; at < plan.trials.size(); ++at) {
    const auto& point = plan.trials[at].point;
    if (is_no_plan(point.layout)) continue;
    ++found.judged;
    SuggestedLayout layout{.point = point,
        .guess = request_.learnt ? predictor_.corrected(guesses[at]) : guesses[at],
        .tokens_per_s_per_gpu = 0,
        .mfu = 0,
        .limit = {}};
    hold_against_runs(layout);
    if (layout.guess.memory.fit != Fit::fits) unfitting_.emplace_back(layout.guess.step_s, point);
    if (layout.guess.memory.fit == Fit::never) {
      const auto bound = predictor_.least_memory(request_.model, point);
      if (!least || bound.total() < least->total()) least = bound;
      continue;
    }
    if (const auto& refusal = refusal_of(point); !refusal.empty()) {
      --found.judged;
      ++found.left_out_by_constraint["trainer"];
      if (why_refused.empty()) why_refused = refusal;
      continue;
    }
    describe(layout);
    auto& list = layout.guess.memory.fit == Fit::fits ? found.fitting : found.doubtful;
    list.push_back(std::move(layout));
  }
  if (found.fitting.empty() && found.doubtful.empty()) {
    if (least) found.why_left_out = too_large(*least, request_.cluster);
    if (!why_refused.empty()) found.why_left_out = why_refused;
  }
  sort(found.fitting);
  sort(found.doubtful);
  return found;
}

Result<bool> LayoutJudge::fits() {
  SHARDSWEEP_TRY(check());
  if (!request_.learnt && !locks("offload")) {
    // Weights of 16 bits, their master copy and two moments, spread over all ranks.
    constexpr double least_bytes = 14;
    const double needs = least_bytes * static_cast<double>(parameters(request_.model));
    const double capacity = static_cast<double>(request_.cluster.memory_bytes) * request_.gpus;
    if (capacity > 0 && needs > capacity) return false;
    auto refiner = refiner_of();
    for (const auto& point : refiner.smallest()) {
      if (predictor_.guess_memory(request_.model, point).fit == Fit::fits) return true;
    }
  }
  SHARDSWEEP_ASSIGN(auto judged, judge_grid());
  if (judged.fitting.empty()) refine(judged.fitting);
  return !judged.fitting.empty();
}

LayoutRefiner LayoutJudge::refiner_of() {
  return {request_, predictor_, without_axes(),
      [this](const Point& point) -> const std::string& { return refusal_of(point); },
      [this](Layout& layout) { tell_stages(layout); }};
}

/// Fastest first; among equally fast ones, the layout with fewer axes off their usual values.
void LayoutJudge::sort(std::vector<SuggestedLayout>& layouts) {
  const auto unusual = [](const SuggestedLayout& layout) {
    return std::count_if(axes().begin(), axes().end(), [&](const AxisInfo& axis) {
      return axis.of_layout() && axis.get(layout.point) != axis.default_value;
    });
  };
  std::stable_sort(layouts.begin(), layouts.end(), [&](const auto& a, const auto& b) {
    if (a.guess.step_s != b.guess.step_s) return a.guess.step_s < b.guess.step_s;
    return unusual(a) < unusual(b);
  });
}

/// The fastest layout of each kind, which is how it splits the GPUs and what it keeps: at most
/// `most`, with a step up to `step_s`. Layouts of one kind come to the same one by refining.
std::vector<Point> LayoutJudge::first_of_kinds(
    std::vector<std::pair<double, Point>> layouts, std::size_t most, double step_s) {
  std::erase_if(layouts, [&](const auto& one) { return one.first > step_s; });
  std::stable_sort(layouts.begin(), layouts.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::set<std::array<std::int32_t, 7>> kinds;
  std::vector<Point> points;
  for (const auto& [step, point] : layouts) {
    if (points.size() == most) break;
    const auto& is = point.layout;
    const bool full = is.recompute == Recompute::full;
    if (kinds.insert({is.tp, is.pp, is.cp, is.ep, is.zero, full ? 1 : 0, is.vpp > 1 ? 1 : 0})
            .second)
      points.push_back(point);
  }
  return points;
}

/// Layouts that fit and have degrees that the grid does not have, with recomputation if they need
/// it.
std::vector<GuessedLayout> LayoutJudge::beyond_grid(LayoutRefiner& refiner) {
  const auto tp = worth_a_thought(*find_axis("tp"));
  const auto cp = worth_a_thought(*find_axis("cp"));
  const auto has = [](const auto& values, std::int64_t value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  std::vector<GuessedLayout> found;
  for (Point& point : refiner.splits()) {
    if (has(tp, point.layout.tp) && has(cp, point.layout.cp)) continue;
    Point kept = point;
    if (!locks("recompute")) kept.layout.recompute = Recompute::none;
    for (Point* const one : {&kept, &point}) {
      const auto guess = predictor_.guess(request_.model, *one);
      if (guess.memory.fit != Fit::fits || !refusal_of(*one).empty()) continue;
      found.push_back({std::move(*one), guess});
      break;
    }
  }
  return found;
}

/// Refines the fastest layout of each kind in axes that split nothing, also of kinds that would be
/// faster if they fitted; then splits of which a layout may be faster still, although their usual
/// one can't start; then the fastest of all these in two axes at once.
void LayoutJudge::refine(std::vector<SuggestedLayout>& fitting) {
  constexpr std::size_t most = 64;
  constexpr std::size_t most_too_large = 24;
  constexpr std::size_t most_promising = 24;
  constexpr double tie = 0.0005;
  constexpr std::size_t most_pairs = 2;
  constexpr double worth_refining = 3;
  auto refiner = refiner_of();
  std::vector<SuggestedLayout> better;
  const auto add = [&](const Point& from, double step_s, LayoutRefiner::Reach reach) {
    auto refined = refiner.refined(from, step_s, reach);
    if (!refined) return;
    const auto& point = refined->point;
    const auto is_it = [&](const SuggestedLayout& one) { return one.point == point; };
    if (std::any_of(better.begin(), better.end(), is_it) ||
        std::any_of(fitting.begin(), fitting.end(), is_it))
      return;
    SuggestedLayout layout{
        .point = point, .guess = refined->guess, .tokens_per_s_per_gpu = 0, .mfu = 0, .limit = {}};
    hold_against_runs(layout);
    if (layout.guess.memory.fit != Fit::fits) return;
    describe(layout);
    better.push_back(std::move(layout));
  };
  const double step_s =
      fitting.empty() ? std::numeric_limits<double>::max() : fitting.front().guess.step_s;
  std::vector<std::pair<double, Point>> from;
  from.reserve(fitting.size());
  for (const auto& layout : fitting)
    from.emplace_back(layout.guess.step_s, layout.point);
  using Reach = LayoutRefiner::Reach;
  for (const auto& layout : beyond_grid(refiner))
    from.emplace_back(layout.guess.step_s, layout.point);
  for (const auto& point : first_of_kinds(from, most, worth_refining * step_s))
    add(point, std::numeric_limits<double>::max(), Reach::split);
  for (const auto& point : first_of_kinds(unfitting_, most_too_large, step_s))
    add(point, std::numeric_limits<double>::max(), Reach::split);
  if (fitting.empty() && better.empty()) {
    for (const auto& point : refiner.smallest())
      add(point, step_s, Reach::all);
  }
  double best_s = step_s;
  const auto note_best = [&] {
    for (const auto& layout : better)
      best_s = std::min(best_s, layout.guess.step_s);
  };
  note_best();
  std::vector<LayoutRefiner::Promise> promises;
  // Without a layout that fits, no bound leaves a split out. offloaded() looks at no more either.
  const auto* const offload = lock_of(*find_axis("offload"));
  const bool offloads = offload != nullptr && offload->values.front() > 0;
  if (!fitting.empty() && !offloads) promises = refiner.promising(best_s);
  if (promises.size() > most_promising) promises.resize(most_promising);
  for (const auto& promise : promises) {
    if (promise.least_s >= best_s) break;
    add(refiner.first_of(promise.point, best_s), (1 + tie) * best_s, Reach::all);
    note_best();
  }
  for (const auto& layout : better)
    from.emplace_back(layout.guess.step_s, layout.point);
  for (const auto& point : first_of_kinds(from, most_pairs, std::numeric_limits<double>::max()))
    add(point, step_s, Reach::pairs);
  fitting.insert(fitting.end(), std::make_move_iterator(better.begin()),
      std::make_move_iterator(better.end()));
  sort(fitting);
}

/// Offloads the fastest unfitting layout of each split of the GPUs, refines these, and returns the
/// fastest.
Result<std::optional<SuggestedLayout>> LayoutJudge::offloaded(double step_s) {
  constexpr std::size_t most = 48;
  constexpr double worth_refining = 1.05;  // may become faster than the best by refining
  std::optional<SuggestedLayout> best;
  if (locks("offload")) return best;
  SHARDSWEEP_TRY(add_left_out());
  const auto& offload = *find_axis("offload");
  std::vector<std::pair<double, Point>> shorter;
  for (const auto& [without, at] : unfitting_) {
    if (without >= worth_refining * step_s) continue;
    for (auto value = offload.minimum + 1; value <= offload.maximum; ++value) {
      Point point = at;
      offload.set(point, value);
      if (!refusal_of(point).empty()) continue;
      const auto guess = predictor_.guess(request_.model, point);
      if (guess.memory.fit == Fit::fits && guess.step_s < worth_refining * step_s)
        shorter.emplace_back(guess.step_s, point);
    }
  }
  std::stable_sort(shorter.begin(), shorter.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::set<std::array<std::int32_t, 4>> splits;
  std::erase_if(shorter, [&](const auto& one) {
    const auto& is = one.second.layout;
    return !splits.insert({is.tp, is.pp, is.cp, is.ep}).second;
  });
  if (shorter.size() > most) shorter.resize(most);
  if (shorter.empty()) return best;
  SHARDSWEEP_ASSIGN(const auto plan, make_plan(sweep_of(shorter), {}, nullptr, nullptr));
  auto refiner = refiner_of();
  const auto take = [&](const Point& from, LayoutRefiner::Reach reach) {
    const auto found = refiner.refined(from, best ? best->guess.step_s : step_s, reach);
    if (!found) return;
    best = SuggestedLayout{.point = found->point,
        .guess = found->guess,
        .tokens_per_s_per_gpu = 0,
        .mfu = 0,
        .limit = {}};
  };
  for (const auto& trial : plan.trials)
    take(trial.point, LayoutRefiner::Reach::all);
  if (best) take(Point(best->point), LayoutRefiner::Reach::pairs);
  if (best) describe(*best);
  return best;
}

std::vector<std::int64_t> LayoutJudge::worth_a_thought(const AxisInfo& axis) const {
  constexpr std::int64_t most_tp = 64;
  constexpr std::int64_t most_samples = 16;
  constexpr std::int64_t most_virtual_stages = 8;
  constexpr std::int32_t shortest_share = 2 << 10;  // shortest part of a sample on one rank
  // A tp group on more than two nodes waits for its links.
  const std::int64_t near = 2 * std::int64_t{request_.cluster.gpus_per_node};
  const std::int64_t gpus = request_.gpus;
  if (axis.name == "tp") return divisors(std::gcd(gpus, near), most_tp);
  if (axis.name == "pp") return divisors(gpus, request_.model.layers);
  if (axis.name == "vpp" && !has_virtual_stages()) return {};
  if (axis.name == "vpp") return virtual_stages(request_, most_virtual_stages);
  if (axis.name == "cp")
    return divisors(std::gcd(gpus, request_.seq_len), request_.seq_len / shortest_share);
  if (axis.name == "ep" && request_.model.experts == 0) return {};
  if (axis.name == "ep") return divisors(std::gcd(gpus, request_.model.experts), gpus);
  if (axis.name == "micro_batch")
    return divisors(request_.global_batch_tokens / request_.seq_len, most_samples);
  // Experts are whole, or split like all other layers: values between are seldom better.
  if (axis.name == "expert_tp" && request_.model.experts > 0) return {0, 1};
  if (axis.name == "expert_tp") return {};
  if (axis.name == "recompute") return recompute_worth_a_thought();
  // tell_stages() says how many; without it a pipeline is even.
  if (axis.name == "first_stage_layers" || axis.name == "last_stage_layers") return {0};
  std::vector<std::int64_t> all;
  for (auto value = axis.minimum; value <= axis.maximum; ++value)
    all.push_back(value);
  return all;
}

const AxisValues* LayoutJudge::lock_of(const AxisInfo& axis) const {
  const auto found = std::find_if(request_.locks.begin(), request_.locks.end(),
      [&](const AxisValues& lock) { return lock.axis == &axis; });
  return found == request_.locks.end() ? nullptr : &*found;
}

bool LayoutJudge::locks(std::string_view name) const {
  return lock_of(*find_axis(name)) != nullptr;
}

/// Virtual stages without a pipeline start in no trainer, and tp without its rows saves
/// neither memory nor time: no plan, unless somebody asks for it.
bool LayoutJudge::is_no_plan(const Layout& at) const {
  if (at.vpp > 1 && at.pp == 1) return true;
  return at.tp > 1 && !at.sequence_parallel && !locks("sequence_parallel");
}

/// Reason why the trainer has no setting for a layout, or refuses to start it; empty: it starts.
const std::string& LayoutJudge::refusal_of(const Point& point) {
  static const std::string none;
  static const std::string uneven = "cp has to divide the tokens of a sample";
  if (point.seq_len % point.layout.cp != 0) return uneven;
  if (request_.family->words.empty()) return none;
  const auto& wordless = words_missing(point);
  return wordless.empty() ? rule_broken(point) : wordless;
}

/// Words are of axes and of what they are combined with. Asked once for each combination: of sizes
/// that conditions of the words name, the two smallest and all others are told apart, of other axes
/// whether they have the usual value.
const std::string& LayoutJudge::words_missing(const Point& point) {
  // No configuration has a place for this axis, so none could express it.
  const auto& bucket = *find_axis("bucket_mb");
  if (bucket.get(point) != bucket.default_value) {
    static const std::string none = "no trainer's configuration has words for bucket_mb";
    return none;
  }
  constexpr std::int64_t smallest_told = 2;
  std::vector<std::int64_t> form;
  form.reserve(axes().size());
  for (const auto& axis : axes()) {
    const auto value = axis.get(point);
    const bool is_size = axis.kind == AxisKind::integer && axis.name != "zero";
    const bool is_told = is_size && !word_axes_.contains(&axis);
    form.push_back(is_told ? std::int64_t{value != axis.default_value}
            : is_size      ? std::min(value, axis.minimum + smallest_told)
                           : value);
  }
  const auto [known, is_new] = words_.try_emplace(std::move(form));
  if (is_new) {
    const auto trainer = request_.family->words;
    const auto checked =
        check_has_words(trainer, layout_words_of(trainer), layout_of_point(point, request_.model));
    if (!checked) known->second = checked.error().what;
  }
  return known->second;
}

/// Asked once for the same values of the axes that rules name.
const std::string& LayoutJudge::rule_broken(const Point& point) {
  std::vector<std::int64_t> values;
  values.reserve(rule_axes_.size());
  for (const auto* axis : rule_axes_)
    values.push_back(axis->get(point));
  const auto [known, is_new] = rules_.try_emplace(std::move(values));
  if (is_new) known->second = rule_against_point(request_.family->words, point, request_.model);
  return known->second;
}

bool LayoutJudge::has_virtual_stages() const {
  const auto trainer = request_.family->words;
  if (trainer.empty()) return true;
  Point point = world_of(request_);
  point.layout.pp = point.layout.vpp = 2;
  return configuration_of(trainer, layout_of_point(point, request_.model)).has_value();
}

Result<void> LayoutJudge::check() const {
  if (const auto kind = request_.model.unpredicted(); !kind.empty())
    return fault(FaultKind::invalid_input,
        "{} ({}) has {}, whose time and memory are not predicted. A sweep can measure its layouts: "
        "shardsweep new.",
        request_.model.name, parameters_sentence(request_.model), kind);
  const auto tokens = request_.global_batch_tokens;
  if (tokens % request_.seq_len == 0) return {};
  const auto samples = std::max<std::int64_t>(1, tokens / request_.seq_len);
  return fault(FaultKind::invalid_input,
      "a global batch of {} tokens is not a multiple of seq_len {}; use {} or {}{}",
      grouped(tokens), request_.seq_len, grouped(samples * request_.seq_len),
      grouped((samples + 1) * request_.seq_len), binary_length_meant(request_.seq_len, tokens));
}

/// Recompute modules only for models with experts: in a dense model, whole layers cost as little.
std::vector<std::int64_t> LayoutJudge::recompute_worth_a_thought() const {
  std::vector<std::int64_t> values{0, 1, 2};
  if (request_.model.experts == 0) return values;
  for (const std::string_view word : {"layernorm+moe_act", "moe"})
    values.push_back(
        std::find(recompute_words.begin(), recompute_words.end(), word) - recompute_words.begin());
  return values;
}

/// How the GPUs are divided, and what depends on that: the rows that can start and are a
/// plan. The product of these axes alone would be a hundred times as large, if a model has
/// experts and a sample is long. No axes: no row can start, for a reason that the
/// plan tells.
ZipGroup LayoutJudge::split_rows() {
  constexpr std::array<std::string_view, 10> names{"tp", "pp", "vpp", "cp", "ep", "expert_tp",
      "zero", "sequence_parallel", "first_stage_layers", "last_stage_layers"};
  Point point = world_of(request_);
  for (const auto& lock : request_.locks)
    lock.axis->set(point, lock.values.front());
  ZipGroup rows;
  std::vector<std::vector<std::int64_t>> choices;
  for (const auto name : names) {
    const auto& axis = *find_axis(name);
    auto values = worth_a_thought(axis);
    if (lock_of(axis) != nullptr || values.empty()) continue;
    rows.axes.push_back({&axis, false, {}});
    choices.push_back(std::move(values));
  }
  add_rows(choices, 0, point, rows);
  return rows.axes.empty() || rows.axes.front().values.empty() ? ZipGroup{} : rows;
}

/// Sets the layers of the first and last stage, if the trainer else shares layers out evenly. These
/// stages also hold the embedding and the head, so they get fewer.
void LayoutJudge::tell_stages(Layout& layout) {
  if (locks("first_stage_layers") || locks("last_stage_layers")) return;
  const auto [known, is_new] = told_.try_emplace({layout.pp, layout.vpp});
  if (is_new) known->second = told_stages(request_, layout.pp, layout.vpp);
  layout.first_stage_layers = known->second.first;
  layout.last_stage_layers = known->second.last;
}

void LayoutJudge::add_rows(const std::vector<std::vector<std::int64_t>>& choices, std::size_t at,
    Point& point, ZipGroup& rows) {
  if (at < choices.size()) {
    for (const auto value : choices[at]) {
      rows.axes[at].axis->set(point, value);
      add_rows(choices, at + 1, point, rows);
    }
    return;
  }
  auto& is = point.layout;
  tell_stages(is);
  const auto split = std::int64_t{is.tp} * is.pp;
  // If no tp splits the other layers, whole experts are the same layout.
  const bool said_twice = is.expert_tp == is.tp && !locks("expert_tp");
  const auto experts =
      is.expert_tp > 0 ? std::int64_t{is.ep} * is.expert_tp : std::int64_t{is.ep} * is.tp;
  const bool cut_evenly = is.vpp == 1 || is.has_uneven_stages() ||
      request_.model.layers % (std::int64_t{is.pp} * is.vpp) == 0;
  if (!cut_evenly || request_.gpus % (split * is.cp) != 0 || request_.gpus / is.pp % experts != 0 ||
      is_no_plan(is) || said_twice)
    return;
  const auto* const dp = lock_of(*find_axis("dp"));
  const auto left = request_.gpus / (split * is.cp);
  if (dp != nullptr && std::find(dp->values.begin(), dp->values.end(), left) == dp->values.end())
    return;
  for (auto& axis : rows.axes)
    axis.values.push_back(axis.axis->get(point));
}

/// A plan leaves out what certainly does not fit, which a part in the host's memory may mend.
/// Of very many layouts that would take as long as the answer itself.
Result<void> LayoutJudge::add_left_out() {
  constexpr std::size_t few = 20'000;
  if (plan_size_ > few) return {};
  auto open = sweep();
  open.cluster.memory_bytes = 0;
  SHARDSWEEP_ASSIGN(const auto plan, make_plan(open, {}, nullptr, nullptr));
  unfitting_.clear();
  for (const auto& trial : plan.trials) {
    if (is_no_plan(trial.point.layout)) continue;
    const auto guess = predictor_.guess(request_.model, trial.point);
    if (guess.memory.fit != Fit::fits) unfitting_.emplace_back(guess.step_s, trial.point);
  }
  return {};
}

SweepSpec LayoutJudge::without_axes() const {
  SweepSpec sweep;
  sweep.name = "suggest";
  sweep.cluster = request_.cluster;
  sweep.models = {request_.model};
  sweep.runner.name = std::string(request_.family->name);
  sweep.global_batch_tokens = request_.global_batch_tokens;
  sweep.policy.max_stored_left_out = 0;
  const auto constant = [&](std::string_view name, std::int64_t value) {
    sweep.constants.push_back({find_axis(name), false, {value}});
  };
  constant(
      request_.nodes > 0 ? "nodes" : "gpus", request_.nodes > 0 ? request_.nodes : request_.gpus);
  constant("seq_len", request_.seq_len);
  constant("dtype", static_cast<std::int64_t>(dtype_of(request_)));
  return sweep;
}

/// These layouts alone.
SweepSpec LayoutJudge::sweep_of(const std::vector<std::pair<double, Point>>& layouts) const {
  SweepSpec sweep = without_axes();
  ZipGroup rows;
  for (const auto& axis : axes()) {
    if (!axis.of_layout()) continue;
    rows.axes.push_back({&axis, false, {}});
    for (const auto& [step_s, point] : layouts)
      rows.axes.back().values.push_back(axis.get(point));
  }
  sweep.zips.push_back(std::move(rows));
  return sweep;
}

/// Every layout worth a thought.
SweepSpec LayoutJudge::sweep() {
  SweepSpec sweep = without_axes();
  auto rows = split_rows();
  const auto is_in_rows = [&](const AxisInfo& axis) {
    return std::any_of(rows.axes.begin(), rows.axes.end(),
        [&](const AxisValues& one) { return one.axis == &axis; });
  };
  for (const auto* axis : axes_with<AxisUse::suggested>) {
    if (axis->allows_auto || lock_of(*axis) != nullptr || is_in_rows(*axis)) continue;
    if (auto values = worth_a_thought(*axis); !values.empty())
      sweep.axes.push_back({axis, false, std::move(values)});
  }
  if (!rows.axes.empty()) sweep.zips.push_back(std::move(rows));
  for (const auto* axis : axes_with<AxisUse::suggested>) {
    if (axis->allows_auto && lock_of(*axis) == nullptr) sweep.axes.push_back({axis, true, {}});
  }
  sweep.constants.insert(sweep.constants.begin(), request_.locks.begin(), request_.locks.end());
  return sweep;
}

/// Corrects the verdict by measurements: a layout that ran fits, and one that ran out of memory
/// does not, whatever the bounds say.
void LayoutJudge::hold_against_runs(SuggestedLayout& layout) const {
  if (!request_.learnt) return;
  const auto* const measured = request_.learnt->of(request_.model, layout.point);
  if (measured == nullptr) return;
  layout.measured = std::shared_ptr<const MeasuredLayout>(request_.learnt, measured);
  layout.guess.memory.fit =
      measured->seen.outcome == Outcome::completed ? Fit::fits : Fit::doubtful;
}

void LayoutJudge::describe(SuggestedLayout& layout) const {
  const auto& time = layout.guess.time;
  if (!time.nominal) {
    layout.tokens_per_s_per_gpu = speed_of(layout.guess.step_s, layout.point);
    const auto& peak = request_.cluster.peak(layout.point.dtype);
    layout.mfu = layout.tokens_per_s_per_gpu * flops_per_token(request_.model, request_.seq_len) /
        peak.value_or(0);
  }
  // Computing is no waiting, so name it only if no other part weighs much.
  constexpr double much = 0.1;
  const auto parts = step_parts();
  const auto& largest = *std::max_element(parts.begin() + 1, parts.end(),
      [&](const auto& a, const auto& b) { return time.*a.seconds < time.*b.seconds; });
  const auto& part = time.*largest.seconds > much * time.step_s ? largest : parts.front();
  const auto limit = limit_of(part.name, layout.point.layout);
  layout.limit =
      fmt::format("{:.0f} % of the step {}.", 100 * time.*part.seconds / time.step_s, limit.what);
  layout.remedy = limit.remedy;
  layout.computes = time.*parts.front().seconds / time.step_s;
  layout.waits = part.name != parts.front().name;
}

}  // namespace shardsweep
