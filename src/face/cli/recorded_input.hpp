// SPDX-License-Identifier: Apache-2.0
// What commands over recorded sweeps are given: a table, the cluster that it is of, the family
// of its trainer.
#pragma once

#include "cli/session.hpp"
#include "predict/family.hpp"

#include <shardsweep/recorded.hpp>
#include <shardsweep/search.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

struct RecordedInput {
  RecordedSweep sweep;  ///< after --where
  ClusterSpec cluster;
  const Family* family = nullptr;
};
enum class FamilyNeed : std::uint8_t { must_be_said, may_be_unknown };

/// By --from, --cluster, --family and --where. nanotron's table has a cluster and a family of
/// its own: h100-8x and nanotron. `family` stays null where it may be unknown and is not said.
[[nodiscard]] Result<RecordedInput> read_recorded_input(
    const Session& session, FamilyNeed need = FamilyNeed::must_be_said);

/// "regret=1%,confidence=95%", "runs=20", "gpu_hours=5".
[[nodiscard]] Result<SearchUntil> until_from(const std::string& text);

}  // namespace shardsweep
