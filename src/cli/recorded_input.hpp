// SPDX-License-Identifier: Apache-2.0
// What commands over recorded sweeps are given: a table, the cluster that it is of, the family
// of its trainer.
#pragma once

#include "cli/session.hpp"
#include "domain/predict/family.hpp"

#include <shardsweep/recorded.hpp>
#include <shardsweep/search.hpp>

namespace shardsweep {

struct RecordedInput {
  RecordedSweep sweep;  ///< after --where
  ClusterSpec cluster;
  const Family* family = nullptr;
};

/// By --from, --cluster, --family and --where. nanotron's table has a cluster and a family of
/// its own: h100-8x and nanotron.
[[nodiscard]] Result<RecordedInput> read_recorded_input(const Session& session);

/// "regret=1%,confidence=95%", "runs=20", "gpu_hours=5".
[[nodiscard]] Result<SearchUntil> until_from(const std::string& text);

}  // namespace shardsweep
