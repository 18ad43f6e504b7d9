// SPDX-License-Identifier: Apache-2.0
// The log table of nanotron's scaling benchmarks, with its traps (recorded.hpp).
#include "predict/memory.hpp"
#include "table/table.hpp"
#include "text/characters.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace shardsweep::recorded {
namespace {

using config::refuse;
using config::YamlNode;

constexpr std::array<std::string_view, 26> used_columns{"status", "oom_error", "tok/s/gpu",
    "Mem Alloc (GB)", "Mem Res (GB)", "nodes", "seq_len", "mbs", "batch_accum", "dp", "tp", "pp",
    "zero_stage", "pp_engine", "tp_mode", "dtype", "hidden_size", "num_layers", "num_heads",
    "num_kv_heads", "vocab_size", "interm_dim", "tie_word_embeddings", "num_params", "after_pp_fix",
    "num_key_value_heads"};

// torch's 1024^3, whatever the header says.
constexpr double billion = 1e9;

/// Measured after a fix of the pipeline, which made it up to 5.6 times as fast.
constexpr const char* newest_version = "after_pp_fix";

/// Without a pipeline the fix changes nothing, nor does it whether a layout fits.
constexpr const char* comparable = "after_pp_fix or pp 1";

class NanotronReader {
 public:
  NanotronReader(const CsvTable& table, const RecordedOptions& options)
      : table_(table), builder_(table, options) {}

  Result<RecordedSweep> read() {
    for (const auto* column : {"status", "nodes", "seq_len", "mbs", "batch_accum", "dp", "tp", "pp",
             "hidden_size", "num_layers", "num_heads", "vocab_size"}) {
      if (!table_.has(column)) {
        return table_.refuse_header(
            fmt::format("there is no column '{}': is this nanotron's table?", column));
      }
    }
    builder_.add_labels({used_columns.begin(), used_columns.end()});
    SHARDSWEEP_TRY(learn_ffn());
    for (std::size_t row = 0; row < table_.rows(); ++row)
      SHARDSWEEP_TRY(read_row(row));
    auto sweep = builder_.take();
    sweep.newest_version = newest_version;
    return sweep;
  }

 private:
  Result<std::int64_t> need(
      std::size_t row, std::string_view column, std::int64_t least, std::int64_t most) const {
    const auto* cell = table_.cell(row, column);
    if (cell == nullptr) return table_.refuse_row(row, fmt::format("a row without '{}'", column));
    return read_whole(*cell, column, least, most);
  }

  Result<void> learn_ffn() {
    ffn_ = {{3072, 8192}, {8192, 28672}};
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      const auto* cell = table_.cell(row, "interm_dim");
      if (cell == nullptr) continue;
      SHARDSWEEP_ASSIGN(const auto hidden, need(row, "hidden_size", 1, most_width));
      SHARDSWEEP_ASSIGN(ffn_[hidden], read_whole(*cell, "interm_dim", 1, most_width));
    }
    return {};
  }

  Result<void> read_row(std::size_t row) {
    RecordedRun run;
    SHARDSWEEP_TRY(read_point(row, run.point));
    // An empty cell says nothing: ZeRO 0 would need several times the memory of ZeRO 1.
    run.unknown.zero = table_.cell(row, "zero_stage") == nullptr;
    run.unknown.sequence_parallel =
        run.point.layout.tp > 1 && table_.cell(row, "tp_mode") == nullptr;
    SHARDSWEEP_TRY(read_measurement(row, run));
    const bool fixed = run.software_version.empty() || run.software_version == newest_version;
    if (fixed || run.point.layout.pp == 1 || run.outcome != Outcome::completed)
      run.comparable = comparable;
    SHARDSWEEP_ASSIGN(const auto model, read_model(row));
    SHARDSWEEP_ASSIGN(const auto nodes, need(row, "nodes", 1, most_ranks));
    return builder_.add(row, std::move(run), model, nodes);
  }

  Result<void> read_point(std::size_t row, Point& point) const {
    constexpr std::array<std::pair<std::string_view, std::int32_t Layout::*>, 5> degrees{{
        {"dp", &Layout::dp},
        {"tp", &Layout::tp},
        {"pp", &Layout::pp},
        {"mbs", &Layout::micro_batch},
        {"batch_accum", &Layout::grad_accum},
    }};
    auto& layout = point.layout;
    for (const auto& [column, member] : degrees) {
      SHARDSWEEP_ASSIGN(const auto value, need(row, column, 1, most_ranks));
      layout.*member = static_cast<std::int32_t>(value);
    }
    if (layout.world() > most_ranks)
      return table_.refuse_row(row, fmt::format("a world of {} ranks", layout.world()));
    point.gpus = static_cast<std::int32_t>(layout.world());
    SHARDSWEEP_ASSIGN(const auto seq_len, need(row, "seq_len", 1, 1 << 24));
    point.seq_len = static_cast<std::int32_t>(seq_len);
    if (const auto* cell = table_.cell(row, "zero_stage")) {
      SHARDSWEEP_ASSIGN(const auto zero, read_whole(*cell, "zero_stage", 0, 3));
      layout.zero = static_cast<std::int32_t>(zero);
    }
    if (const auto* cell = table_.cell(row, "tp_mode")) {
      SHARDSWEEP_ASSIGN(
          const auto mode, read_word(*cell, "tp_mode", {"ALL_REDUCE", "REDUCE_SCATTER"}));
      layout.sequence_parallel = mode == 1 && layout.tp > 1;
    }
    if (const auto* cell = table_.cell(row, "pp_engine")) {
      SHARDSWEEP_ASSIGN(const auto engine,
          read_word(*cell, "pp_engine",
              {"OneForwardOneBackwardPipelineEngine", "AllForwardAllBackwardPipelineEngine"}));
      layout.schedule = static_cast<Schedule>(engine);
    }
    if (const auto* cell = table_.cell(row, "dtype")) {
      SHARDSWEEP_ASSIGN(const auto dtype,
          read_word(*cell, "dtype", {"torch.bfloat16", "torch.float32", "torch.float64"}));
      point.dtype = static_cast<Dtype>(dtype);
    }
    return {};
  }

  Result<void> read_measurement(std::size_t row, RecordedRun& run) const {
    const auto* status = table_.cell(row, "status");
    if (status == nullptr) return table_.refuse_row(row, "a row without 'status'");
    constexpr std::array outcomes{Outcome::completed, Outcome::oom, Outcome::crashed};
    SHARDSWEEP_ASSIGN(const auto index, read_word(*status, "status", {"Success", "OOM", "Other"}));
    run.outcome = outcomes.at(index);
    const auto* speed = table_.cell(row, "tok/s/gpu");
    if (speed != nullptr && run.outcome == Outcome::completed)
      SHARDSWEEP_SET(run.tokens_per_s_per_gpu, read_amount(*speed, "tok/s/gpu"));
    SHARDSWEEP_ASSIGN(run.peak_memory_bytes, read_memory(row, "Mem Res (GB)"));
    SHARDSWEEP_ASSIGN(run.allocated_memory_bytes, read_memory(row, "Mem Alloc (GB)"));
    if (const auto* cell = table_.cell(row, "oom_error"))
      SHARDSWEEP_SET(run.oom_error, read_flag(*cell, "oom_error"));
    if (const auto* cell = table_.cell(row, "after_pp_fix")) {
      SHARDSWEEP_ASSIGN(const bool after, read_flag(*cell, "after_pp_fix"));
      run.software_version = after ? newest_version : "before_pp_fix";
    }
    return {};
  }

  Result<std::optional<std::int64_t>> read_memory(std::size_t row, std::string_view column) const {
    const auto* cell = table_.cell(row, column);
    if (cell == nullptr) return std::nullopt;
    SHARDSWEEP_ASSIGN(const auto amount, read_amount(*cell, column));
    constexpr double most_gib = 1 << 20;
    if (!amount || *amount > most_gib) return std::nullopt;
    return static_cast<std::int64_t>(*amount * gibibyte);
  }

  Result<ModelSpec> read_model(std::size_t row) const {
    ModelSpec model;
    SHARDSWEEP_ASSIGN(model.hidden, need(row, "hidden_size", 1, most_width));
    SHARDSWEEP_ASSIGN(model.layers, need(row, "num_layers", 1, 1 << 14));
    SHARDSWEEP_ASSIGN(model.heads, need(row, "num_heads", 1, 1 << 16));
    SHARDSWEEP_ASSIGN(model.vocab, need(row, "vocab_size", 1, 1 << 26));
    model.kv_heads = name_of(row).find("gqa8") != std::string::npos ? 8 : model.heads;
    if (const auto* cell = table_.cell(row, "num_kv_heads"))
      SHARDSWEEP_SET(model.kv_heads, read_whole(*cell, "num_kv_heads", 1, 1 << 16));
    const auto ffn = ffn_.find(model.hidden);
    if (const auto* cell = table_.cell(row, "interm_dim")) {
      SHARDSWEEP_ASSIGN(model.ffn, read_whole(*cell, "interm_dim", 1, most_width));
    } else if (ffn != ffn_.end()) {
      model.ffn = ffn->second;
    } else {
      return table_.refuse_row(
          row, fmt::format("no row with hidden_size {} has 'interm_dim'", model.hidden));
    }
    SHARDSWEEP_TRY(name_model(row, model));
    return model;
  }

  /// Names the model by num_params, which also tells if embeddings are tied when the row does not.
  Result<void> name_model(std::size_t row, ModelSpec& model) const {
    double claimed = 0;
    if (const auto* cell = table_.cell(row, "num_params")) {
      SHARDSWEEP_ASSIGN(const auto amount, read_amount(*cell, "num_params"));
      claimed = amount.value_or(0);
    }
    if (const auto* cell = table_.cell(row, "tie_word_embeddings")) {
      SHARDSWEEP_ASSIGN(model.tied_embeddings, read_flag(*cell, "tie_word_embeddings"));
    } else if (claimed > 0) {
      model.tied_embeddings = true;
      const auto tied = static_cast<double>(parameters(model));
      model.tied_embeddings = false;
      const auto untied = static_cast<double>(parameters(model));
      model.tied_embeddings =
          std::abs(tied - claimed * billion) < std::abs(untied - claimed * billion);
    }
    if (claimed == 0) claimed = std::round(static_cast<double>(parameters(model)) / 1e7) / 100;
    model.name = fmt::format("{:g}B", claimed);
    return {};
  }

  std::string name_of(std::size_t row) const {
    const auto* cell = table_.cell(row, "name");
    return cell == nullptr ? std::string() : cell->text;
  }

  static constexpr std::int64_t most_ranks = 1 << 24;
  static constexpr std::int64_t most_width = 1 << 24;

  const CsvTable& table_;
  SweepBuilder builder_;
  std::map<std::int64_t, std::int64_t> ffn_;  // widths by hidden size
};

}  // namespace

Result<RecordedSweep> read_nanotron(const CsvTable& table, const RecordedOptions& options) {
  return NanotronReader(table, options).read();
}

}  // namespace shardsweep::recorded
