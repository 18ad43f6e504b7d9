// SPDX-License-Identifier: Apache-2.0
// What numbers of one cell of a heatmap must not differ in, beside its rows and columns.
#pragma once

#include "store/reader.hpp"
#include "store/sqlite.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/results.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace shardsweep::sqlite {

// Differences between trials that no heatmap may mix.

/// Shapes of trials, which decide over columns and must not be mixed. A row has a model, sequence
/// length, nodes and gpus, with the number of trials and of the completed ones.
struct Shapes {
  static constexpr std::array<std::string_view, 4> names{"model", "seq_len", "nodes", "gpus"};
  static_assert(names_all(names, AxisUse::cell));
  std::vector<std::vector<Value>> rows;

  [[nodiscard]] static std::size_t place_of(std::string_view name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
  [[nodiscard]] static std::int64_t trials(const std::vector<Value>& row) {
    return std::get<std::int64_t>(row[names.size()]);
  }
  [[nodiscard]] static std::int64_t completed(const std::vector<Value>& row) {
    return std::get<std::int64_t>(row[names.size() + 1]);
  }
};

[[nodiscard]] Shapes shapes_of(Database& database, const Source& source);

/// Shapes of all trials, hidden ones too, without counts: each takes some looks at the index. None
/// if there are many.
[[nodiscard]] std::optional<Shapes> few_shapes(Database& database);

/// `gpus` or `nodes`. Of sweeps over `gpus` every trial has 0 nodes; an imported table may have
/// worlds of several sizes on one node.
[[nodiscard]] std::string world_column(const Shapes& shapes);

/// Cells would hold several models, lengths or worlds.
[[nodiscard]] bool is_mixed(const HeatmapRequest& request, const Shapes& shapes);

/// Speeds of several models or worlds are not compared in one cell: the combination with the
/// most measurements is shown. The sentence that says so; empty if there is one alone.
[[nodiscard]] std::string keep_unmixed(
    const HeatmapRequest& request, const Shapes& shapes, Source& source);

// Variables that have several values in the cells of a heatmap.

struct MixedVar {
  std::string name;
  std::int64_t values = 0;
  Value one{};
};

/// Vars of a source with several values that are neither the heatmap's rows nor its columns.
[[nodiscard]] std::vector<MixedVar> mixed_vars(
    Database& database, const Source& source, const HeatmapRequest& request);

/// Empty where each variable has one value.
[[nodiscard]] std::string mixed_vars_text(const std::vector<MixedVar>& mixed);

/// Layout, and the values of the variables that a cell mixes: an expression over all_results.
[[nodiscard]] std::string label_expression(const std::vector<MixedVar>& mixed);

// Hardware of sweeps, by the name of their cluster. Speeds of different hardware are never of
// one cell: a layout that is slower on newer GPUs has not lost.

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
