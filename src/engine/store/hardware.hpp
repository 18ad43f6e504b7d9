// SPDX-License-Identifier: Apache-2.0
// What sweeps ran on, by the name of their cluster. Speeds of different hardware are never of
// one cell: a layout that is slower on newer GPUs has not lost.
#pragma once

#include "store/reader.hpp"
#include "store/sqlite.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace shardsweep::sqlite {

/// Clusters of all sweeps of a database, as numbers.
class Hardware {
 public:
  explicit Hardware(Database& database);
  /// A number, the same for sweeps on the same cluster.
  [[nodiscard]] std::size_t of(std::int64_t sweep) const;

 private:
  std::unordered_map<std::int64_t, std::size_t> numbers_;
  // Rows of one sweep mostly follow each other.
  mutable std::int64_t last_sweep_ = 0;
  mutable std::size_t last_ = 0;
};

/// Some sweeps ran on other clusters than others.
[[nodiscard]] bool on_several_clusters(Database& database);
/// True if the measurements of a source come from several clusters.
[[nodiscard]] bool on_several_clusters(Database& database, const Source& source);

/// Leaves in a source the trials on the cluster with the most measurements. The sentence that
/// says so; empty if there is one cluster alone.
[[nodiscard]] std::string keep_one_cluster(Database& database, Source& source);

}  // namespace shardsweep::sqlite
