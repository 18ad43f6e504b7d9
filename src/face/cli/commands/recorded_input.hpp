// SPDX-License-Identifier: Apache-2.0
// A table of runs as a command is given it: with the cluster that it was measured on and the family
// of its trainer.
#pragma once

#include "cli/session.hpp"
#include "predict/family.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/recorded.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

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

}  // namespace shardsweep
