// SPDX-License-Identifier: Apache-2.0
// A sweep as a complete sweep file, and a site as a complete site file, as they are kept with
// the sweep. What is printed here, the readers have to read back to the same value:
// tests/tools/fuzz holds them to it.
#include "config/container.hpp"
#include "config/keys.hpp"
#include "config/own_causes.hpp"
#include "config/sweep_reader.hpp"
#include "sweep/opening_hours.hpp"
#include "text/pieces.hpp"
#include "text/units.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

namespace shardsweep {
namespace {

using namespace config;

std::string cluster_lines(const ClusterSpec& cluster, std::string_view indent) {
  std::string out;
  const auto line = [&](std::string_view key, std::string_view text, std::string_view comment) {
    out += fmt::format("{}{}: {}{}{}\n", indent, key, text, comment.empty() ? "" : "  # ", comment);
  };
  visit_texts(
      cluster,
      [&](const auto& key, std::string_view text) {
        const auto type = key.facts.type;
        const bool is_rate =
            type == KeyType::rate || type == KeyType::latency || type == KeyType::share;
        line(key.name, text, is_rate ? key.facts.meaning : "");
      },
      [&](const auto& key, const auto& /*peak_flops*/) {
        const auto peaks = peaks_text(cluster);
        if (!peaks.empty()) line(key.name, "{" + peaks + "}", "");
      });
  return out;
}

/// "layers: 16, hidden: 2048": the keys of a map in one line.
template <class T>
std::string inline_map(const T& object) {
  std::string out;
  visit_texts(
      object,
      [&](const auto& key, std::string_view text) {
        out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", key.name, text);
      },
      [](const auto& /*key*/, const auto& /*value*/) {});
  return out;
}

class Explainer {
 public:
  explicit Explainer(const SweepSpec& sweep) : sweep_(sweep) {}

  std::string text() {
    line("# A complete sweep: presets written out, every default in force.");
    line("name: {}", yaml_text(sweep_.name));
    cluster();
    models();
    constants();
    grid();
    points();
    rest();
    search();
    policy();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  void cluster() {
    line("\ncluster:");
    out_ += cluster_lines(sweep_.cluster, "  ");
  }

  void models() {
    if (sweep_.models.empty()) return;
    line("\nmodels:");
    for (const auto& model : sweep_.models) {
      std::string shape;  // all keys of the model
      visit_values(model, [&](const auto& key, const auto& value) {
        using Value = std::remove_cvref_t<decltype(value)>;
        if (key.is(Flag::optional) && value == Value{}) return;
        shape += fmt::format("{}{}: {}", shape.empty() ? "" : ", ", key.name,
            config::value_text(key.facts.type, value));
      });
      line("  {}: {{{}}}", yaml_text(model.name), shape);
    }
  }

  void constants() {
    line("\nconstants:");
    if (sweep_.global_batch_tokens) line("  global_batch_tokens: {}", *sweep_.global_batch_tokens);
    if (sweep_.global_batch_samples) line("  global_batch_size: {}", *sweep_.global_batch_samples);
    for (const auto& constant : sweep_.constants)
      line("  {}  # {}", setting(constant), constant.axis->meaning);
  }

  void grid() {
    if (!sweep_.axes.empty()) {
      line("\naxes:");
      for (const auto& axis : sweep_.axes)
        line("  {}  # {}", list(axis), axis.axis->meaning);
    }
    if (!sweep_.zips.empty()) {
      line("\nzip:");
      for (const auto& zip : sweep_.zips) {
        line("  - {{{}}}",
            join_texts(zip.axes, ", ", [&](const AxisValues& axis) { return list(axis); }));
      }
    }
  }

  void points() {
    if (!sweep_.vars.empty()) {
      line("\nvars:");
      for (const auto& var : sweep_.vars)
        line("  {}: [{}]", var.name, join_texts(var.values, ", ", yaml_text));
    }
    if (!sweep_.points.empty()) line("\npoints:");
    for (const auto& point : sweep_.points)
      line("  - {{{}}}", settings_of(point));
    control();
    proof();
    side_runs();
    remeasure();
  }

  void proof() {
    if (sweep_.prove) line("\nprove: one-gpu");
    if (!sweep_.proof_of.empty()) line("\nproof_of: {}", yaml_text(sweep_.proof_of));
  }

  void side_runs() {
    if (sweep_.side_runs.profile)
      line("\nprofile: {{finalists: nsys}}  # of a cell's winner, beside the measured runs");
    if (sweep_.side_runs.memory)
      line("\nmemory_snapshot: true  # of layouts that ran out of memory, in a run of its own");
  }

  void remeasure() {
    const auto& again = sweep_.remeasure;
    if (!again.wanted()) return;
    const auto on =
        again.on == RemeasureOn::time ? std::string() : fmt::format("on: {}, ", word_of(again.on));
    line("\nremeasure: {{every: {}, {}layouts: best {}}}", duration_text(again.every_s), on,
        again.layouts);
  }

  void control() {
    const auto& layout = sweep_.control.layout;
    const std::int32_t from = sweep_.control.network_from;
    const char* const word = from == 0 ? "off" : from == 1 ? "network" : "auto";
    const char* const probe = from == 0 ? "no probe of the network"
        : from == 1 ? "every allocation probes the network between its ranks at its start and end"
                    : "allocations of several nodes probe the network at their start and end";
    line("\ncontrol: {}  # {}{}", layout ? fmt::format("{{{}}}", settings_of(*layout)) : word,
        layout ? "every allocation runs it at its start and end; " : "", probe);
  }

  [[nodiscard]] std::string settings_of(const PartialPoint& point) const {
    auto settings =
        join_texts(point.settings, ", ", [&](const AxisValues& each) { return setting(each); });
    for (const auto& [name, value] : point.vars)
      settings += fmt::format("{}{}: {}", settings.empty() ? "" : ", ", name, yaml_text(value));
    return settings;
  }

  void measure_repeats() {
    const Measure& measure = sweep_.measure;
    if (measure.finalists == 0) return line("  repeats: {}  # trials per point", measure.repeats);
    line("  finalists: {}  # layouts of each cell that run again", measure.finalists);
    line("  repeats: {}  # rounds of the finals",
        measure.final_rounds == 0 ? "until_resolved" : std::to_string(measure.final_rounds));
    line("  resolve: {}  # a smaller difference does not matter", measure.resolve);
    line("  node_sets: {}  # groups of nodes that have to agree on the winner", measure.node_sets);
  }

  void rest() {
    if (!sweep_.excludes.empty()) {
      line("\nexclude:");
      for (const auto& rule : sweep_.excludes) {
        const auto why = rule.why.empty() ? "" : fmt::format(", why: {}", yaml_text(rule.why));
        line("  - {{when: {}{}}}", yaml_text(rule.when), why);
      }
    }
    line("\nmeasure:");
    line("  warmup: {}  # train steps before the timed ones", sweep_.measure.warmup);
    line("  steps: {}  # timed train steps", sweep_.measure.steps);
    if (sweep_.measure.finalists > 0)
      line("  first: {}  # of them before the finals; 0: all", sweep_.measure.first);
    measure_repeats();
    line("\nrunner:");
    if (!sweep_.runner.name.empty()) line("  name: {}", yaml_text(sweep_.runner.name));
    if (sweep_.runner.is_trainer()) {
      trainer();
    } else {
      line("  program: {}  # empty: shardbench's, beside shardsweep itself",
          yaml_text(sweep_.runner.program));
      line("  args: [{}]", join_texts(sweep_.runner.args, ", ", yaml_text));
      if (sweep_.runner.is_shardbench())
        line("  profile: {}  # the trainer whose habits it takes on", sweep_.runner.profile);
      line("  gives_up: {}  # whether it takes --give-up-above, as its --capabilities say",
          sweep_.runner.gives_up);
    }
    snapshot();
    if (!sweep_.runner.programs.empty()) line("  hashes:  # of its own programs");
    for (const auto& [path, hash] : sweep_.runner.programs)
      line("    {}: {}", yaml_text(path), yaml_text(hash));
    if (!sweep_.env.empty()) line("\nenv:");
    for (const auto& [name, value] : sweep_.env)
      line("  {}: {}", name, yaml_text(value));
    if (!sweep_.secrets.empty()) line("\nsecrets:  # their values are kept apart");
    for (const auto& [name, value] : sweep_.secrets)
      line("  {}: ''", name);
    if (!sweep_.pass_env.empty())
      line("\npass_env: [{}]", join_texts(sweep_.pass_env, ", ", yaml_text));
    if (!sweep_.container.empty()) out_ += "\n" + container_lines(sweep_.container);
    if (!sweep_.rules.empty()) line("\nclassify:");
    for (const Cause& cause : sweep_.rules)
      line("  - {}", cause_text(cause));
  }

  void snapshot() {
    const RunnerSpec& runner = sweep_.runner;
    if (runner.snapshot == SnapshotKind::none) return;
    line("  snapshot: {}  # programs run from a copy of their tree",
        snapshot_words.at(static_cast<std::size_t>(runner.snapshot)));
    if (runner.snapshot_hash.empty()) return;
    line("  snapshot_hash: {}", yaml_text(runner.snapshot_hash));
    line("  snapshot_root: {}", yaml_text(runner.snapshot_root));
  }

  void trainer() {
    const TrainerSpec& trainer = sweep_.runner.trainer;
    line("  argv: [{}]", join_texts(trainer.argv, ", ", yaml_text));
    if (!trainer.log.empty()) line("  log: {}", yaml_text(trainer.log));
    if (!trainer.patterns.empty())
      line("  patterns: [{}]", join_texts(trainer.patterns, ", ", yaml_text));
    line("  launch: {}", trainer.per_node ? "node" : "rank");
    line("  cwd: {}", yaml_text(trainer.directory));
    if (!trainer.version.empty()) line("  version: {}", yaml_text(trainer.version));
    if (!trainer.unchecked.empty())
      line("  unchecked: [{}]", join_texts(trainer.unchecked, ", ", yaml_text));
    if (!trainer.told.empty()) line("  told: [{}]", join_texts(trainer.told, ", ", yaml_text));
    if (!trainer.files.empty()) line("  files:");
    for (const auto& [name, text] : trainer.files)
      line("    {}: {}", name, yaml_text(text));
  }

  void search() {
    const auto& search = sweep_.search;
    line("\nsearch:");
    line("  policy: {}  # {}", search_policy_words.at(static_cast<std::size_t>(search.policy)),
        fmt::join(search_policy_words, " | "));
    auto until = search.until;
    if (until.regret <= 0) until.confidence = 0;  // confidence counts only with a regret
    line("  until: {{{}}}  # of a cell (model x seq_len x nodes); empty: its last trial",
        inline_map(until));
    line("  rules: {{{}}}  # named rules in force", inline_map(search.rules));
    line("  learn_across: {}  # whether cells learn from each other", search.learn_across);
    if (!search.learn_from.all)
      line("  learn_from: {}  # whose runs the search begins with",
          search.learn_from.any()
              ? fmt::format("[{}]", join_texts(search.learn_from.sweeps, ", ", yaml_text))
              : "none");
    if (search.policy == SearchPolicy::best_first)
      line("  cut_short: {}  # an attempt ends at this multiple of the best's step time",
          search.cut_short > 0 ? fmt::format("{}", search.cut_short) : "off");
  }

  void policy() {
    for (const auto section : policy_sections()) {
      line("\n{}:", section);
      for (const auto& field : policy_fields()) {
        if (field.section == section)
          line("  {}: {}  # {}", field.key, policy_text(field, sweep_.policy), field.reason);
      }
      if (section == hours_section)
        line("  {}: {}  # {}", hours_key, yaml_text(opening_hours_text(sweep_.policy.hours)),
            hours_reason);
    }
  }

  [[nodiscard]] std::string value_text(const AxisInfo& axis, std::int64_t value) const {
    if (axis.kind != AxisKind::model) return axis_text(axis, value);
    return yaml_text(sweep_.models.at(static_cast<std::size_t>(value)).name);
  }

  [[nodiscard]] std::string setting(const AxisValues& values) const {
    return fmt::format("{}: {}", values.axis->name,
        values.automatic ? "auto" : value_text(*values.axis, values.values.front()));
  }

  [[nodiscard]] std::string list(const AxisValues& values) const {
    if (values.automatic) return setting(values);
    return fmt::format("{}: [{}]", values.axis->name,
        join_texts(values.values, ", ",
            [&](std::int64_t value) { return value_text(*values.axis, value); }));
  }

  const SweepSpec& sweep_;
  std::string out_;
};

}  // namespace

namespace config {

std::string policy_text(const PolicyField& field, const Policy& policy) {
  if (const auto* real = field.in<double>(policy)) {
    const double value = *real;
    return field.unit == PolicyUnit::seconds ? duration_text(value) : fmt::format("{}", value);
  }
  const auto value = *field.in<std::int64_t>(policy);
  if (field.unit == PolicyUnit::percent) return fmt::format("{}%", value);
  if (const auto words = words_of(field.unit); !words.empty())
    return std::string(words[static_cast<std::size_t>(value)]);
  return field.unit == PolicyUnit::bytes ? bytes_text(value) : fmt::format("{}", value);
}

}  // namespace config

std::string explain_sweep(const SweepSpec& sweep) {
  return Explainer(sweep).text();
}

std::string explain_cluster(const ClusterSpec& cluster) {
  return cluster_lines(cluster, "");
}

// The site.

namespace {

std::string value_of(const SlurmValue& value) {
  return value.value.empty() ? "true" : yaml_text(value.value);
}

std::string nodes_of(const SlurmValue& value) {
  if (value.from == value.to) return fmt::format("\"{}\"", value.from);
  if (value.to == SlurmValue{}.to) return fmt::format("\"{}-\"", value.from);
  return fmt::format("\"{}-{}\"", value.from, value.to);
}

std::string option_of(const std::vector<SlurmValue>& values) {
  const SlurmValue all{};
  if (values.size() == 1 && values[0].from == all.from && values[0].to == all.to) {
    return value_of(values[0]);
  }
  std::string text;
  for (const SlurmValue& value : values) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", nodes_of(value), value_of(value));
  }
  return "{" + text + "}";
}

/// KEY: VALUE for each key of a map in the site file; what is no plain value goes to `special`.
template <class T, class Special>
void add_keys(std::string& text, const T& map, std::string_view indent, Special&& special) {
  visit_texts(
      map,
      [&](const auto& key, std::string_view value) {
        text += fmt::format("{}{}: {}\n", indent, key.name, value);
      },
      special);
}

class SiteExplainer {
 public:
  explicit SiteExplainer(const SiteSpec& site) : site_(site) {}

  std::string text() {
    add_keys(
        text_, site_, "", [this](const auto& key, const auto& value) { add(key.name, value); });
    slurm();
    return std::move(text_);
  }

 private:
  void add(std::string_view key, Backend backend) {
    if (backend != Backend::none) text_ += fmt::format("{}: {}\n", key, word_of(backend));
  }
  void add(std::string_view key, LaunchMode launch) {
    text_ += fmt::format("{}: {}\n", key, word_of(launch));
  }
  void add(std::string_view key, const std::map<std::string, std::string>& variables) {
    if (!variables.empty()) text_ += fmt::format("{}:\n", key);
    for (const auto& [name, value] : variables)
      text_ += fmt::format("  {}: {}\n", name, yaml_text(value));
  }
  void add(std::string_view /*key*/, const ContainerSpec& container) {
    text_ += container_lines(container);
  }
  void add(std::string_view key, const std::vector<Cause>& causes) {
    if (!causes.empty()) text_ += fmt::format("{}:\n", key);
    for (const Cause& cause : causes)
      text_ += fmt::format("  - {}\n", cause_text(cause));
  }
  void add(std::string_view key, const RestSettings& rest) {
    if (rest.url.empty()) return;
    text_ += fmt::format("{}:\n", key);
    add_keys(text_, rest, "  ", [](const auto& /*key*/, const auto& /*value*/) {});
  }
  void add(std::string_view key, const NotifySettings& notify) {
    if (!notify.wanted()) return;
    text_ += fmt::format("{}:\n", key);
    add_keys(text_, notify, "  ", [this](const auto& events, const auto& value) {
      std::vector<std::string> words;
      words.reserve(value.size());
      for (const NotifyEvent event : value)
        words.emplace_back(notify_words.at(static_cast<std::size_t>(event)));
      text_ += fmt::format("  {}: {}\n", events.name, value_text(KeyType::texts, words));
    });
  }
  /// Last, as it may be long: see slurm().
  void add(std::string_view /*key*/, const decltype(SiteSpec::slurm)& /*options*/) {}

  void slurm() {
    if (site_.slurm.empty() && site_.slurm_without.empty()) return;
    text_ += "slurm:\n";
    for (const auto& [option, values] : site_.slurm)
      text_ += fmt::format("  {}: {}\n", option, option_of(values));
    for (const std::string& option : site_.slurm_without)
      text_ += fmt::format("  {}: false\n", option);
  }

  const SiteSpec& site_;
  std::string text_ = "# A complete site file.\n";
};

}  // namespace

std::string explain_container(const ContainerSpec& container) {
  return container_lines(container);
}

std::string explain_site(const SiteSpec& site) {
  return SiteExplainer(site).text();
}

}  // namespace shardsweep
