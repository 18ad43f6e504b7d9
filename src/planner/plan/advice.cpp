// SPDX-License-Identifier: Apache-2.0
#include "plan/advice.hpp"

#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"
#include "text/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

SuggestRequest with_locks(SuggestRequest request, const std::vector<AxisValues>& more) {
  for (const auto& setting : more) {
    std::erase_if(request.locks, [&](const AxisValues& lock) { return lock.axis == setting.axis; });
    request.locks.push_back(setting);
  }
  return request;
}

constexpr double visible_share = 0.0005;

std::string why_doubtful(const SuggestRequest& request, const SuggestedLayout& layout) {
  if (layout.measured) return fmt::format("It {}.", measured_sentence(*layout.measured));
  const auto& memory = layout.guess.memory;
  return fmt::format("It may run out of memory: it needs {} to {}, and a GPU has {}.",
      size_text(memory.lower_bytes), size_text(memory.upper_bytes),
      size_text(request.cluster.memory_bytes));
}

/// Explains why no layout surely fits.
std::string why_none_fits(const SuggestRequest& request, const JudgedLayouts& judged) {
  if (!judged.doubtful.empty()) return why_doubtful(request, judged.doubtful.front());
  if (!judged.why_left_out.empty()) return judged.why_left_out + ".";
  return judged.judged > 0 ? "It does not fit in memory." : "No layout is good enough to suggest.";
}

std::int64_t place_of(const SuggestedLayout& layout, const JudgedLayouts& all) {
  return 1 + std::count_if(all.fitting.begin(), all.fitting.end(), [&](const auto& other) {
    return other.guess.step_s < layout.guess.step_s;
  });
}

std::string why_slower(const SuggestedLayout& layout, const SuggestedLayout& best) {
  const double less = 1 - best.guess.step_s / layout.guess.step_s;
  if (less < visible_share) return "It is as fast as the fastest layout.";
  return fmt::format(
      "It fits, but is {} slower than the fastest ({}): a step takes {} instead of {}. {} {}",
      percent_text(less), layout_text(best.point), duration_text(layout.guess.step_s),
      duration_text(best.guess.step_s), layout.limit, layout.remedy);
}

std::vector<std::int32_t> powers_up_to(std::int64_t most) {
  std::vector<std::int32_t> values;
  for (std::int64_t value = 1; value <= most; value *= 2)
    values.push_back(static_cast<std::int32_t>(value));
  return values;
}

}  // namespace

Result<WhyNot> why_not(const SuggestRequest& request, const std::vector<AxisValues>& layout) {
  const auto asked = with_locks(request, layout);
  SHARDSWEEP_ASSIGN(const auto all, judge_layouts(request));
  SHARDSWEEP_ASSIGN(const auto its, judge_layouts(asked));
  WhyNot answer;
  answer.of = static_cast<std::int64_t>(all.fitting.size());
  if (its.fitting.empty()) {
    if (!its.doubtful.empty()) answer.layout = its.doubtful.front();
    answer.why = why_none_fits(asked, its);
    return answer;
  }
  answer.layout = its.fitting.front();
  answer.fits = true;
  answer.place = place_of(*answer.layout, all);
  // A value that is never suggested unasked can be in no list, and may be faster than all in it.
  const bool is_best =
      all.fitting.empty() || answer.layout->guess.step_s <= all.fitting.front().guess.step_s;
  answer.why = is_best ? "It is the fastest layout of these."
                       : why_slower(*answer.layout, all.fitting.front());
  return answer;
}

Result<std::string> cost_of_locks(const SuggestRequest& request) {
  if (request.locks.empty()) return std::string();
  SHARDSWEEP_ASSIGN(const auto held, judge_layouts(request));
  SuggestRequest open = request;
  open.locks.clear();
  SHARDSWEEP_ASSIGN(const auto free, judge_layouts(open));
  if (held.fitting.empty() || free.fitting.empty()) return std::string();
  const auto& best = free.fitting.front();
  const double less = 1 - best.guess.step_s / held.fitting.front().guess.step_s;
  if (less < visible_share) return std::string();
  return fmt::format(
      "{} slower than {}, the fastest without locks.", percent_text(less), layout_text(best.point));
}

std::vector<std::int32_t> gpu_counts_worth_a_look(const SuggestRequest& request) {
  constexpr std::int64_t at_least = 512;
  constexpr std::int64_t at_most = 1 << 16;
  constexpr std::int64_t times = 4;
  const std::int64_t per_node = std::max(request.cluster.gpus_per_node, 1);
  const auto most = std::clamp(times * request.gpus, at_least, at_most);
  std::set<std::int32_t> counts{request.gpus};
  for (const auto gpus : powers_up_to(per_node))
    counts.insert(gpus);
  for (const auto nodes : powers_up_to(most / per_node))
    counts.insert(static_cast<std::int32_t>(nodes * per_node));
  return {counts.begin(), counts.end()};
}

Result<std::vector<GpuCount>> over_gpu_counts(
    const SuggestRequest& request, const std::vector<std::int32_t>& counts) {
  std::vector<GpuCount> all;
  double fastest = 0;
  for (const auto gpus : counts) {
    GpuCount one;
    one.gpus = gpus;
    if (const auto other = on_gpus(request, gpus); !other) {
      one.why = other.error().what;
    } else {
      SHARDSWEEP_ASSIGN(const auto judged, judge_layouts(*other));
      if (judged.fitting.empty()) {
        one.why = why_none_fits(*other, judged);
      } else {
        one.best = judged.fitting.front();
        fastest = std::max(fastest, one.best->tokens_per_s_per_gpu);
      }
    }
    all.push_back(std::move(one));
  }
  constexpr double billion = 1e9;
  constexpr double hour_s = 3600;
  for (auto& one : all) {
    const double speed = one.best ? one.best->tokens_per_s_per_gpu : 0;
    if (speed <= 0) continue;
    one.efficiency = speed / fastest;
    one.gpu_hours_per_1e9 = billion / speed / hour_s;
  }
  return all;
}

Result<std::optional<std::int32_t>> least_gpus(const SuggestRequest& request) {
  for (const auto gpus : gpu_counts_worth_a_look(request)) {
    const auto other = on_gpus(request, gpus);
    if (!other) continue;
    SHARDSWEEP_ASSIGN(const bool fits, some_layout_fits(*other));
    if (fits) return std::optional(gpus);
  }
  return std::optional<std::int32_t>();
}

Result<BatchVerdict> judge_batch(const SuggestRequest& request) {
  SHARDSWEEP_ASSIGN(const auto now, judge_layouts(request));
  return judge_batch(request, now.fitting);
}

Result<BatchVerdict> judge_batch(
    const SuggestRequest& request, std::span<const SuggestedLayout> now) {
  constexpr std::int64_t times = 4;
  constexpr double worth_having = 0.1;
  SuggestRequest larger = request;
  larger.global_batch_tokens *= times;
  SHARDSWEEP_ASSIGN(const auto then, judge_layouts(larger));
  BatchVerdict verdict;
  verdict.tokens_per_gpu = request.global_batch_tokens / request.gpus;
  if (!now.empty() && !then.fitting.empty())
    verdict.gain = times * now.front().guess.step_s / then.fitting.front().guess.step_s - 1;
  verdict.too_few = verdict.gain > worth_having || (now.empty() && !then.fitting.empty());
  const auto text = config::binary_count_text(larger.global_batch_tokens);
  const auto more = text.empty() ? grouped(larger.global_batch_tokens) : text;
  const auto each = fmt::format("{} tokens per GPU and step", grouped(verdict.tokens_per_gpu));
  const auto faster =
      fmt::format(" With {} each GPU would be {:.0f} % faster.", more, 100 * verdict.gain);
  if (now.empty()) {
    verdict.text = then.fitting.empty()
        ? fmt::format("Batch: {}.", each)
        : fmt::format("Batch too small: {}. A batch of {} fits.", each, more);
  } else if (verdict.too_few) {
    verdict.text = fmt::format("Batch too small: {}.{}", each, faster);
  } else {
    verdict.text =
        fmt::format("Batch large enough: {}.{}", each, verdict.gain >= 0.005 ? faster : "");
  }
  return verdict;
}

Result<std::vector<PairCell>> over_pairs(const SuggestRequest& asked, const AxisPair& pair) {
  const auto& across = *find_axis(pair.across);
  const auto& down = *find_axis(pair.down);
  SuggestRequest request = asked;
  std::erase_if(request.locks,
      [&](const AxisValues& lock) { return lock.axis == &across || lock.axis == &down; });
  SHARDSWEEP_ASSIGN(const auto all, judge_layouts(request));
  std::map<std::pair<std::int64_t, std::int64_t>, const SuggestedLayout*> best;
  for (const auto& layout : all.fitting)
    best.try_emplace({down.get(layout.point), across.get(layout.point)}, &layout);
  std::vector<PairCell> cells;
  for (const auto row : tried_values(request, down)) {
    for (const auto column : tried_values(request, across)) {
      if (across.is(AxisUse::degree) && request.gpus % (column * row) != 0) continue;
      PairCell cell{static_cast<std::int32_t>(column), static_cast<std::int32_t>(row), {}, {}};
      if (const auto found = best.find({row, column}); found != best.end()) {
        cell.best = *found->second;
      } else {
        const auto its = with_locks(request, {{&across, false, {column}}, {&down, false, {row}}});
        SHARDSWEEP_ASSIGN(const auto judged, judge_layouts(its));
        // A value that no suggestion has unless somebody asks for it.
        if (!judged.fitting.empty()) cell.best = judged.fitting.front();
        if (judged.fitting.empty()) cell.why = why_none_fits(its, judged);
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

}  // namespace shardsweep
