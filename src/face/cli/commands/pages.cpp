// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/pages.hpp"

#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "cli/version.hpp"
#include "show/cell_text.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

/// Clusters of the sweeps, each once. An imported table has the preset of its cluster's name, if
/// there is one.
std::vector<ClusterSpec> clusters_of(
    const Session& session, const std::vector<ReportedSweep>& sweeps) {
  const auto& presets = session.installation.presets;
  std::vector<ClusterSpec> clusters;
  for (const ReportedSweep& one : sweeps) {
    std::optional<ClusterSpec> cluster;
    const auto sweep = load_sweep_text(one.resolved, one.sweep, {presets, {}});
    if (sweep) {
      cluster = sweep->cluster;
    } else if (const auto preset = load_cluster(one.cluster, presets); preset) {
      cluster = *preset;
    }
    if (cluster && std::find(clusters.begin(), clusters.end(), *cluster) == clusters.end())
      clusters.push_back(std::move(*cluster));
  }
  return clusters;
}

}  // namespace

Result<ReportInput> page_input(const Session& session, Reader& reader, const Selection& selection) {
  ReportInput input;
  SHARDSWEEP_ASSIGN(input.facts, reader.facts(selection));
  input.clusters = clusters_of(session, input.facts.sweeps);
  SHARDSWEEP_ASSIGN(input.changed, changed_since(reader, selection));
  input.made = made_text(session);
  return input;
}

std::string made_text(const Session& session) {
  return fmt::format("Made by shardsweep {} on {}.", version, local_time_text(session.clock.now()));
}

Result<std::string> source_of(const Session& session, Reader& reader, const Selection& selection) {
  SHARDSWEEP_ASSIGN(const auto values, reader.values(selection, "sweep"));
  const std::set<Value> names(values.begin(), values.end());
  SHARDSWEEP_ASSIGN(auto sources, reader.sources({.names = selection.names}));
  std::erase_if(
      sources.sweeps, [&](const ReportedSweep& sweep) { return !names.contains(sweep.sweep); });
  return source_line(sources, clusters_of(session, sources.sweeps));
}

}  // namespace shardsweep
