// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/known_runs.hpp"

#include "predict/family.hpp"
#include "show/trial_columns.hpp"
#include "sweep/layout_text.hpp"
#include "text/median.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

/// A run that says what its layout does: its speed, or that memory was too small.
bool is_verdict(const SearchNews& news) {
  return news.outcome == Outcome::oom ||
      (news.outcome == Outcome::completed && news.tokens_per_s_per_gpu > 0 && !news.cut_short);
}

/// Repeats of one layout. A layout that has run fits, even if it once ran out of memory.
LearntRun as_one(LearntRun layout, const std::vector<SearchNews>& all) {
  std::vector<double> speeds;
  for (const auto& news : all) {
    if (news.outcome != Outcome::completed) continue;
    speeds.push_back(news.tokens_per_s_per_gpu);
    layout.peak_bytes = std::max(layout.peak_bytes, news.peak_bytes);
  }
  const bool ran = !speeds.empty();
  layout.outcome = word_of(ran ? Outcome::completed : Outcome::oom);
  layout.tokens_per_s_per_gpu = median_of(speeds, Even::upper);
  layout.runs = static_cast<std::int32_t>(ran ? speeds.size() : all.size());
  return layout;
}

LearntRun without_news(const Point& point) {
  const auto& dtype = *find_axis("dtype");
  return {.model = point.model,
      .gpus = point.gpus,
      .seq_len = point.seq_len,
      .dtype = axis_text(dtype, dtype.get(point)),
      .layout = layout_text(point),
      .outcome = {}};
}

/// Runs by layout. Values of vars are other programs: their runs are not one another's repeats.
class RunsOfLayouts {
 public:
  void add(LearntRun layout, std::string vars, const SearchNews& news) {
    if (!is_verdict(news)) return;
    auto& all = layouts_[{
        layout.model, layout.gpus, layout.seq_len, layout.dtype, layout.layout, std::move(vars)}];
    all.first = std::move(layout);
    all.second.push_back(news);
  }
  /// The fastest first, at most so many.
  [[nodiscard]] std::vector<LearntRun> fastest(std::size_t most) const {
    std::vector<LearntRun> runs;
    runs.reserve(layouts_.size());
    for (const auto& [key, all] : layouts_)
      runs.push_back(as_one(all.first, all.second));
    std::stable_sort(runs.begin(), runs.end(), [](const LearntRun& a, const LearntRun& b) {
      return a.tokens_per_s_per_gpu > b.tokens_per_s_per_gpu;
    });
    if (runs.size() > most) runs.resize(most);
    return runs;
  }

 private:
  using Key =
      std::tuple<std::int32_t, std::int32_t, std::int32_t, std::string, std::string, std::string>;
  std::map<Key, std::pair<LearntRun, std::vector<SearchNews>>> layouts_;
};

tl::unexpected<Fault> nothing_measured(const std::string& name) {
  return fault(FaultKind::invalid_input,
      "'{0}' has no measurement yet. 'shardsweep status {0}' says what it waits for.", name);
}

/// The place of a shape among them, where it is put if it is new.
std::int32_t place_of(std::vector<ModelSpec>& models, const ModelSpec& model) {
  const auto found = std::find(models.begin(), models.end(), model);
  const auto place = static_cast<std::int32_t>(found - models.begin());
  if (found == models.end()) models.push_back(model);
  return place;
}

/// Knowledge of an imported table, which has no sweep file: from the columns of its trials.
Result<Knowledge> knowledge_of_table(
    const Session& session, Reader& reader, const std::string& name, std::size_t most) {
  SHARDSWEEP_ASSIGN(const auto facts, reader.facts({.names = {name}}));
  Knowledge knowledge{.name = name, .family = {}, .cluster = {}, .models = {}, .runs = {}};
  knowledge.cluster.name = facts.sweeps.empty() ? "" : facts.sweeps.front().cluster;
  const auto preset = load_cluster(knowledge.cluster.name, session.installation.presets);
  if (preset) knowledge.cluster = *preset;
  RunsOfLayouts layouts;
  for (const auto& trial : facts.trials) {
    const auto outcome = from_word<Outcome>(trial.outcome);
    const auto model = model_of(trial);
    if (!outcome || model.layers == 0 || model.hidden == 0 || model.heads == 0) continue;
    if (const auto family = find_family(trial.runner); family) knowledge.family = (*family)->name;
    layouts.add({.model = place_of(knowledge.models, model),
                    .gpus = static_cast<std::int32_t>(trial.gpus),
                    .seq_len = static_cast<std::int32_t>(trial.seq_len),
                    .dtype = trial.dtype,
                    .layout = trial.layout,
                    .outcome = {}},
        trial.vars,
        {.outcome = *outcome,
            .tokens_per_s_per_gpu = trial.tokens_per_s_per_gpu.value_or(0),
            .peak_bytes = trial.peak_memory_bytes.value_or(0)});
  }
  knowledge.runs = layouts.fastest(most);
  if (knowledge.runs.empty() || knowledge.runs.front().tokens_per_s_per_gpu == 0)
    return nothing_measured(name);
  return knowledge;
}

/// A question names its family: that of a runner which is none of them has the formulas of
/// shardbench, as family_of_runner() says.
std::string family_name(const RunnerSpec& runner) {
  const Family& family = family_of_runner(runner.known_as());
  return (is_built_in(family) ? family : usual_family(UsualOn::cpus)).name;
}

}  // namespace

Result<KnownRuns> known_runs(const Session& session, const std::string& name) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  KnownRuns known;
  SHARDSWEEP_ASSIGN(known.text, reader->resolved(name));
  auto spec = load_sweep_text(known.text, name, {session.installation.presets, {}});
  if (!spec)
    return fault(FaultKind::invalid_input,
        "'{}' is an imported table: it has no sweep file that says which layouts other numbers of "
        "nodes have.",
        name);
  known.spec = *std::move(spec);
  SHARDSWEEP_ASSIGN(const auto rows, reader->search_rows(name, known.spec));
  for (const SearchRow& row : rows) {
    if (!row.outcome) continue;
    const auto& model = known.spec.models.at(static_cast<std::size_t>(row.point.model));
    known.runs.push_back({{.model = model, .point = row.point, .traits = {}},
        {.outcome = *row.outcome,
            .tokens_per_s_per_gpu = row.tokens_per_s_per_gpu,
            .peak_bytes = row.peak_memory_bytes,
            .cut_short = row.cut_short,
            .resolution = row.resolution}});
  }
  const auto measured = [](const Experience& one) { return one.news.tokens_per_s_per_gpu > 0; };
  if (std::none_of(known.runs.begin(), known.runs.end(), measured)) return nothing_measured(name);
  return known;
}

Result<std::vector<EarlierSweep>> earlier_sweeps(
    const Session& session, Reader& reader, const std::function<bool(const SweepSpec&)>& wanted) {
  SHARDSWEEP_ASSIGN(const auto stored, reader.sweeps());
  std::vector<EarlierSweep> sweeps;
  for (const SweepRow& row : stored) {
    if (row.backend == Backend::imported) continue;
    auto spec = load_sweep_text(row.resolved, row.name, {session.installation.presets, {}});
    if (!spec || !wanted(*spec)) continue;
    SHARDSWEEP_ASSIGN(auto rows, reader.search_rows(row.name, *spec));
    sweeps.push_back({row.name, *std::move(spec), std::move(rows)});
  }
  return sweeps;
}

Result<std::vector<KnowledgeText>> imported_knowledge(Reader& reader) {
  return reader.rows<KnowledgeText>(Listing::knowledge);
}

Result<Knowledge> knowledge_of(const Session& session, const std::string& name, std::size_t most) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto sweeps, reader->sweeps());
  const auto is_table = [&](const SweepRow& row) {
    return row.name == name && row.backend == Backend::imported;
  };
  if (std::any_of(sweeps.begin(), sweeps.end(), is_table))
    return knowledge_of_table(session, *reader, name, most);
  SHARDSWEEP_ASSIGN(const auto known, known_runs(session, name));
  RunsOfLayouts layouts;
  for (const auto& run : known.runs) {
    const auto& point = run.point.point;
    layouts.add(without_news(point), fmt::format("{}", fmt::join(point.vars, " ")), run.news);
  }
  return Knowledge{.name = known.spec.name,
      .family = family_name(known.spec.runner),
      .cluster = known.spec.cluster,
      .models = known.spec.models,
      .runs = layouts.fastest(most)};
}

}  // namespace shardsweep
