// SPDX-License-Identifier: Apache-2.0
// Tables with our own column names. The rows of a model may say its shape in parts: all of them
// are read before the first becomes a point. A column is an axis, a number of the shape or a
// word of ours; each other one is a label, by which rows can be told apart.
#include "table/table.hpp"
#include "text/characters.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/model.hpp>

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

namespace shardsweep::recorded {
namespace {

using config::refuse;

constexpr std::string_view tied_column = "tied_embeddings";
constexpr std::array<std::string_view, 8> own_columns{"kernel", "model", "outcome",
    "tokens_per_s_per_gpu", "peak_memory_bytes", "peak_memory_gib", "software_version",
    "oom_error"};
constexpr std::size_t most_models = 4096;

/// Shape of one model as far as its rows tell; 0: not told yet.
struct Shape {
  ModelSpec spec;
  std::optional<bool> tied;
};

class PlainReader {
 public:
  PlainReader(const CsvTable& table, const RecordedOptions& options)
      : table_(table), builder_(table, options), presets_(options.presets) {}

  Result<RecordedSweep> read() {
    SHARDSWEEP_TRY(find_columns());
    SHARDSWEEP_TRY(read_shapes());
    for (std::size_t row = 0; row < table_.rows(); ++row)
      SHARDSWEEP_TRY(read_row(row));
    return builder_.take();
  }

 private:
  Result<void> find_columns() {
    std::set<std::string, std::less<>> known(own_columns.begin(), own_columns.end());
    for (const auto& name : table_.columns()) {
      const auto* axis = find_axis(name);
      if (axis == nullptr || axis->kind == AxisKind::model) continue;
      const auto [first, fresh] = axis_columns_.emplace(axis, name);
      if (!fresh) {
        return table_.refuse_header(
            fmt::format("the columns '{}' and '{}' both mean the axis '{}'; keep one of them",
                first->second, name, axis->name));
      }
      known.insert(name);
    }
    for (const auto& field : shape_fields) {
      shape_columns_.push_back(table_.has(field.name) ? field.name : field.alias);
      known.insert(std::string(shape_columns_.back()));
    }
    tied_ = table_.has(tied_column) ? tied_column : "tie_word_embeddings";
    known.insert(std::string(tied_));
    // Name in `results`: the runner is the software.
    version_ = table_.has("software_version") ? "software_version" : "runner_version";
    known.insert(std::string(version_));
    if (!table_.has("model")) return table_.refuse_header("there is no column 'model'");
    if (!table_.has("outcome")) return table_.refuse_header("there is no column 'outcome'");
    if (table_.has("peak_memory_bytes") && table_.has("peak_memory_gib"))
      return table_.refuse_header(
          "both 'peak_memory_bytes' and 'peak_memory_gib' are there; keep one of them");
    if (table_.has("rank") && table_.has("stage"))
      return table_.refuse_header(
          "both 'rank' and 'stage' say whose peak memory it is; keep one of them");
    builder_.add_labels(known);
    return {};
  }

  Result<std::string> model_name(std::size_t row) const {
    const auto* cell = table_.cell(row, "model");
    if (cell == nullptr) return table_.refuse_row(row, "a row without a model");
    return config::read_text(*cell, "model", 128);
  }

  /// A model's shape is said by any of its rows; the rest by the preset of its name.
  Result<void> read_shapes() {
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      SHARDSWEEP_ASSIGN(const auto name, model_name(row));
      auto& shape = shapes_[name];
      if (shapes_.size() > most_models)
        return table_.refuse_row(row, fmt::format("more than {} models", most_models));
      SHARDSWEEP_TRY(read_shape(row, shape));
    }
    for (auto& [name, shape] : shapes_)
      SHARDSWEEP_TRY(complete(name, shape));
    return {};
  }

  /// Fills what `shape` does not say yet.
  Result<void> read_shape(std::size_t row, Shape& shape) const {
    const auto& fields = shape_fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto* cell = table_.cell(row, shape_columns_[i]);
      auto& value = shape.spec.*fields[i].member;
      if (cell == nullptr || value != 0) continue;
      SHARDSWEEP_ASSIGN(
          value, read_whole(*cell, fields[i].name, fields[i].optional ? 0 : 1, fields[i].most));
    }
    const auto* cell = table_.cell(row, tied_);
    if (cell != nullptr && !shape.tied) SHARDSWEEP_SET(shape.tied, read_flag(*cell, tied_));
    return {};
  }

  Result<void> complete(const std::string& name, Shape& shape) {
    shape.spec.name = name;
    if (is_name(name)) {
      if (const auto preset = load_model(name, presets_)) {
        for (const auto& field : shape_fields) {
          if (shape.spec.*field.member == 0) shape.spec.*field.member = (*preset).*field.member;
        }
        if (!shape.tied) shape.tied = preset->tied_embeddings;
      }
    }
    if (shape.spec.kv_heads == 0) shape.spec.kv_heads = shape.spec.heads;
    shape.spec.tied_embeddings = shape.tied.value_or(false);
    for (const auto& field : shape_fields) {
      if (!field.optional && shape.spec.*field.member == 0) {
        return table_.refuse_header(fmt::format(
            "model {}: no row has '{}', and no preset has this name", in_quotes(name), field.name));
      }
    }
    return {};
  }

  Result<void> read_row(std::size_t row) {
    SHARDSWEEP_ASSIGN(const auto name, model_name(row));
    const auto& known = shapes_.at(name);
    Shape shape;
    SHARDSWEEP_TRY(read_shape(row, shape));
    ModelSpec model = known.spec;
    for (const auto& field : shape_fields) {
      if (shape.spec.*field.member != 0) model.*field.member = shape.spec.*field.member;
    }
    model.tied_embeddings = shape.tied.value_or(known.spec.tied_embeddings);
    RecordedRun run;
    SHARDSWEEP_TRY(read_point(row, run.point));
    note_unknown(row, run);
    SHARDSWEEP_TRY(read_measurement(row, run));
    SHARDSWEEP_TRY(read_peak_stage(row, run));
    SHARDSWEEP_TRY(read_recompute(row, run));
    const std::int64_t nodes = run.point.nodes;
    return builder_.add(row, std::move(run), model, nodes);
  }

  Result<void> read_point(std::size_t row, Point& point) const {
    for (const auto& axis : axes()) {
      if (axis.kind != AxisKind::model) axis.set(point, axis.default_value);
    }
    point.nodes = 0;
    point.gpus = 0;
    bool dp_said = false;
    for (const auto& [axis, column] : axis_columns_) {
      const auto* cell = table_.cell(row, column);
      if (cell == nullptr) continue;
      SHARDSWEEP_ASSIGN(const auto value, read_axis(*axis, column, *cell));
      axis->set(point, value);
      dp_said = dp_said || axis->name == "dp";
    }
    auto& layout = point.layout;
    const std::int64_t slice = std::int64_t{layout.tp} * layout.pp * layout.cp;
    if (!dp_said && point.gpus > 0) {
      if (point.gpus % slice != 0) {
        return table_.refuse_row(row,
            fmt::format("dp is missing, and {} GPUs cannot be divided by tp {} x pp {}", point.gpus,
                layout.tp, layout.pp));
      }
      layout.dp = static_cast<std::int32_t>(point.gpus / slice);
    }
    if (layout.world() > std::numeric_limits<std::int32_t>::max())
      return table_.refuse_row(row, fmt::format("a world of {} ranks", layout.world()));
    if (point.gpus == 0) point.gpus = static_cast<std::int32_t>(layout.world());
    return {};
  }

  /// Trainers that have it use sequence parallelism wherever there is TP.
  void note_unknown(std::size_t row, RecordedRun& run) const {
    run.unknown = {.zero = !is_said(row, "zero"),
        .recompute = !is_said(row, "recompute"),
        .sequence_parallel = !is_said(row, "sequence_parallel")};
    auto& layout = run.point.layout;
    if (run.unknown.sequence_parallel)
      layout.sequence_parallel = layout.tp > 1 && run.point.seq_len % layout.tp == 0;
  }
  [[nodiscard]] bool is_said(std::size_t row, std::string_view axis) const {
    const auto column = axis_columns_.find(find_axis(axis));
    return column != axis_columns_.end() && table_.cell(row, column->second) != nullptr;
  }

  static Result<std::int64_t> read_axis(
      const AxisInfo& axis, std::string_view column, const config::YamlNode& cell) {
    if (axis.kind == AxisKind::toggle) {
      SHARDSWEEP_ASSIGN(const bool on, read_flag(cell, column));
      return on ? 1 : 0;
    }
    if (axis.kind == AxisKind::word) {
      SHARDSWEEP_ASSIGN(
          const auto index, read_word(cell, column, {axis.words.begin(), axis.words.end()}));
      return static_cast<std::int64_t>(index);
    }
    // Values reserved here are used by other trainers.
    constexpr std::int64_t most_reserved = 1 << 16;
    const bool reserved = axis.maximum == axis.minimum;
    return read_whole(cell, column, axis.minimum, reserved ? most_reserved : axis.maximum);
  }

  Result<void> read_measurement(std::size_t row, RecordedRun& run) const {
    std::optional<double> speed;
    if (const auto* cell = table_.cell(row, "tokens_per_s_per_gpu"))
      SHARDSWEEP_SET(speed, read_amount(*cell, "tokens_per_s_per_gpu"));
    SHARDSWEEP_ASSIGN(run.outcome, read_outcome(row, speed.has_value()));
    if (run.outcome == Outcome::completed) run.tokens_per_s_per_gpu = speed;
    const bool in_gib = table_.has("peak_memory_gib");
    const auto column = in_gib ? "peak_memory_gib" : "peak_memory_bytes";
    if (const auto* cell = table_.cell(row, column)) {
      SHARDSWEEP_ASSIGN(const auto peak, read_amount(*cell, column));
      constexpr double most = 1e15;
      if (peak && *peak * (in_gib ? gibibyte : 1) > most)
        return refuse(*cell, "'{}' is {}, more than any device has", column, *peak);
      if (peak) run.peak_memory_bytes = static_cast<std::int64_t>(*peak * (in_gib ? gibibyte : 1));
    }
    if (const auto* cell = table_.cell(row, version_))
      SHARDSWEEP_SET(run.software_version, config::read_text(*cell, version_));
    if (const auto* cell = table_.cell(row, "kernel")) {
      SHARDSWEEP_ASSIGN(run.kernel, config::read_text(*cell, "kernel"));
    }
    if (const auto* cell = table_.cell(row, "oom_error"))
      SHARDSWEEP_SET(run.oom_error, read_flag(*cell, "oom_error"));
    return {};
  }

  /// Pipeline stages are the outermost part of a world: consecutive ranks.
  Result<void> read_peak_stage(std::size_t row, RecordedRun& run) const {
    const auto& layout = run.point.layout;
    if (const auto* cell = table_.cell(row, "rank")) {
      SHARDSWEEP_ASSIGN(const auto rank, read_whole(*cell, "rank", -1, layout.world() - 1));
      const auto of = rank < 0 ? layout.world() - 1 : rank;
      run.peak_stage = static_cast<std::int32_t>(of * layout.pp / layout.world());
    }
    const auto* cell = table_.cell(row, "stage");
    if (cell == nullptr) return {};
    if (cell->text == "first") {
      run.peak_stage = 0;
    } else if (cell->text == "last") {
      run.peak_stage = layout.pp - 1;
    } else if (cell->text == "most") {
      run.peak_stage = RecordedRun::of_any_rank;
    } else {
      SHARDSWEEP_ASSIGN(const auto stage, read_whole(*cell, "stage", 0, layout.pp - 1));
      run.peak_stage = static_cast<std::int32_t>(stage);
    }
    return {};
  }

  Result<void> read_recompute(std::size_t row, RecordedRun& run) const {
    constexpr std::int64_t most_layers = 4096;
    if (const auto* cell = table_.cell(row, "recompute_num_layers")) {
      SHARDSWEEP_ASSIGN(
          const auto layers, read_whole(*cell, "recompute_num_layers", 0, most_layers));
      run.recompute_layers = static_cast<std::int32_t>(layers);
    }
    if (const auto* cell = table_.cell(row, "recompute_method")) {
      SHARDSWEEP_ASSIGN(
          const auto method, read_word(*cell, "recompute_method", {"uniform", "block"}));
      run.recompute_by_block = method == 1;
    }
    return {};
  }

  Result<Outcome> read_outcome(std::size_t row, bool measured) const {
    const auto* cell = table_.cell(row, "outcome");
    if (cell == nullptr) return measured ? Outcome::completed : Outcome::crashed;
    if (cell->text == "other") return Outcome::crashed;
    const auto outcome = outcome_from(cell->text);
    if (outcome) return *outcome;
    std::vector<std::string_view> words;
    words.reserve(outcome_table.size() + 1);
    for (const auto& each : outcome_table)
      words.push_back(each.name);
    words.emplace_back("other");
    return refuse(*cell, "expected one of {} for 'outcome', got {}", fmt::join(words, ", "),
        in_quotes(cell->text));
  }

  const CsvTable& table_;
  SweepBuilder builder_;
  std::filesystem::path presets_;
  std::map<const AxisInfo*, std::string> axis_columns_;
  std::vector<std::string_view> shape_columns_;  // names in the order of shape_fields
  std::string_view tied_;
  std::string_view version_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace

Result<RecordedSweep> read_plain(const CsvTable& table, const RecordedOptions& options) {
  return PlainReader(table, options).read();
}

}  // namespace shardsweep::recorded
