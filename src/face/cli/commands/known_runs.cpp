// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/known_runs.hpp"

#include "predict/family.hpp"
#include "sweep/layout_text.hpp"
#include "text/median.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

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
LearntRun as_one(const Point& point, const std::vector<const SearchNews*>& all) {
  std::vector<double> speeds;
  std::int64_t peak = 0;
  for (const auto* news : all) {
    if (news->outcome != Outcome::completed) continue;
    speeds.push_back(news->tokens_per_s_per_gpu);
    peak = std::max(peak, news->peak_bytes);
  }
  const bool ran = !speeds.empty();
  const auto& dtype = *find_axis("dtype");
  return {.model = point.model,
      .gpus = point.gpus,
      .seq_len = point.seq_len,
      .dtype = axis_text(dtype, dtype.get(point)),
      .layout = layout_text(point),
      .outcome = std::string(word_of(ran ? Outcome::completed : Outcome::oom)),
      .tokens_per_s_per_gpu = median_of(speeds, Even::upper),
      .peak_bytes = peak,
      .runs = static_cast<std::int32_t>(ran ? speeds.size() : all.size())};
}

/// A question names its family: that of a runner which is none of them has the formulas of
/// shardbench, as family_of_runner() says.
std::string family_name(const RunnerSpec& runner) {
  const std::string name(family_of_runner(runner.known_as()).name);
  return find_family(name) ? name : std::string(families().front().name);
}

}  // namespace

Result<KnownRuns> known_runs(const Session& session, const std::string& name) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  KnownRuns known;
  SHARDSWEEP_ASSIGN(known.text, reader->resolved(name));
  auto spec = load_sweep_text(known.text, name, {session.installation.presets, {}});
  if (!spec)
    return fault(FaultKind::invalid_input,
        fmt::format("'{}' is an imported table: it has no sweep file that says which "
                    "layouts other numbers of nodes have.",
            name));
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
  if (std::none_of(known.runs.begin(), known.runs.end(), measured))
    return fault(FaultKind::invalid_input,
        fmt::format("'{0}' has no measurement yet. 'shardsweep status {0}' says what "
                    "it waits for.",
            name));
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
  SHARDSWEEP_ASSIGN(const Table table,
      reader.query("SELECT name, text FROM knowledge WHERE forgotten_at = 0 ORDER BY id"));
  std::vector<KnowledgeText> files;
  for (const auto& row : table.rows)
    files.push_back({std::get<std::string>(row.at(0)), std::get<std::string>(row.at(1))});
  return files;
}

Result<Knowledge> knowledge_of(const Session& session, const std::string& name, std::size_t most) {
  SHARDSWEEP_ASSIGN(const auto known, known_runs(session, name));
  // Values of vars are other programs: their runs are not one another's repeats.
  using Layouts = std::tuple<std::int32_t, std::int32_t, std::int32_t, Dtype, std::string,
      std::vector<std::int32_t>>;
  std::map<Layouts, std::pair<const Point*, std::vector<const SearchNews*>>> layouts;
  for (const auto& run : known.runs) {
    if (!is_verdict(run.news)) continue;
    const auto& point = run.point.point;
    auto& all = layouts[{
        point.model, point.gpus, point.seq_len, point.dtype, layout_text(point), point.vars}];
    all.first = &point;
    all.second.push_back(&run.news);
  }
  Knowledge knowledge{.name = known.spec.name,
      .family = family_name(known.spec.runner),
      .cluster = known.spec.cluster,
      .models = known.spec.models,
      .runs = {}};
  for (const auto& [key, all] : layouts)
    knowledge.runs.push_back(as_one(*all.first, all.second));
  std::stable_sort(
      knowledge.runs.begin(), knowledge.runs.end(), [](const LearntRun& a, const LearntRun& b) {
        return a.tokens_per_s_per_gpu > b.tokens_per_s_per_gpu;
      });
  if (knowledge.runs.size() > most) knowledge.runs.resize(most);
  return knowledge;
}

}  // namespace shardsweep
