// SPDX-License-Identifier: Apache-2.0
// layout_judge.hpp gives layouts that a plan would take, so that a suggestion can't contradict a
// plan. Of what certainly fits, the fastest is shown for each split into dp, tp and pp, since
// variants of one split tell a person little. The playbook's rules are checked afterwards and
// cited; they choose nothing.
#include "plan/suggest.hpp"

#include "plan/layout_judge.hpp"
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

std::string memory_text(const MemoryEstimate& estimate) {
  std::string text;
  for (std::size_t i = 0; i < memory_class_words.size(); ++i) {
    if (estimate.bytes[i] == 0) continue;
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ", memory_class_words[i], size_text(estimate.bytes[i]));
  }
  return text;
}

class Suggester {
 public:
  explicit Suggester(const SuggestRequest& request)
      : request_(request), predictor_(predictor_of(request)) {}

  Result<Suggestion> make() {
    LayoutJudge judge(request_);
    SHARDSWEEP_ASSIGN(all_, judge.make());
    choose();
    // A faster layout above this ratio is a tie.
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
      suggestion_.throughput.push_back(fmt::format(
          "{}: {}{}", layout_text(layout.point), layout.limit, advise ? " " + layout.remedy : ""));
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

  /// If nothing fits, the plan has left out most layouts, so each value is fixed in turn.
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
            layout_text(*least)));
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
    return why.empty() ? "No layout is good enough to suggest." : "No layout can run: " + why + ".";
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
      // Layouts that differ only in tp and pp reach the batch in the same way.
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

  /// The fastest fitting layout with this property; null: there is none.
  template <class Is>
  [[nodiscard]] const SuggestedLayout* fitting(const Is& is) const {
    const auto found = std::find_if(all_.fitting.begin(), all_.fitting.end(),
        [&](const SuggestedLayout& layout) { return is(layout.point.layout); });
    return found == all_.fitting.end() ? nullptr : &*found;
  }

  /// Asks how the layout is made to fit: the first remedy that is enough ends the questions about
  /// memory.
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
          found == nullptr ? "no such layout fits" : layout_text(found->point)});
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

ToldStages told_stages(const SuggestRequest& request, std::int64_t pp, std::int64_t vpp) {
  const auto layers = request.model.layers;
  if (vpp > 1) {
    if (!trainer_file(request.family->words).ends_count_as_layers) return {};
    const auto missing = pp * vpp - layers % (pp * vpp);
    const auto others = static_cast<std::int32_t>((layers + missing) / pp);
    if (missing == 1) return {0, others - 1};
    return missing == 2 ? ToldStages{others - 1, others - 1} : ToldStages{};
  }
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
  return fault(FaultKind::invalid_input, "{} do not fill whole nodes of {}; use {} or {}",
      counted(gpus, "GPU"), per_node, grouped(std::max(below, 1)), grouped(below + per_node));
}

std::vector<std::int64_t> tried_values(const SuggestRequest& request, const AxisInfo& axis) {
  return LayoutJudge(request).worth_a_thought(axis);
}

Result<JudgedLayouts> judge_layouts(const SuggestRequest& request) {
  return LayoutJudge(request).make();
}

bool can_be_asked_to_offload(const SuggestRequest& request) {
  const auto trainer = request.family->words;
  const bool is_held = std::any_of(request.locks.begin(), request.locks.end(),
      [](const AxisValues& lock) { return lock.axis->name == "offload"; });
  return !is_held && (trainer.empty() || !word_of_axis(trainer, "offload").empty());
}

Result<bool> some_layout_fits(const SuggestRequest& request) {
  return LayoutJudge(request).fits();
}

Result<Suggestion> suggest(const SuggestRequest& request) {
  return Suggester(request).make();
}

}  // namespace shardsweep
