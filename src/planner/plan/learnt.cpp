// SPDX-License-Identifier: Apache-2.0
#include "plan/learnt.hpp"

#include "sweep/axis_setting.hpp"
#include "text/numbers.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsweep {

bool same_shape(ModelSpec a, const ModelSpec& b) {
  a.name = b.name;
  a.note = b.note;
  return a == b;
}

namespace {

bool is_of(const MeasuredLayout& measured, const ModelSpec& model, const Point& point) {
  const auto& its = measured.seen.point;
  return its.gpus == point.gpus && its.seq_len == point.seq_len && its.dtype == point.dtype &&
      same_shape(measured.seen.model, model);
}

bool has_run(const MeasuredLayout& measured) {
  return measured.seen.outcome == Outcome::completed;
}

std::string hardware_text(const ClusterSpec& cluster) {
  return fmt::format("{} of {}",
      cluster.gpu.empty() ? counted(cluster.gpus_per_node, "CPU slot")
                          : fmt::format("{} {} per node", cluster.gpus_per_node, cluster.gpu),
      size_text(cluster.memory_bytes));
}

}  // namespace

RatioSpread spread_of(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    const auto rank = std::lround(share * static_cast<double>(ratios.size() - 1));
    return ratios[static_cast<std::size_t>(rank)];
  };
  constexpr double tenth = 0.1;
  return {ratios.size(), at(0.5), at(tenth), at(1 - tenth)};
}

Result<Observation> observation_of(
    const std::vector<ModelSpec>& models, const LearntRun& run, int gpus_per_node) {
  if (run.model < 0 || static_cast<std::size_t>(run.model) >= models.size())
    return fault(FaultKind::invalid_input, "a measured run has model {} of {}", run.model,
        counted(static_cast<std::int64_t>(models.size()), "model"));
  Observation seen;
  seen.model = models[static_cast<std::size_t>(run.model)];
  seen.point.gpus = run.gpus;
  seen.point.nodes = run.gpus > gpus_per_node ? run.gpus / std::max(gpus_per_node, 1) : 0;
  seen.point.seq_len = run.seq_len;
  SHARDSWEEP_ASSIGN(const auto dtype, axis_value_from(*find_axis("dtype"), run.dtype));
  seen.point.dtype = static_cast<Dtype>(dtype);
  SHARDSWEEP_ASSIGN(const auto settings, read_layout_settings(run.layout));
  for (const auto& setting : settings)
    setting.axis->set(seen.point, setting.values.front());
  if (seen.point.layout.world() != run.gpus)
    return fault(FaultKind::invalid_input, "a measured run of {} has the layout '{}'",
        counted(run.gpus, "GPU"), run.layout);
  const auto outcome = from_word<Outcome>(run.outcome);
  if (outcome != Outcome::completed && outcome != Outcome::oom)
    return fault(FaultKind::invalid_input, "outcome takes completed or oom, not '{}'", run.outcome);
  seen.outcome = *outcome;
  if (seen.outcome == Outcome::completed) seen.tokens_per_s_per_gpu = run.tokens_per_s_per_gpu;
  seen.peak_bytes = run.peak_bytes;
  return seen;
}

const MeasuredLayout* LearntPredictor::fastest(const ModelSpec& model, const Point& point,
    const std::function<bool(const Layout&)>& wanted) const {
  for (const auto& one : runs) {
    if (has_run(one) && one.seen.tokens_per_s_per_gpu > 0 && is_of(one, model, point) &&
        wanted(one.seen.point.layout))
      return &one;
  }
  return nullptr;
}

const MeasuredLayout* LearntPredictor::of(const ModelSpec& model, const Point& point) const {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const MeasuredLayout& one) {
    return one.seen.point.layout == point.layout && is_of(one, model, point);
  });
  return found == runs.end() ? nullptr : &*found;
}

Result<LearntPredictor> learn(
    const Knowledge& knowledge, const ClusterSpec& cluster, const Family& family, Dtype dtype) {
  const Predictor before(cluster, family);
  LearntPredictor learnt{.name = knowledge.name, .predictor = before};
  const bool known_hardware = knowledge.cluster.memory_bytes > 0;
  if (known_hardware && !same_hardware(knowledge.cluster, cluster)) {
    learnt.unused = fmt::format("Nothing is learnt from '{}': it ran on {}, but {} has {}.",
        knowledge.name, hardware_text(knowledge.cluster), cluster.name, hardware_text(cluster));
    return learnt;
  }
  if (const auto& its = knowledge.cluster.name;
      !known_hardware && !its.empty() && its != cluster.name) {
    learnt.unused =
        fmt::format("Nothing is learnt from '{}': it ran on {}, whose hardware is not known.",
            knowledge.name, its);
    return learnt;
  }
  std::int64_t of_other_dtype = 0;
  std::vector<double> speeds;
  std::vector<double> peaks;
  for (const auto& run : knowledge.runs) {
    SHARDSWEEP_ASSIGN(auto seen, observation_of(knowledge.models, run, cluster.gpus_per_node));
    if (seen.point.dtype != dtype) {
      ++of_other_dtype;
      continue;
    }
    if (seen.tokens_per_s_per_gpu > 0) {
      const auto guess = before.guess(seen.model, seen.point);
      if (!guess.time.nominal)
        speeds.push_back(seen.tokens_per_s_per_gpu / speed_of(guess.step_s, seen.point));
      learnt.predictor.learn(seen);
    }
    const auto peak = before.reported_peak_bytes(seen.model, seen.point);
    if (seen.outcome == Outcome::completed && seen.peak_bytes > 0 && peak > 0)
      peaks.push_back(static_cast<double>(seen.peak_bytes) / static_cast<double>(peak));
    learnt.runs.push_back({std::move(seen), run.runs});
  }
  std::stable_sort(learnt.runs.begin(), learnt.runs.end(), [](const auto& a, const auto& b) {
    if (has_run(a) != has_run(b)) return has_run(a);
    return a.seen.tokens_per_s_per_gpu > b.seen.tokens_per_s_per_gpu;
  });
  if (of_other_dtype > 0)
    learnt.unused = fmt::format("{} of '{}' in another dtype than {} {} not used.",
        counted(of_other_dtype, "layout"), knowledge.name,
        dtype_words[static_cast<std::size_t>(dtype)], of_other_dtype == 1 ? "is" : "are");
  learnt.speed = spread_of(std::move(speeds));
  learnt.memory = spread_of(std::move(peaks));
  return learnt;
}

std::string measured_sentence(const MeasuredLayout& measured) {
  if (!has_run(measured)) return "ran out of memory when it was measured";
  return fmt::format("measured: {} tokens/s per GPU in {}",
      amount_text(measured.seen.tokens_per_s_per_gpu), counted(measured.runs, "run"));
}

}  // namespace shardsweep
