// SPDX-License-Identifier: Apache-2.0
// Port: recorded sweeps, tables of runs that somebody has measured, as values. What import
// works on.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/table.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Origin of a table's columns.
enum class RecordedFormat : std::uint8_t {
  csv,       ///< our own names, those of `results` and of a sweep file
  nanotron,  ///< the log table of nanotron's scaling benchmarks
};
inline constexpr std::array<std::string_view, 2> recorded_format_words{"csv", "nanotron"};

/// Axes that memory depends on and that a row does not tell.
struct UnknownAxes {
  bool zero = false;
  bool recompute = false;
  bool sequence_parallel = false;
  bool attention = false;  ///< the named kernel is unknown, and so is what it keeps
  [[nodiscard]] bool any() const { return zero || recompute || sequence_parallel || attention; }
};

/// One row. `point.nodes` is 0 if the world is smaller than a node, as in a sweep; `nodes` is the
/// table's number.
struct RecordedRun {
  Point point;  ///< `model` is an index into RecordedSweep::models; no vars
  std::int32_t nodes = 0;
  Outcome outcome = Outcome::crashed;
  std::optional<double> tokens_per_s_per_gpu;          ///< speed of completed rows alone
  std::optional<std::int64_t> peak_memory_bytes;       ///< memory that the device had to give
  std::optional<std::int64_t> allocated_memory_bytes;  ///< part of it that tensors held
  /// Rank of that peak: a pipeline stage from 0, or `of_any_rank`; unset: not said.
  std::optional<std::int32_t> peak_stage{};
  static constexpr std::int32_t of_any_rank = -1;
  /// Layers of full recompute. 0: each layer by itself; else how many layers at a time, or,
  /// by_block, how many layers of each stage, the others being kept.
  std::int32_t recompute_layers = 0;
  bool recompute_by_block = false;
  std::string kernel;            ///< the attention kernel's name; empty: unknown
  std::string software_version;  ///< empty: unknown
  /// Rows with the same word may be ranked together, whatever their versions; empty: those of
  /// its version alone.
  std::string comparable{};
  UnknownAxes unknown{};             ///< the point has what is usual there
  bool oom_error = false;            ///< true: its log holds an OOM, whatever its outcome
  std::vector<std::int32_t> labels;  ///< index into RecordedSweep::labels[i].values
  int line = 0;                      ///< line of the file, from 1
};

/// A column that is neither layout, shape nor measurement: kept, and known to `--where`.
struct RecordedLabel {
  std::string name;           ///< the header's
  std::vector<Value> values;  ///< all different; an empty cell is a monostate
};

struct RecordedSweep {
  std::string file;
  std::vector<ModelSpec> models;  ///< all different; names may repeat if shapes differ
  std::vector<RecordedLabel> labels;
  std::vector<RecordedRun> runs;  ///< runs in the file's order
  std::string newest_version{};   ///< newest version of the software; empty: the file's last row
                                  ///< has it

  [[nodiscard]] const ModelSpec& model_of(const RecordedRun& run) const {
    return models[static_cast<std::size_t>(run.point.model)];
  }
};

struct RecordedOptions {
  RecordedFormat format = RecordedFormat::csv;
  std::filesystem::path presets;  ///< see LoadOptions::presets: shapes of models by name
  /// GPUs per node of the table's cluster; 0: unknown, a row tells its nodes then.
  int gpus_per_node = 0;
};

/// Reads a table. Faults (invalid_input) name file, line, column and value.
///
/// csv: a column is an axis (or its alias in other trainers' files), a number of the model's
/// shape (`layers hidden ffn heads kv_heads vocab tied_embeddings`), `outcome`,
/// `tokens_per_s_per_gpu`, `peak_memory_bytes` or `peak_memory_gib`, `kernel`,
/// `software_version` (also `runner_version`), `oom_error`, or a label. `stage` (from 0,
/// `first`, `last`, `most`) or `rank` (from 0, or -1 for the last one) says whose peak that is.
/// `recompute_method` (`uniform`, `block`) and `recompute_num_layers` are Megatron's. These
/// four are labels too. An empty cell is unknown: an axis then has its default, dp is gpus /
/// (tp pp), gpus is dp tp pp, nodes follows from `gpus_per_node`; a shape is that of other rows
/// of the model, then of the preset of that name, and kv_heads is heads. `outcome` is a stored
/// outcome or `other`, which is crashed; empty, it is completed if the speed is known.
///
/// nanotron: Success, OOM and Other are completed, oom and crashed. Model: num_params in
/// billions ("1.34B"). Failed rows lack the shape: ffn is that of rows of the same hidden size,
/// else 8192 for 3072 and 28672 for 8192; kv heads are 8 if the name has `gqa8`, else heads;
/// embeddings are tied if that comes nearer to num_params. The global batch is
/// dp mbs batch_accum (`gbs` is in samples on some rows and in tokens on others). Peak memory
/// is `Mem Res`, GiB, of the first stage's rank; `after_pp_fix` gives software_version
/// after_pp_fix or before_pp_fix. Rows with pp 1, those after the fix and failed ones are
/// comparable.
[[nodiscard]] Result<RecordedSweep> read_recorded(
    const std::filesystem::path& file, const RecordedOptions& options);

/// Names of the labels' columns in `results`, all different: small letters, digits and '_'. A
/// label with the name of a column of ours gets `published_` in front.
[[nodiscard]] std::vector<std::string> label_names(const RecordedSweep& sweep);

/// Leaves the rows for which an expression is true: over axes, global_batch, the model's shape,
/// outcome, tokens_per_s_per_gpu, peak_memory_bytes, kernel,
/// software_version, oom_error and labels, by their header's name or that of label_names().
/// All stay if it is empty.
[[nodiscard]] Result<void> keep_where(RecordedSweep& sweep, const std::string& expression);

}  // namespace shardsweep
