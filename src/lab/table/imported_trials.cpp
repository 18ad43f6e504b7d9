// SPDX-License-Identifier: Apache-2.0
#include "table/imported_trials.hpp"

#include "predict/predictor.hpp"
#include "sweep/identity.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

constexpr double milliseconds = 1e3;
constexpr double tera = 1e12;

/// `469B`, `469B-kv_heads8`: what differs from the first model of the name.
void tell_apart(std::vector<ModelSpec>& models) {
  std::map<std::string, ModelSpec> first;
  for (auto& model : models) {
    const auto [same, fresh] = first.emplace(model.name, model);
    if (fresh) continue;
    for (const auto& dimension : shape_fields) {
      const auto value = model.*dimension.member;
      if (value != same->second.*dimension.member)
        model.name += fmt::format("-{}{}", dimension.name, value);
    }
    if (model.tied_embeddings != same->second.tied_embeddings)
      model.name += model.tied_embeddings ? "-tied" : "-untied";
  }
}

class Importer {
 public:
  Importer(const RecordedSweep& recorded, const ImportOptions& options)
      : recorded_(recorded), options_(options) {
    sweep_.name = options.name;
    sweep_.cluster = options.cluster;
    sweep_.models = recorded.models;
    sweep_.runner.name = options.family == nullptr ? "unknown" : std::string(options.family->name);
    tell_apart(sweep_.models);
  }

  ImportedSweep make() {
    ImportedSweep imported;
    imported.flops_model = "megatron_causal";
    imported.labels = options_.labels;
    for (const auto* name : {"kernel", "software_version", "oom_error"})
      imported.labels.emplace_back(name);
    // Keep the newest version for last: the trial that is submitted last is shown.
    const auto is_newest = [this](const RecordedRun& run) {
      return !run.comparable.empty() ||
          (!recorded_.newest_version.empty() && run.software_version == recorded_.newest_version);
    };
    for (const bool newest : {false, true}) {
      for (const auto& run : recorded_.runs) {
        if (is_newest(run) == newest) imported.trials.push_back(trial_of(run));
      }
    }
    imported.source = fmt::format("imported: {} of {}\n",
        counted(static_cast<std::int64_t>(recorded_.runs.size()), "run"), recorded_.file);
    imported.sweep = std::move(sweep_);
    return imported;
  }

 private:
  ImportedTrial trial_of(const RecordedRun& run) {
    ImportedTrial trial;
    trial.point = run.point;
    trial.outcome = run.outcome;
    const auto version =
        run.software_version.empty() ? std::string("unknown") : run.software_version;
    // Readers rank one version at a time; the label software_version keeps the table's word.
    trial.runner_version = run.comparable.empty() ? version : run.comparable;
    trial.cause = fmt::format("recorded in line {} of {}", run.line, recorded_.file);
    const auto& names = names_of(version, run.kernel);
    trial.point.repeat = ++repeats_[names.identity(trial.point)];
    trial.names = {
        names.identity(trial.point), names.slug(trial.point), names.lane_key(trial.point)};
    const auto& model = sweep_.models[static_cast<std::size_t>(run.point.model)];
    if (options_.family != nullptr) {
      trial.prediction =
          Predictor(options_.cluster, *options_.family).predict(model, sweep_.measure, trial.point);
    }
    trial.metrics = metrics_of(run, model);
    // Take the table's node count; a sweep file's worlds below a node have none.
    trial.point.nodes = run.nodes;
    for (std::size_t i = 0; i < run.labels.size(); ++i)
      trial.labels.push_back(recorded_.labels[i].values[static_cast<std::size_t>(run.labels[i])]);
    for (const auto* text : {&run.kernel, &run.software_version})
      trial.labels.push_back(text->empty() ? Value() : Value(*text));
    trial.labels.emplace_back(std::int64_t{run.oom_error ? 1 : 0});
    return trial;
  }

  std::map<std::string, double, std::less<>> metrics_of(
      const RecordedRun& run, const ModelSpec& model) const {
    std::map<std::string, double, std::less<>> metrics;
    if (run.outcome != Outcome::completed) return metrics;
    metrics["n_params"] = static_cast<double>(parameters(model));
    if (run.peak_memory_bytes)
      metrics["peak_memory_bytes"] = static_cast<double>(*run.peak_memory_bytes);
    const double tokens = static_cast<double>(run.point.layout.global_batch()) * run.point.seq_len;
    metrics["tokens_per_step"] = tokens;
    if (!run.tokens_per_s_per_gpu || *run.tokens_per_s_per_gpu <= 0) return metrics;
    const double speed = *run.tokens_per_s_per_gpu;
    metrics["tokens_per_s_per_gpu"] = speed;
    metrics["tokens_per_s"] = speed * run.point.gpus;
    metrics["train_step_ms"] = milliseconds * tokens / (speed * run.point.gpus);
    const double flops = speed * flops_per_token(model, run.point.seq_len);
    metrics["tflops_per_gpu"] = flops / tera;
    const auto& peak = options_.cluster.peak(run.point.dtype);
    if (peak && *peak > 0) metrics["mfu"] = flops / *peak;
    return metrics;
  }

  /// Another kernel is other software.
  const Identifier& names_of(const std::string& version, const std::string& kernel) {
    Capabilities software;
    software.runner = sweep_.runner.name;
    software.version = kernel.empty() ? version : version + " " + kernel;
    const auto found = names_.find(software.version);
    if (found != names_.end()) return found->second;
    return names_.emplace(software.version, Identifier(sweep_, software)).first->second;
  }

  const RecordedSweep& recorded_;
  const ImportOptions& options_;
  SweepSpec sweep_;
  std::map<std::string, Identifier> names_;      // identifiers by software version
  std::map<std::string, std::int32_t> repeats_;  // repeats by identity of the first
};

}  // namespace

ImportedSweep imported_trials(const RecordedSweep& recorded, const ImportOptions& options) {
  return Importer(recorded, options).make();
}

}  // namespace shardsweep
