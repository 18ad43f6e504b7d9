// SPDX-License-Identifier: Apache-2.0
// A layout in the words of other trainers: flags or a configuration to paste, and back.
#pragma once

#include "trainer/layout_words.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Layout as a trainer is told it. Degrees are ranks, batches are samples.
struct TrainerLayout {
  std::int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  std::int64_t vpp = 1;           ///< virtual stages of a rank
  std::int64_t dp_replicate = 1;  ///< copies of what ZeRO shards
  std::int64_t micro_batch = 1, grad_accum = 1;
  std::int64_t seq_len = 0;    ///< tokens; 0: the trainer is not told
  std::int64_t zero = 0;       ///< stage, 0 to 3
  std::int64_t layers = 0;     ///< layers of the model, if it is known; never read
  std::int64_t experts = 0;    ///< experts of each of its layers, if they are known; never read
  std::int64_t expert_tp = 0;  ///< ranks that split each expert; 0: those of tp
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;  ///< 0: as the other stages
  std::string recompute = "none";
  std::string schedule = "1f1b";
  std::string cp_mode = "ring";
  std::string rank_order = "tp-dp-pp";
  bool sequence_parallel = false;
  std::string offload = "none";
  bool cuda_graphs = false;
  bool overlap = true;  ///< overlap of data parallel communication; written, and true when read

  [[nodiscard]] std::int64_t gpus() const { return dp * tp * pp * cp; }
  /// Samples per train step.
  [[nodiscard]] std::int64_t global_batch() const { return dp * micro_batch * grad_accum; }
  friend bool operator==(const TrainerLayout&, const TrainerLayout&) = default;
};

// A layout in the words of a trainer's file, and back.

class Settings;
/// `WORD={AXIS}` is an axis's value as it stands, `{AXIS=VALUE?WORD}` gives it that value; then the
/// lines of `reads` count, from the top, later ones more. `gpus`: of the run, which give dp if
/// no word does; 0: not known, which is a fault there. Faults name the word.
[[nodiscard]] Result<TrainerLayout> read_layout(
    const LayoutWords& words, const Settings& said, std::int64_t gpus);

/// A fault that names the axis, if the trainer has no setting for a layout.
[[nodiscard]] Result<void> check_has_words(
    std::string_view trainer, const LayoutWords& words, const TrainerLayout& layout);

/// Complete, as `form` writes it. Faults as check_has_words().
[[nodiscard]] Result<std::string> written_layout(
    std::string_view trainer, const LayoutWords& words, const TrainerLayout& layout);

/// Words of a command line (`argv`), with their placeholders: those that tell these axes, or all.
[[nodiscard]] std::vector<std::string> words_of_argv(
    const LayoutWords& words, const std::vector<std::string_view>& axes = {});

/// Trainers that a layout can be written for.
[[nodiscard]] std::span<const std::string_view> configurable_trainers();

/// Flags (megatron), overrides (megatron-bridge), YAML (nanotron, gpt-neox, llm-foundry), TOML
/// (torchtitan up to v0.2.2) or JSON (deepspeed, picotron). Only what the layout decides; the
/// rest of a configuration stays as it is. A layout that the trainer has no setting for is a
/// fault that names the axis.
[[nodiscard]] Result<std::string> configuration_of(
    std::string_view trainer, const TrainerLayout& layout);

/// The layout in a trainer's own words, which may hold any other settings too. `gpus`: of the
/// run, where the trainer derives dp from it; 0: not known, which is a fault there.
[[nodiscard]] Result<TrainerLayout> layout_of(
    std::string_view trainer, std::string_view text, std::int64_t gpus);

/// Reads a user's file, which may be a shell script (shell_script.hpp). What decides a layout and
/// depends on a branch of it, its arguments or its environment is a fault that names the word.
[[nodiscard]] Result<TrainerLayout> layout_of_file(
    std::string_view trainer, std::string_view text, std::int64_t gpus);

/// The words by which a trainer is told a layout; those of one that has none have no form.
[[nodiscard]] const LayoutWords& layout_words_of(std::string_view trainer);

/// Stage 1 of ZeRO beside the axis `zero`: some trainers tell it with words of its own.
inline constexpr std::string_view stage_1 = "zero 1";
/// A trainer's word for an axis, for `global_batch` or for stage_1 (else that of `zero`, if it can
/// say 1); empty: there is none.
[[nodiscard]] std::string_view word_of_axis(std::string_view trainer, std::string_view axis);

/// Names of an axis, one for each of configurable_trainers(), in their order.
struct AxisNames {
  std::string_view axis;
  std::vector<std::string_view> names;
};
[[nodiscard]] std::span<const AxisNames> axis_names();

}  // namespace shardsweep
