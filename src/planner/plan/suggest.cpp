// SPDX-License-Identifier: Apache-2.0
// The request becomes a sweep of all degrees that divide, which make_plan() judges as it judges a
// user's: a suggestion can't contradict a plan. Of what certainly fits, the fastest is shown for
// each split into dp, tp and pp, since variants of one split tell a person little. The playbook's
// rules are checked afterwards and cited; they choose nothing.
#include "plan/suggest.hpp"

#include "plan/card.hpp"
#include "plan/feasibility.hpp"
#include "plan/plan.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"
#include "text/units.hpp"
#include "trainer/configuration.hpp"
#include "trainer/point_words.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view playbook = "Ultra-Scale Playbook";

constexpr std::array<StepPart, 8> parts{{{"compute", &TimeEstimate::compute_s},
    {"memory", &TimeEstimate::memory_s}, {"launch", &TimeEstimate::launch_s},
    {"tp", &TimeEstimate::tp_s}, {"pp", &TimeEstimate::pp_s}, {"bubble", &TimeEstimate::bubble_s},
    {"dp", &TimeEstimate::dp_s}, {"update", &TimeEstimate::update_s}}};

/// What the largest part of a step is, and what would make it smaller.
struct StepLimit {
  std::string_view part;
  std::string_view what;
  std::string_view remedy;
};

StepLimit limit_of(std::string_view part, const Layout& layout) {
  if (part == "compute" && layout.recompute == Recompute::none) return {part, "is computation", ""};
  if (part == "tp" && layout.tp == 1) {
    return layout.ep > 1 ? StepLimit{part, "waits for the expert all-to-all", "Use less ep."}
                         : StepLimit{part, "waits for what attention exchanges", "Use less cp."};
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

std::vector<std::int64_t> divisors(std::int64_t of, std::int64_t most) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = 1; value <= std::min(of, most); ++value)
    if (of % value == 0) values.push_back(value);
  return values;
}

std::string memory_text(const MemoryEstimate& estimate) {
  std::string text;
  for (std::size_t i = 0; i < memory_class_words.size(); ++i) {
    if (estimate.bytes[i] == 0) continue;
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ", memory_class_words[i], size_text(estimate.bytes[i]));
  }
  return text;
}

Predictor predictor_of(const SuggestRequest& request) {
  return request.learnt ? request.learnt->predictor : Predictor(request.cluster, *request.family);
}

/// The request as a sweep, and its plan's trials with what is predicted of them.
class LayoutJudge {
 public:
  explicit LayoutJudge(const SuggestRequest& request)
      : request_(request), predictor_(predictor_of(request)) {}

  Result<JudgedLayouts> make() {
    SHARDSWEEP_TRY(check());
    SHARDSWEEP_ASSIGN(const auto plan, make_plan(sweep(), {}, nullptr, nullptr));
    JudgedLayouts found;
    plan_size_ = plan.trials.size();
    found.left_out_by_constraint = plan.left_out_by_constraint;
    found.why_left_out = why_nothing_runs(plan);
    std::string why_refused;
    std::optional<MemoryEstimate> least;  // of those that are too large, as their trainer is used
    for (const auto& trial : plan.trials) {
      if (is_no_plan(trial.point.layout)) continue;
      ++found.judged;
      SuggestedLayout layout{.point = trial.point,
          .guess = predictor_.guess(request_.model, trial.point),
          .tokens_per_s_per_gpu = 0,
          .mfu = 0,
          .limit = {}};
      hold_against_runs(layout);
      if (layout.guess.memory.fit != Fit::fits)
        unfitting_.emplace_back(layout.guess.step_s, trial.point);
      if (layout.guess.memory.fit == Fit::never) {
        const auto bound = predictor_.least_memory(request_.model, trial.point);
        if (!least || bound.total() < least->total()) least = bound;
        continue;
      }
      if (const auto& refusal = refusal_of(trial.point); !refusal.empty()) {
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
    for (auto* list : {&found.fitting, &found.doubtful}) {
      std::stable_sort(list->begin(), list->end(),
          [](const auto& a, const auto& b) { return a.guess.step_s < b.guess.step_s; });
    }
    return found;
  }

  /// Of what make() has found not to fit surely: the fastest that does with a part in the host's
  /// memory, if its step is shorter. Transfers make no step shorter, so others can't be.
  Result<std::optional<SuggestedLayout>> offloaded(double step_s) {
    constexpr std::size_t most = 100;
    std::optional<SuggestedLayout> best;
    if (locks("offload")) return best;
    SHARDSWEEP_TRY(add_left_out());
    const auto& offload = *find_axis("offload");
    std::vector<std::pair<double, Point>> shorter;
    for (const auto& [without, at] : unfitting_) {
      if (without >= step_s) continue;
      for (auto value = offload.minimum + 1; value <= offload.maximum; ++value) {
        Point point = at;
        offload.set(point, value);
        if (!refusal_of(point).empty()) continue;
        const auto guess = predictor_.guess(request_.model, point);
        if (guess.memory.fit == Fit::fits && guess.step_s < step_s)
          shorter.emplace_back(guess.step_s, point);
      }
    }
    std::stable_sort(shorter.begin(), shorter.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    if (shorter.size() > most) shorter.resize(most);
    if (shorter.empty()) return best;
    SHARDSWEEP_ASSIGN(const auto plan, make_plan(sweep_of(shorter), {}, nullptr, nullptr));
    for (const auto& trial : plan.trials) {
      if (!refusal_of(trial.point).empty()) continue;
      SuggestedLayout layout{.point = trial.point,
          .guess = predictor_.guess(request_.model, trial.point),
          .tokens_per_s_per_gpu = 0,
          .mfu = 0,
          .limit = {}};
      describe(layout);
      if (!best || layout.guess.step_s < best->guess.step_s) best = std::move(layout);
    }
    return best;
  }

  /// Values of a suggested axis; none: it stays at its default.
  [[nodiscard]] std::vector<std::int64_t> worth_a_thought(const AxisInfo& axis) const {
    constexpr std::int64_t most_tp = 64;
    constexpr std::int64_t most_samples = 16;
    constexpr std::int64_t most_virtual_stages = 8;
    constexpr std::int32_t shortest_share = 2 << 10;  // of a sample
    // Over more than two nodes tp waits for its links.
    const std::int64_t near = 2 * std::int64_t{request_.cluster.gpus_per_node};
    const std::int64_t gpus = request_.gpus;
    if (axis.name == "tp") return divisors(std::gcd(gpus, near), most_tp);
    if (axis.name == "pp") return divisors(gpus, request_.model.layers);
    if (axis.name == "vpp" && !has_virtual_stages()) return {};
    if (axis.name == "vpp") return divisors(request_.model.layers, most_virtual_stages);
    if (axis.name == "cp") return divisors(gpus, request_.seq_len / shortest_share);
    if (axis.name == "ep" && request_.model.experts == 0) return {};
    if (axis.name == "ep") return divisors(std::gcd(gpus, request_.model.experts), gpus);
    if (axis.name == "micro_batch")
      return divisors(request_.global_batch_tokens / request_.seq_len, most_samples);
    // Experts whole, or split as all else is: what lies between is seldom better.
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

 private:
  [[nodiscard]] const AxisValues* lock_of(const AxisInfo& axis) const {
    const auto found = std::find_if(request_.locks.begin(), request_.locks.end(),
        [&](const AxisValues& lock) { return lock.axis == &axis; });
    return found == request_.locks.end() ? nullptr : &*found;
  }
  [[nodiscard]] bool locks(std::string_view name) const {
    return lock_of(*find_axis(name)) != nullptr;
  }

  /// Virtual stages without a pipeline start in no trainer, and tp without its rows saves
  /// neither memory nor time: no plan, unless somebody asks for it.
  [[nodiscard]] bool is_no_plan(const Layout& at) const {
    if (at.vpp > 1 && at.pp == 1) return true;
    return at.tp > 1 && !at.sequence_parallel && !locks("sequence_parallel");
  }

  /// Reason why the trainer has no words for a layout or does not start it; empty: it runs it.
  [[nodiscard]] const std::string& refusal_of(const Point& point) {
    static const std::string none;
    if (request_.family->words.empty()) return none;
    const auto& wordless = words_missing(point);
    return wordless.empty() ? rule_broken(point) : wordless;
  }

  /// Words are of axes and of what they are combined with, not of how large a size is: asked once
  /// for each combination, since writing a configuration costs more than predicting a hundred.
  [[nodiscard]] const std::string& words_missing(Point point) {
    std::vector<std::int64_t> form;
    point.layout.micro_batch = point.layout.grad_accum = 1;
    for (const auto& axis : axes()) {
      const auto value = axis.get(point);
      const bool is_size = axis.kind == AxisKind::integer && axis.name != "zero";
      form.push_back(is_size ? std::min(value, axis.minimum + 1) : value);
    }
    const auto [known, is_new] = words_.try_emplace(std::move(form));
    if (is_new) {
      const auto written =
          configuration_of(request_.family->words, layout_of_point(point, request_.model));
      if (!written) known->second = written.error().what;
    }
    return known->second;
  }

  /// Asked once for the same values of the axes that rules name.
  [[nodiscard]] const std::string& rule_broken(const Point& point) {
    std::vector<std::int64_t> values;
    for (const auto& axis : axes()) {
      for (const auto& rule : trainer_file(request_.family->words).rules) {
        if (rule.when.find(axis.name) == std::string::npos) continue;
        values.push_back(axis.get(point));
        break;
      }
    }
    const auto [known, is_new] = rules_.try_emplace(std::move(values));
    if (is_new) known->second = rule_against_point(request_.family->words, point, request_.model);
    return known->second;
  }

  [[nodiscard]] bool has_virtual_stages() const {
    const auto trainer = request_.family->words;
    if (trainer.empty()) return true;
    Point point = world_of(request_);
    point.layout.pp = point.layout.vpp = 2;
    return configuration_of(trainer, layout_of_point(point, request_.model)).has_value();
  }

  [[nodiscard]] Result<void> check() const {
    if (const auto kind = request_.model.unpredicted(); !kind.empty())
      return fault(FaultKind::invalid_input,
          fmt::format("{} ({}) has {}, whose time and memory are not predicted. A sweep can "
                      "measure its layouts: shardsweep new.",
              request_.model.name, parameters_sentence(request_.model), kind));
    const auto tokens = request_.global_batch_tokens;
    if (tokens % request_.seq_len == 0) return {};
    const auto samples = std::max<std::int64_t>(1, tokens / request_.seq_len);
    return fault(FaultKind::invalid_input,
        fmt::format("a global batch of {} tokens is not a multiple of seq_len {}; use {} or {}",
            grouped(tokens), request_.seq_len, grouped(samples * request_.seq_len),
            grouped((samples + 1) * request_.seq_len)));
  }

  /// Modules for models with experts alone: of a dense one whole layers cost as little.
  [[nodiscard]] std::vector<std::int64_t> recompute_worth_a_thought() const {
    std::vector<std::int64_t> values{0, 1, 2};
    if (request_.model.experts == 0) return values;
    for (const std::string_view word : {"layernorm+moe_act", "moe"})
      values.push_back(std::find(recompute_words.begin(), recompute_words.end(), word) -
          recompute_words.begin());
    return values;
  }

  /// How the GPUs are divided, and what depends on that: the rows that can start and are a
  /// plan. The product of these axes alone would be a hundred times as large, if a model has
  /// experts and a sample is long. No axes: dp is locked, or no row can start, for a reason
  /// that the plan tells.
  [[nodiscard]] ZipGroup split_rows() const {
    constexpr std::array<std::string_view, 10> names{"tp", "pp", "vpp", "cp", "ep", "expert_tp",
        "zero", "sequence_parallel", "first_stage_layers", "last_stage_layers"};
    if (locks("dp")) return {};
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

  /// Of a trainer that shares layers out evenly, unless the first and the last stage are told
  /// theirs: with the embedding and the head these have fewer than the others.
  void tell_stages(Layout& layout) const {
    if (locks("first_stage_layers") || locks("last_stage_layers")) return;
    const auto told = told_stages(request_, layout.pp);
    layout.first_stage_layers = told.first;
    layout.last_stage_layers = told.last;
  }

  void add_rows(const std::vector<std::vector<std::int64_t>>& choices, std::size_t at, Point& point,
      ZipGroup& rows) const {
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
    // Where no tp splits the rest, whole experts are no other layout.
    const bool said_twice = is.expert_tp == is.tp && !locks("expert_tp");
    const auto experts =
        is.expert_tp > 0 ? std::int64_t{is.ep} * is.expert_tp : std::int64_t{is.ep} * is.tp;
    const bool cut_evenly =
        is.vpp == 1 || request_.model.layers % (std::int64_t{is.pp} * is.vpp) == 0;
    if (!cut_evenly || request_.gpus % (split * is.cp) != 0 ||
        request_.gpus / is.pp % experts != 0 || is_no_plan(is) || said_twice)
      return;
    for (auto& axis : rows.axes)
      axis.values.push_back(axis.axis->get(point));
  }

  /// A plan leaves out what certainly does not fit, which a part in the host's memory may mend.
  /// Of very many layouts that would take as long as the answer itself.
  Result<void> add_left_out() {
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

  [[nodiscard]] SweepSpec without_axes() const {
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
  [[nodiscard]] SweepSpec sweep_of(const std::vector<std::pair<double, Point>>& layouts) const {
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
  [[nodiscard]] SweepSpec sweep() const {
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

  /// What has run fits, and what ran out of memory does not, whatever the bounds say.
  void hold_against_runs(SuggestedLayout& layout) const {
    if (!request_.learnt) return;
    const auto* const measured = request_.learnt->of(request_.model, layout.point);
    if (measured == nullptr) return;
    layout.measured = std::shared_ptr<const MeasuredLayout>(request_.learnt, measured);
    layout.guess.memory.fit =
        measured->seen.outcome == Outcome::completed ? Fit::fits : Fit::doubtful;
  }

  void describe(SuggestedLayout& layout) const {
    const auto& time = layout.guess.time;
    if (!time.nominal) {
      layout.tokens_per_s_per_gpu = speed_of(layout.guess.step_s, layout.point);
      const auto& peak = request_.cluster.peak(layout.point.dtype);
      layout.mfu = layout.tokens_per_s_per_gpu * flops_per_token(request_.model, request_.seq_len) /
          peak.value_or(0);
    }
    // What computes is not waiting; it limits only where nothing else weighs much.
    constexpr double much = 0.1;
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

  const SuggestRequest& request_;
  Predictor predictor_;
  std::size_t plan_size_ = 0;
  std::vector<std::pair<double, Point>> unfitting_;         ///< with the seconds of a step
  std::map<std::vector<std::int64_t>, std::string> words_;  ///< by kinds of values of all axes
  std::map<std::vector<std::int64_t>, std::string> rules_;  ///< by values of the axes they name
};

class Suggester {
 public:
  explicit Suggester(const SuggestRequest& request)
      : request_(request), predictor_(predictor_of(request)) {}

  Result<Suggestion> make() {
    LayoutJudge judge(request_);
    SHARDSWEEP_ASSIGN(all_, judge.make());
    choose();
    // Below this a faster layout is a tie.
    constexpr double much = 0.99;
    if (all_.fitting.empty()) {
      SHARDSWEEP_TRY(hold_offload());
    } else {
      SHARDSWEEP_ASSIGN(
          suggestion_.offloaded, judge.offloaded(much * all_.fitting.front().guess.step_s));
    }
    suggestion_.parameters = parameters(request_.model);
    say_memory();
    if (suggestion_.layouts.empty()) suggestion_.memory.push_back(why_none());
    say_batch();
    for (const auto& layout : suggestion_.layouts) {
      const bool advise = &layout != suggestion_.layouts.data() && !layout.remedy.empty();
      suggestion_.throughput.push_back(
          fmt::format("{}: {}{}", layout_text(layout.point, LayoutForm::sentence), layout.limit,
              advise ? " " + layout.remedy : ""));
    }
    check_rules();
    say_flow();
    return std::move(suggestion_);
  }

 private:
  void choose() {
    suggestion_.layouts_judged = all_.judged;
    suggestion_.layouts_fitting = static_cast<std::int64_t>(all_.fitting.size());
    std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> seen;
    for (const auto& layout : all_.fitting) {
      const auto& is = layout.point.layout;
      if (suggestion_.layouts.size() >= request_.most) break;
      if (seen.emplace(is.dp, is.tp, is.pp).second) suggestion_.layouts.push_back(layout);
    }
  }

  /// Where nothing fits, the plan has left most layouts out: each value is held in turn.
  Result<void> hold_offload() {
    const auto& offload = *find_axis("offload");
    const auto is_it = [&](const AxisValues& lock) { return lock.axis == &offload; };
    if (std::any_of(request_.locks.begin(), request_.locks.end(), is_it)) return {};
    for (auto value = offload.minimum + 1; value <= offload.maximum; ++value) {
      auto held = request_;
      held.locks.push_back({&offload, false, {value}});
      SHARDSWEEP_ASSIGN(const auto its, judge_layouts(held));
      auto& best = suggestion_.offloaded;
      if (its.fitting.empty()) continue;
      if (!best || its.fitting.front().guess.step_s < best->guess.step_s)
        best = its.fitting.front();
    }
    return {};
  }

  [[nodiscard]] MemoryEstimate alone() const {
    Point point;
    point.gpus = 1;
    point.seq_len = request_.seq_len;
    point.dtype = dtype_of(request_);
    return predictor_.guess_memory(request_.model, point).estimate;
  }

  /// The least tp x pp with which a layout of that ZeRO stage fits.
  [[nodiscard]] std::optional<Point> least_split(std::int32_t zero) const {
    std::optional<Point> least;
    const auto cost = [](const Point& point) {
      const auto& is = point.layout;
      return std::tuple(std::int64_t{is.tp} * is.pp, is.recompute, is.tp);
    };
    for (const auto& layout : all_.fitting) {
      if (layout.point.layout.zero != zero) continue;
      if (!least || cost(layout.point) < cost(*least)) least = layout.point;
    }
    return least;
  }

  void say_memory() {
    auto& lines = suggestion_.memory;
    const auto whole = alone();
    const auto capacity = request_.cluster.memory_bytes;
    const auto needs = size_text(whole.total());
    lines.push_back(fmt::format("One sample on one GPU needs {} ({}).", needs, memory_text(whole)));
    if (capacity > 0) {
      lines.push_back(fmt::format("A GPU of {} has {}: {}", request_.cluster.name,
          size_text(capacity), whole.total() <= capacity ? "it fits." : "it does not fit."));
    }
    for (const std::int32_t zero : {0, 1, 2, 3}) {
      if (const auto least = least_split(zero)) {
        const auto split = std::int64_t{least->layout.tp} * least->layout.pp;
        lines.push_back(fmt::format("ZeRO {} {} ({}).", zero,
            split == 1 ? "fits without tensor or pipeline parallelism"
                       : fmt::format("fits from tp × pp = {}", split),
            layout_text(*least, LayoutForm::sentence)));
      }
    }
    if (suggestion_.layouts_judged > 0) {
      lines.push_back(fmt::format("{} of {} layouts fit even by the pessimistic estimate.",
          grouped(suggestion_.layouts_fitting), grouped(suggestion_.layouts_judged)));
    }
  }

  /// Odd part of the number of GPUs, which has to divide the samples unless a pipeline takes it.
  [[nodiscard]] std::int64_t odd_ranks() const {
    std::int64_t odd = std::max(request_.gpus, 1);
    while (odd % 2 == 0)
      odd /= 2;
    return odd;
  }

  /// Memory only if a layout got as far as being judged by it.
  [[nodiscard]] std::string why_none() {
    const auto& left_out = all_.left_out_by_constraint;
    const bool refused = left_out.contains("trainer") && all_.doubtful.empty();
    if (!refused && (suggestion_.layouts_judged > 0 || left_out.contains("memory")))
      return "Nothing fits. Use more GPUs, a shorter seq_len or a smaller model.";
    const auto samples = request_.global_batch_tokens / request_.seq_len;
    const auto odd = odd_ranks();
    if (left_out.contains("batch") && samples % odd != 0) {
      suggestion_.batches = batches_that_work(samples, odd);
      return fmt::format("No layout divides the batch: {} not a multiple of {}. {}",
          samples == 1 ? "1 sample is" : counted(samples, "sample") + " are", odd,
          suggestion_.batches.empty()
              ? "Use another number of GPUs."
              : fmt::format("A batch of {} tokens is.", fmt::join(suggestion_.batches, " or ")));
    }
    const auto& why = all_.why_left_out;
    return why.empty() ? "No layout is worth a suggestion." : "No layout can run: " + why + ".";
  }

  /// The next smaller and larger ones with which a layout fits: multiples of `odd` x a power of
  /// two, which leaves room for micro-batches and is at most an eighth of the batch.
  [[nodiscard]] std::vector<std::string> batches_that_work(
      std::int64_t samples, std::int64_t odd) const {
    constexpr std::int64_t eighth = 8;
    auto step = odd;
    while (step * 2 * eighth <= samples)
      step *= 2;
    const auto below = std::max(samples / step, std::int64_t{1}) * step;
    std::vector<std::string> found;
    for (const auto batch : {below, below + step}) {
      SuggestRequest other = request_;
      other.global_batch_tokens = batch * request_.seq_len;
      const auto suggestion = suggest(other);
      if (!suggestion || suggestion->layouts.empty()) continue;
      const auto text = config::binary_count_text(other.global_batch_tokens);
      found.push_back(text.empty() ? std::to_string(other.global_batch_tokens) : text);
    }
    return found;
  }

  void say_batch() {
    auto& lines = suggestion_.batch;
    const auto samples = request_.global_batch_tokens / request_.seq_len;
    lines.push_back(
        fmt::format("{} tokens are {} of {} tokens.", grouped(request_.global_batch_tokens),
            counted(samples, "sample"), grouped(request_.seq_len)));
    if (samples < request_.gpus) {
      lines.push_back(
          fmt::format("There are fewer samples than GPUs ({}). At least {} GPUs must share a "
                      "sample by tp, pp or cp.",
              grouped(request_.gpus), (request_.gpus + samples - 1) / samples));
    }
    for (const auto& layout : suggestion_.layouts) {
      const auto& is = layout.point.layout;
      auto line = fmt::format("dp {} × micro_batch {} × grad_accum {} = {}", is.dp, is.micro_batch,
          is.grad_accum, counted(is.global_batch(), "sample"));
      // Layouts that differ in tp and pp alone reach it the same way.
      if (std::find(lines.begin(), lines.end(), line) == lines.end())
        lines.push_back(std::move(line));
    }
  }

  void add_check(
      std::string rule, bool holds, std::string why, std::string_view where, bool applies = true) {
    suggestion_.checks.push_back(
        {std::move(rule), holds, applies, std::move(why), fmt::format("{}, {}", playbook, where)});
  }

  void check_rules() {
    constexpr std::int64_t few_tokens = 4'000'000;
    constexpr std::int64_t many_tokens = 60'000'000;
    const auto tokens = request_.global_batch_tokens;
    add_check("the global batch has 4 to 60 million tokens",
        tokens >= few_tokens && tokens <= many_tokens, fmt::format("it has {}", grouped(tokens)),
        "First steps: training on one GPU");
    if (suggestion_.layouts.empty()) return;
    const auto& is = suggestion_.layouts.front().point.layout;
    const auto per_node = request_.cluster.gpus_per_node;
    add_check("tensor parallelism stays inside a node", is.tp <= per_node,
        fmt::format("tp {}, and a node has {}", is.tp, counted(per_node, "GPU")),
        "Tensor parallelism");
    constexpr std::int32_t many_gpus = 512;
    const bool pure = is.zero == 3 && is.tp == 1 && is.pp == 1;
    add_check("beyond 512 GPUs ZeRO 3 is combined with tp or pp",
        !pure || request_.gpus <= many_gpus,
        request_.gpus > many_gpus ? fmt::format("ZeRO {}, tp {}, pp {}", is.zero, is.tp, is.pp)
                                  : counted(request_.gpus, "GPU"),
        "Finding the best training configuration, step 1", request_.gpus > many_gpus);
  }

  /// The fastest fitting layout that is so; null: there is none.
  template <class Is>
  [[nodiscard]] const SuggestedLayout* fitting(const Is& is) const {
    const auto found = std::find_if(all_.fitting.begin(), all_.fitting.end(),
        [&](const SuggestedLayout& layout) { return is(layout.point.layout); });
    return found == all_.fitting.end() ? nullptr : &*found;
  }

  /// How it is made to fit: the first that is enough ends the questions about memory.
  void say_flow_of_memory() {
    const auto whole = alone().total();
    const auto capacity = request_.cluster.memory_bytes;
    const auto text = [](std::int64_t bytes) { return size_text(bytes); };
    const bool alone_fits = capacity <= 0 || whole <= capacity;
    suggestion_.flow.push_back({"Does a train step of one sample fit on one GPU?", alone_fits,
        fmt::format("{} of {}", text(whole), text(capacity))});
    const auto per_node = request_.cluster.gpus_per_node;
    const auto ask = [&](std::string question, const SuggestedLayout* found) {
      suggestion_.flow.push_back({std::move(question), found != nullptr,
          found == nullptr ? "no such layout fits"
                           : layout_text(found->point, LayoutForm::sentence)});
      return found != nullptr;
    };
    if (alone_fits) return;
    if (ask("Is ZeRO with recomputation enough?",
            fitting([](const Layout& at) { return at.tp * at.pp * at.cp == 1; })))
      return;
    if (ask("Is tensor parallelism inside a node enough?",
            fitting([&](const Layout& at) { return at.pp * at.cp == 1 && at.tp <= per_node; })))
      return;
    ask("Do a pipeline or ranks that share a sample make it fit?",
        fitting([](const Layout&) { return true; }));
  }

  void say_flow() {
    say_flow_of_memory();
    if (suggestion_.layouts.empty()) return;
    const auto samples = request_.global_batch_tokens / request_.seq_len;
    suggestion_.flow.push_back(
        {"Does the batch have a sample for each GPU?", samples >= request_.gpus,
            fmt::format("{} for {}", counted(samples, "sample"), counted(request_.gpus, "GPU"))});
    const auto& best = suggestion_.layouts.front();
    constexpr double mostly = 0.5;
    suggestion_.flow.push_back({"Does the fastest layout mostly compute?", best.computes > mostly,
        fmt::format("{:.0f} % of the step computes{}", 100 * best.computes,
            best.waits ? fmt::format("; {}", best.limit) : ".")});
  }

  const SuggestRequest& request_;
  Predictor predictor_;
  JudgedLayouts all_;
  Suggestion suggestion_;
};

}  // namespace

ToldStages told_stages(const SuggestRequest& request, std::int64_t pp) {
  const auto layers = request.model.layers;
  Point even = world_of(request);
  even.layout.pp = static_cast<std::int32_t>(pp);
  const auto trainer = request.family->words;
  const bool needs_to_be_told = layers % pp != 0 &&
      !word_of_axis(trainer, "first_stage_layers").empty() &&
      !rule_against_point(trainer, even, request.model).empty();
  if (!needs_to_be_told) return {};
  const auto most = (layers + pp - 1) / pp;
  const auto rest = layers - most * (pp - 2);
  if (rest < 2) return {};
  return {static_cast<std::int32_t>(rest - rest / 2), static_cast<std::int32_t>(rest / 2)};
}

Dtype dtype_of(const SuggestRequest& request) {
  return request.dtype.value_or(request.cluster.gpu.empty() ? Dtype::fp32 : Dtype::bf16);
}

Point world_of(const SuggestRequest& request) {
  Point point;
  point.nodes = request.nodes;
  point.gpus = request.gpus;
  point.seq_len = request.seq_len;
  point.dtype = dtype_of(request);
  return point;
}

std::span<const StepPart> step_parts() {
  return parts;
}

Result<SuggestRequest> on_gpus(SuggestRequest request, std::int32_t gpus) {
  const auto per_node = request.cluster.gpus_per_node;
  request.gpus = gpus;
  request.nodes = gpus > per_node ? gpus / per_node : 0;
  if (gpus >= 1 && (gpus <= per_node || gpus % per_node == 0)) return request;
  const auto below = gpus / per_node * per_node;
  return fault(FaultKind::invalid_input,
      fmt::format("{} are no whole nodes of {}; use {} or {}", counted(gpus, "GPU"), per_node,
          grouped(std::max(below, 1)), grouped(below + per_node)));
}

std::vector<std::int64_t> tried_values(const SuggestRequest& request, const AxisInfo& axis) {
  return LayoutJudge(request).worth_a_thought(axis);
}

Result<JudgedLayouts> judge_layouts(const SuggestRequest& request) {
  return LayoutJudge(request).make();
}

Result<Suggestion> suggest(const SuggestRequest& request) {
  return Suggester(request).make();
}

}  // namespace shardsweep
