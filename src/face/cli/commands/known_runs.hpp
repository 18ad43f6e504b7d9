// SPDX-License-Identifier: Apache-2.0
// A sweep of the database as predictions learn from it: its file, and what its trials have
// shown.
#pragma once

#include "cli/session.hpp"
#include "plan/learnt.hpp"
#include "predict/family.hpp"
#include "search/extrapolation.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/recorded.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/results.hpp>
#include <shardsweep/search_row.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shardsweep {

// A table of runs as a command is given it: with the cluster that it was measured on and the family
// of its trainer.

class Grammar;

struct RecordedInput {
  RecordedSweep sweep;  ///< sweep with the runs that --where selects
  ClusterSpec cluster;
  const Family* family = nullptr;
};
enum class FamilyNeed : std::uint8_t { must_be_said, may_be_unknown };

/// Reads a table by --from, --cluster, --family and --where. nanotron's table has a cluster and a
/// family of its own: h100-8x and nanotron. `family` stays null if it may be unknown and is not
/// said.
[[nodiscard]] Result<RecordedInput> read_recorded_input(
    const Session& session, const std::string& from, FamilyNeed need = FamilyNeed::must_be_said);

/// FILE, --from, --cluster, --family, --where and --format.
void declare_recorded(
    Grammar& grammar, std::string& from, const char* file = "Table of runs (CSV).");

/// The sweep as it was submitted, and what its trials have shown.
struct KnownRuns {
  std::string text;
  SweepSpec spec;
  std::vector<Experience> runs;
};

/// Faults: no such sweep; invalid_input: an imported table, or nothing was measured yet.
[[nodiscard]] Result<KnownRuns> known_runs(const Session& session, const std::string& name);

/// A sweep that others may learn from, with its trials.
struct EarlierSweep {
  std::string name;
  SweepSpec spec;
  std::vector<SearchRow> rows;
};
/// Sweeps of which `wanted` says yes, in the order of their submission. Imported tables are left
/// out, and so are files of other versions that do not load any more.
[[nodiscard]] Result<std::vector<EarlierSweep>> earlier_sweeps(
    const Session& session, Reader& reader, const std::function<bool(const SweepSpec&)>& wanted);

/// Files of knowledge that were imported and are not forgotten, in the order of their import.
[[nodiscard]] Result<std::vector<KnowledgeText>> imported_knowledge(Reader& reader);

/// The medians of what each layout of a sweep has shown, with the sweep's own cluster: if that
/// is a file which `calibrate` has written, with its rates. Of an imported table the preset that
/// `import` was given; if that is none, the name alone, and a family of no name if none was
/// said. At most so many layouts: the fastest. Faults as known_runs(), but for the table.
[[nodiscard]] Result<Knowledge> knowledge_of(
    const Session& session, const std::string& name, std::size_t most);

}  // namespace shardsweep
