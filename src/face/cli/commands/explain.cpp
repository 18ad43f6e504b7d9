// SPDX-License-Identifier: Apache-2.0
// explain: where the step and the memory of one trial go.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/explanation.hpp"
#include "show/show_view.hpp"

#include <shardsweep/load.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::int64_t most_explained = 20;

/// Trial to explain, with the model and cluster of the stored sweep file. An imported table has
/// them in its columns and in the cluster's preset.
TrialToExplain trial_to_explain(
    const Session& session, const std::vector<ReportedSweep>& sweeps, const ReportedTrial& asked) {
  TrialToExplain trial{asked};
  const auto its = std::find_if(sweeps.begin(), sweeps.end(),
      [&](const ReportedSweep& one) { return one.sweep == asked.sweep; });
  if (its == sweeps.end()) return trial;
  const auto sweep = load_sweep_text(its->resolved, its->sweep, {session.installation.presets, {}});
  if (!sweep) {
    const auto cluster = load_cluster(its->cluster, session.installation.presets);
    if (cluster) trial.cluster = *cluster;
    const auto model = model_of(asked);
    if (model.layers > 0 && model.hidden > 0 && model.heads > 0) trial.model = model;
    return trial;
  }
  trial.cluster = sweep->cluster;
  const auto model = std::find_if(sweep->models.begin(), sweep->models.end(),
      [&](const ModelSpec& one) { return one.name == asked.model; });
  if (model != sweep->models.end()) trial.model = *model;
  return trial;
}

Result<ExitCode> run_explain(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  // A trial that an edited file no longer has can be asked for by its name.
  const Selection selection{.names = session.options.names, .hidden = true};
  SHARDSWEEP_ASSIGN(const auto count, reader->count(selection));
  if (count > most_explained) {
    return fault(FaultKind::invalid_input,
        "these names mean {} trials, and at most {} are explained at once. Name trials: "
        "`shardsweep results` and `best` print them.",
        count, most_explained);
  }
  SHARDSWEEP_ASSIGN(const auto facts, reader->facts(selection));
  std::vector<Reader::Section> sections;
  for (const auto& trial : facts.trials) {
    auto found = explanation(trial_to_explain(session, facts.sweeps, trial));
    std::move(found.begin(), found.end(), std::back_inserter(sections));
  }
  auto style = table_style(session,
      {"part", "measured_ms", "predicted_ms", "measured_share", "predicted_share", "class",
          "measured_bytes", "predicted_bytes", "detail"});
  return deliver(sections_text(sections, style));
}

}  // namespace

extern const Command command_explain{.name = "explain",
    .heading = Heading::results,
    .help = "Show where a trial's step and memory go, beside the plan.",
    .examples = "shardsweep explain m-tiny-tp2",
    .declare =
        [](Grammar& grammar) {
          grammar
              .option(
                  "names", grammar.options().names, "TRIAL", "Trials: slugs, attempts or job ids.")
              .required();
          grammar.format();
        },
    .run = run_explain};

}  // namespace shardsweep
