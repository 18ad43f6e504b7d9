// SPDX-License-Identifier: Apache-2.0
// The name of a cell, the same for all that compare: search, finals, rankings, views and pages.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/library_gaps.hpp>

#include <cstdint>
#include <string>
#include <tuple>

namespace shardsweep {

/// Runs of one cell are alternatives: they differ in their layout alone. Cluster, software and time
/// must not differ either; each ranking adds those itself. A layout's own key is written by the
/// store (layout_key_sql).
struct CellKey {
  std::string model;
  std::int64_t seq_len = 0;
  std::int64_t nodes = 0;  ///< 0: a world smaller than a node
  std::int64_t gpus = 0;
  /// Values of the sweep's free axes: JSON of the database, words for people, or the numbers of
  /// the values within one plan. Empty: there are none, or they are labels of an imported table.
  std::string vars{};

  [[nodiscard]] auto tied() const { return std::tie(model, seq_len, nodes, gpus, vars); }
  friend bool operator==(const CellKey&, const CellKey&) = default;
  friend auto operator<=>(const CellKey& a, const CellKey& b) {
    return compared(a.tied(), b.tied());
  }
};
/// The columns of a cell, but for the vars, which each reader has in its own form.
SHARDSWEEP_DESCRIBE(CellKey, model, seq_len, nodes, gpus);

}  // namespace shardsweep
