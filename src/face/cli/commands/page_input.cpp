// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/page_input.hpp"

#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "cli/version.hpp"
#include "show/cell_text.hpp"
#include "show/rows.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

/// Each once. That of an imported table is a preset, if its name is one.
std::vector<ClusterSpec> clusters_of(const Session& session, const Table& sweeps) {
  const auto& presets = session.installation.presets;
  std::vector<ClusterSpec> clusters;
  const Rows rows(sweeps);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::optional<ClusterSpec> cluster;
    const auto sweep =
        load_sweep_text(rows.text(row, "resolved"), rows.text(row, "sweep"), {presets, {}});
    if (sweep) {
      cluster = sweep->cluster;
    } else if (const auto preset = load_cluster(rows.text(row, "cluster"), presets); preset) {
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
  ReportInput input;
  SHARDSWEEP_ASSIGN(const auto names, reader.values(selection, "sweep"));
  std::string list;
  for (const auto& name : names)
    list += (list.empty() ? "" : ", ") + literal_of(name);
  SHARDSWEEP_ASSIGN(input.facts.sweeps,
      reader.query(fmt::format("SELECT name AS sweep, backend, cluster, resolved, submitted_at "
                               "FROM sweeps WHERE name IN ({})",
          list)));
  SHARDSWEEP_ASSIGN(input.facts.allocations,
      reader.query(fmt::format("SELECT claimed_at, ended_at FROM allocations WHERE claimed_at > 0 "
                               "AND sweep IN (SELECT id FROM sweeps WHERE name IN ({}) AND "
                               "backend <> 'imported')",
          list)));
  input.clusters = clusters_of(session, input.facts.sweeps);
  return source_line(input);
}

}  // namespace shardsweep
