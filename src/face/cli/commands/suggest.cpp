// SPDX-License-Identifier: Apache-2.0
// suggest: a layout before anything has run.
#include "cli/command.hpp"
#include "cli/commands/known_runs.hpp"
#include "cli/emitting.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "explore/question.hpp"
#include "plan/advice.hpp"
#include "plan/suggested_sweep.hpp"
#include "show/suggest_view.hpp"
#include "sweep/axis_setting.hpp"
#include "sweep/key_text.hpp"
#include "text/pieces.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

std::int64_t constant(const SweepSpec& sweep, std::string_view name) {
  for (const auto& each : sweep.constants) {
    if (each.axis->name == name && !each.values.empty()) return each.values.front();
  }
  return 0;
}

struct AskedValue {
  std::string_view option;
  std::string_view key;  ///< key of the sweep file
  const std::string& value;
};

/// A mistake of the sweep that nobody has written, in words of the options: without the line
/// and the caret below it, which show the key.
Fault of_options(const Fault& mistake, const std::vector<AskedValue>& asked) {
  std::string text;
  for (const auto line : split(mistake.what, '\n')) {
    std::string shown(line);
    for (const auto& one : asked) {
      const std::string setting = fmt::format("{}={}", one.key, one.value);
      if (line == setting) shown.clear();
      if (line.starts_with("--set " + setting))
        shown = fmt::format("{} {}", one.option, line.substr(6 + one.key.size() + 1));
    }
    if (shown.starts_with("--model ") && shown.find("unknown model") != std::string::npos)
      shown += fmt::format("{} Your own: --model FILE.yaml, or Hugging Face's config.json.",
          shown.ends_with('?') ? "" : ".");
    if (shown.find_first_not_of(" ^") == std::string::npos) continue;
    text += (text.empty() ? "" : "\n") + shown;
  }
  return {mistake.kind, text};
}

/// Options that suggest alone has.
struct SuggestOptions {
  std::string from;
  Words locks;
  std::string why_not;
  std::string dtype;
  bool explain = false;
};

bool is_file(std::string_view model) {
  return model.ends_with(".json") || model.ends_with(".yaml") || model.find('/') != model.npos;
}

/// Measurements, model and cluster that no preset describes.
struct OwnSpecs {
  std::optional<Knowledge> measured;
  std::optional<ModelSpec> model;
  std::optional<ClusterSpec> cluster;
};

/// A model of the sweep by its name, or its only one.
Result<std::optional<ModelSpec>> model_of_sweep(
    const Knowledge& measured, const std::string& name) {
  const auto& models = measured.models;
  if (name.empty() && models.size() == 1) return models.front();
  const auto found = std::find_if(
      models.begin(), models.end(), [&](const ModelSpec& one) { return one.name == name; });
  if (found != models.end()) return *found;
  if (!name.empty()) return std::nullopt;
  std::set<std::string> names;
  for (const auto& model : models)
    names.insert(model.name);
  return fault(FaultKind::invalid_input, "Give --model: '{}' has several: {}.", measured.name,
      fmt::join(names, ", "));
}

Result<OwnSpecs> own_specs(const Session& session) {
  const Options& options = session.options;
  const auto& from = options.of<SuggestOptions>().from;
  const auto& model = options.asked.model;
  OwnSpecs own;
  if (!from.empty()) {
    SHARDSWEEP_ASSIGN(own.measured, knowledge_of(session, from, most_measured_runs));
    if (options.asked.cluster.empty() && own.measured->cluster.memory_bytes == 0)
      return fault(FaultKind::invalid_input,
          "'{}' is an imported table, and its cluster '{}' is no preset: give --cluster.",
          own.measured->name, own.measured->cluster.name);
    if (options.asked.cluster.empty()) own.cluster = own.measured->cluster;
    if (!is_file(model)) SHARDSWEEP_SET(own.model, model_of_sweep(*own.measured, model));
  } else if (model.empty() || options.asked.cluster.empty()) {
    const auto* const missing = !model.empty() ? "--cluster"
        : options.asked.cluster.empty()        ? "--model and --cluster"
                                               : "--model";
    return fault(FaultKind::invalid_input,
        "Give {}, or --from SWEEP to take them from a sweep with measurements.", missing);
  }
  if (is_file(model)) SHARDSWEEP_SET(own.model, load_model(model, session.installation.presets));
  return own;
}

/// Sweep that is asked for, read as a sweep file's values are: the same units, presets and
/// messages.
Result<SweepSpec> asked(const Session& session, const OwnSpecs& own) {
  const Options& options = session.options;
  if (options.asked.nodes.empty() == options.asked.gpus.empty())
    return fault(FaultKind::invalid_input,
        options.asked.gpus.empty() ? "How many GPUs? Give --gpus N or --nodes N."
                                   : "Give --nodes or --gpus, not both.");
  const bool whole_nodes = !options.asked.nodes.empty();
  const std::string model = own.model ? "own" : options.asked.model;
  const std::string cluster = own.cluster ? config::map_text(*own.cluster) : options.asked.cluster;
  const std::vector<AskedValue> asked{{"--cluster", "cluster", cluster},
      {"--model", "constants.model", model},
      {"--seq-len", "constants.seq_len", options.asked.seq_len},
      {"--batch-tokens", "constants.global_batch_tokens", options.asked.batch_tokens},
      whole_nodes ? AskedValue{"--nodes", "constants.nodes", options.asked.nodes}
                  : AskedValue{"--gpus", "constants.gpus", options.asked.gpus}};
  std::vector<std::string> set;
  set.reserve(asked.size());
  for (const auto& one : asked)
    set.push_back(fmt::format("{}={}", one.key, one.value));
  const std::string text = own.model
      ? fmt::format("name: suggest\nmodels:\n  own: {}\n", config::map_text(*own.model))
      : "name: suggest\n";
  auto sweep = load_sweep_text(text, "suggest", {session.installation.presets, set});
  if (!sweep) return tl::unexpected<Fault>(of_options(sweep.error(), asked));
  if (own.model) sweep->models.at(0).name = own.model->name;
  if (own.cluster) sweep->cluster = *own.cluster;
  return sweep;
}

/// Family that is asked for. A sweep's measurements teach nothing about another trainer than its
/// own.
Result<std::string> family_asked(
    const Session& session, const OwnSpecs& own, const ClusterSpec& cluster) {
  const auto& family = session.options.asked.family;
  if (!own.measured) return family.empty() ? std::string(default_family(cluster).name) : family;
  const bool unsaid = own.measured->family.empty();  // a table of an unknown trainer
  if (unsaid && family.empty())
    return fault(FaultKind::invalid_input,
        "'{}' is an imported table whose trainer is unknown: give --family.", own.measured->name);
  if (unsaid || family == own.measured->family) return family;
  if (family.empty()) return own.measured->family;
  return fault(FaultKind::invalid_input,
      "'{}' was measured with the family {}, so it teaches nothing about {}. Leave --from or "
      "--family out.",
      own.measured->name, own.measured->family, family);
}

/// Locks to 1 the degrees that the sweep of `--write` would not tell its trainer. That sweep starts
/// as one of `new --trainer` does, which leaves out words of some trainers.
void keep_to_start(SuggestRequest& request) {
  const auto start = find_trainer_start(request.family->words);
  if (!start) return;
  for (const std::string_view name : {"pp", "cp", "ep"}) {
    const AxisInfo* axis = find_axis(name);
    const auto is_it = [&](const AxisValues& lock) { return lock.axis == axis; };
    const bool locked = std::any_of(request.locks.begin(), request.locks.end(), is_it);
    const bool has_one = name == "ep" && request.model.experts == 0;  // the value 1 alone
    if (locked || has_one || (*start)->tells(name)) continue;
    request.locks.push_back({axis, false, {1}});
    say("'new --trainer {}' can't set {} above 1, so only 1 is suggested.", (*start)->name, name);
  }
}

Result<SuggestRequest> request_of(const Session& session) {
  const Options& options = session.options;
  const auto& own = options.of<SuggestOptions>();
  SHARDSWEEP_ASSIGN(const auto specs, own_specs(session));
  SHARDSWEEP_ASSIGN(const SweepSpec sweep, asked(session, specs));
  SHARDSWEEP_ASSIGN(const auto family, family_asked(session, specs, sweep.cluster));
  SuggestRequest request;
  SHARDSWEEP_ASSIGN(request.family, asked_family(family));
  request.model = sweep.models.at(0);
  request.cluster = sweep.cluster;
  request.seq_len = static_cast<std::int32_t>(constant(sweep, "seq_len"));
  request.global_batch_tokens = sweep.global_batch_tokens.value_or(0);
  request.most = static_cast<std::size_t>(options.asked.top);
  SHARDSWEEP_ASSIGN(
      request.locks, read_layout_settings(fmt::format("{}", fmt::join(own.locks, " "))));
  if (!options.out.empty()) keep_to_start(request);
  if (!own.dtype.empty()) {
    SHARDSWEEP_ASSIGN(const auto dtype, axis_value_from(*find_axis("dtype"), own.dtype));
    request.dtype = static_cast<Dtype>(dtype);
  }
  if (specs.measured) {
    SHARDSWEEP_ASSIGN(
        auto learnt, learn(*specs.measured, request.cluster, *request.family, dtype_of(request)));
    request.learnt = std::make_shared<const LearntPredictor>(std::move(learnt));
  }
  const auto nodes = constant(sweep, "nodes");
  if (nodes == 0)
    return on_gpus(std::move(request), static_cast<std::int32_t>(constant(sweep, "gpus")));
  request.nodes = static_cast<std::int32_t>(nodes);
  request.gpus = request.nodes * request.cluster.gpus_per_node;
  return request;
}

Result<void> write_sweep(
    const Session& session, const SuggestRequest& request, const Suggestion& suggestion) {
  const Options& options = session.options;
  // A model of --from may be the sweep's own: its numbers are written.
  const bool preset = !is_file(options.asked.model) && options.of<SuggestOptions>().from.empty();
  const auto model = preset ? options.asked.model : std::string();
  SHARDSWEEP_TRY(write_new_file(
      options.out, suggested_sweep(request, suggestion, model, options.asked.cluster)));
  say("Wrote {}. Next: shardsweep plan {}", options.out, options.out);
  return {};
}

Result<ExitCode> run_suggest(const Session& session) {
  const auto& own = session.options.of<SuggestOptions>();
  SHARDSWEEP_ASSIGN(const auto request, request_of(session));
  if (!own.why_not.empty()) {
    SHARDSWEEP_ASSIGN(const auto layout, read_layout_settings(own.why_not));
    SHARDSWEEP_ASSIGN(const auto answer, why_not(request, layout));
    SHARDSWEEP_TRY(print_result(why_not_text(request, answer, table_style(session))));
    return answer.fits ? ExitCode::done : ExitCode::failed;
  }
  SHARDSWEEP_ASSIGN(const auto suggestion, suggest(request));
  SHARDSWEEP_ASSIGN(const auto least, least_gpus(request));
  SHARDSWEEP_ASSIGN(const auto batch, judge_batch(request, suggestion.layouts));
  SHARDSWEEP_TRY(print_result(suggestion_text(request, suggestion,
      {.least_gpus = least, .batch = batch.text, .explain = own.explain}, table_style(session))));
  if (suggestion.layouts.empty()) return ExitCode::failed;
  if (!session.options.out.empty()) SHARDSWEEP_TRY(write_sweep(session, request, suggestion));
  return ExitCode::done;
}

}  // namespace

extern const Command command_suggest{.name = "suggest",
    .help = "Predict the fastest layouts: memory, batch, throughput.",
    .examples =
        "shardsweep suggest --model mini --cluster cpu-2x --nodes 2\n"
        "shardsweep suggest --from my-sweep --nodes 2",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          constexpr std::int64_t most_nodes = 1'000'000;
          constexpr std::int64_t most_layouts = 100;
          auto& own = grammar.own<SuggestOptions>();
          grammar.option("--model", options.asked.model, "MODEL",
              "Preset of the model, a YAML file, or Hugging Face's config.json.");
          grammar.option("--cluster", options.asked.cluster, "PRESET", "Preset of the cluster.");
          grammar.option("--from", own.from, "SWEEP",
              "Learn from what this sweep has measured. Its cluster, trainer and only model are "
              "then the defaults.");
          grammar.option("--nodes", options.asked.nodes, "N", "Number of whole nodes.")
              .whole_number(1, most_nodes);
          grammar
              .option("--gpus", options.asked.gpus, "N",
                  "GPUs, in place of --nodes: of one node, or whole nodes.")
              .whole_number(1, most_nodes);
          grammar.option("--seq-len", options.asked.seq_len, "TOKENS", "Tokens per sample.");
          grammar.option(
              "--batch-tokens", options.asked.batch_tokens, "TOKENS", "Tokens per train step.");
          grammar
              .option("--top", options.asked.top, "N",
                  "Layouts to show, each with another dp, tp and pp.")
              .whole_number(1, most_layouts);
          grammar
              .option("--lock", own.locks, "AXIS=VALUE",
                  "Keep an axis at a value, such as tp=8 or recompute=full.")
              .one_at_a_time();
          grammar.option("--why-not", own.why_not, "LAYOUT",
              "Say why not this layout, such as 'tp=4 pp=2': its rank, or the rule that it "
              "breaks.");
          grammar.option("--dtype", own.dtype, "DTYPE", "Default: bf16, or fp32 without GPUs.")
              .one_of({dtype_words.begin(), dtype_words.end()});
          grammar.flag("--explain", own.explain,
              "Show the three steps behind the answer, and rules of thumb.");
          grammar.option("--write", options.out, "FILE",
              "Write a sweep file of these layouts and their neighbours.");
          grammar.family(
              fmt::format("Family of the trainer, or a trainer's file of yours (./mine.yaml). "
                          "Default: {}, or {} without GPUs.",
                  usual_family(UsualOn::gpus).name, usual_family(UsualOn::cpus).name));
          grammar.format();
        },
    .run = run_suggest};

}  // namespace shardsweep
