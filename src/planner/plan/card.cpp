// SPDX-License-Identifier: Apache-2.0
#include "plan/card.hpp"

#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <cmath>

namespace shardsweep {
namespace {

/// Error range of the time model: two of three measurements lie within it.
std::string sigma_text(const SuggestedLayout& layout) {
  return fmt::format("±{:.0f} %", 100 * std::expm1(layout.guess.log_sigma));
}

/// "0.94 in the median, 0.85 to 1.10 in the middle 80 % of 12 layouts"
std::string spread_text(const RatioSpread& spread) {
  return fmt::format("{:.2f} in the median, {:.2f} to {:.2f} in the middle 80 % of {}",
      spread.median, spread.low, spread.high,
      counted(static_cast<std::int64_t>(spread.count), "layout"));
}

/// How far the predictor was off where it was measured.
void append_errors(const LearntPredictor& learnt, std::vector<std::string>& lines) {
  if (!learnt.unused.empty()) lines.push_back(learnt.unused);
  if (learnt.runs.empty()) return;
  const auto runs = counted(static_cast<std::int64_t>(learnt.runs.size()), "layout");
  lines.push_back(fmt::format("Learnt from {} of '{}'.", runs, learnt.name));
  if (learnt.speed.count > 0)
    lines.push_back(fmt::format(
        "Measured speed over the speed predicted before learning: {}.", spread_text(learnt.speed)));
  if (learnt.memory.count > 0)
    lines.push_back(
        fmt::format("Measured peak memory over predicted: {}.", spread_text(learnt.memory)));
}

std::string billions_text(std::int64_t count) {
  constexpr double billion = 1e9;
  constexpr double million = 1e6;
  const auto value = static_cast<double>(count);
  return value < billion ? amount_text(value / million) + " M"
                         : amount_text(value / billion) + " B";
}

}  // namespace

std::string parameters_sentence(const ModelSpec& model) {
  auto all = billions_text(parameters(model)) + " parameters";
  if (model.experts == 0) return all;
  return fmt::format("{}, {} of them active", all, billions_text(active_parameters(model)));
}

std::string asked_sentence(const SuggestRequest& request) {
  const auto per_node = request.cluster.gpus_per_node;
  const auto nodes = request.nodes > 0 && per_node > 0
      ? fmt::format(" ({} of {})", counted(request.nodes, "node"), per_node)
      : std::string();
  const auto& family = *request.family;
  const bool doubtful = !family.measured_on_gpus && !request.cluster.gpu.empty();
  return fmt::format("{} for {}{}: {} on {}{} of {}, {} tokens per sample, {} per train step",
      request.model.name, family.title, doubtful ? " (never measured on a GPU)" : "",
      parameters_sentence(request.model), counted(request.gpus, "GPU"), nodes, request.cluster.name,
      grouped(request.seq_len), grouped(request.global_batch_tokens));
}

std::string headline(const SuggestRequest& request, const SuggestedLayout& layout) {
  const auto memory = fmt::format("{} of {}", size_text(layout.guess.memory.estimate.total()),
      size_text(request.cluster.memory_bytes));
  if (layout.tokens_per_s_per_gpu <= 0) return fmt::format("{} per GPU.", memory);
  return fmt::format("predicted: about {} tokens/s per GPU ({} MFU, {}), {}.",
      amount_text(layout.tokens_per_s_per_gpu), percent_text(layout.mfu), sigma_text(layout),
      memory);
}

std::string fastest_measured(const SuggestRequest& request) {
  if (!request.learnt) return {};
  const auto* const found =
      request.learnt->fastest(request.model, world_of(request), [](const Layout&) { return true; });
  if (found == nullptr) return {};
  return fmt::format("Fastest in '{}' on {}: {}; {}.", request.learnt->name,
      counted(request.gpus, "GPU"), layout_text(found->seen.point), measured_sentence(*found));
}

std::vector<std::string> runners_up(const Suggestion& suggestion) {
  std::vector<std::string> lines;
  for (std::size_t i = 1; i < suggestion.layouts.size(); ++i) {
    const double best_s = suggestion.layouts.front().guess.step_s;
    const auto& layout = suggestion.layouts[i];
    const double slower = 1 - best_s / layout.guess.step_s;
    const auto speed = layout.tokens_per_s_per_gpu > 0
        ? amount_text(layout.tokens_per_s_per_gpu) + " tokens/s per GPU, "
        : std::string();
    lines.push_back(fmt::format("{}: {}{} slower, {}", layout_text(layout.point), speed,
        percent_text(slower), size_text(layout.guess.memory.estimate.total())));
  }
  return lines;
}

std::vector<std::string> trust(const SuggestRequest& request, const SuggestedLayout& layout) {
  const auto& family = *request.family;
  const auto& memory = layout.guess.memory;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("Family {} ({}). Its constants come from {}.", family.name,
      family.trainer, family.fitted_to));
  lines.push_back(layout.guess.time.nominal
          ? fmt::format("{} has no peak speed for this dtype, so layouts can be compared, but "
                        "their speed is unknown.",
                request.cluster.name)
          : fmt::format("Train step time: {} {}; the time model expects two of three "
                        "measurements in that range.",
                sigma_text(layout),
                request.learnt && !request.learnt->runs.empty()
                    ? "with what was learnt"
                    : "before anything is measured on the cluster"));
  if (request.learnt) append_errors(*request.learnt, lines);
  lines.push_back(fmt::format("Memory: {} by the optimistic estimate, {} by the pessimistic one.",
      size_text(memory.lower_bytes), size_text(memory.upper_bytes)));
  if (!request.cluster.note.empty()) lines.push_back(request.cluster.note);
  if (!request.model.note.empty()) lines.push_back(request.model.note);
  return lines;
}

}  // namespace shardsweep
