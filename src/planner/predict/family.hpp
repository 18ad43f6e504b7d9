// SPDX-License-Identifier: Apache-2.0
// Families: trainers that keep the same things in memory and order their work the same way.
// What a prediction needs to know of a trainer beside shapes and layout is a row here.
#pragma once

#include "predict/memory.hpp"
#include "predict/time_model.hpp"

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace shardsweep {

struct Family {
  std::string_view name;
  std::string_view trainer;  ///< which programs, in a sentence
  std::string_view title{};  ///< the trainer's own name
  /// The trainer of configuration.hpp in whose words its layouts are written; empty: none.
  std::string_view words{};
  std::string_view fitted_to = "formulas and sources, no runs";  ///< what its constants are from
  MemoryFamily memory;                                           ///< on GPUs
  /// The same trainer at its best: the optimistic bound. Without a name: optimistic_memory,
  /// which knows no trainer's habits.
  MemoryFamily least;
  /// How far the constants of `least` may be off in somebody else's sweep. 0: they are the
  /// runner's own, and exact.
  double constants_off_by = 0.25;
  /// Of the optimizer's state, the share that is certain: what is there is Adam's master copy
  /// and two moments in fp32, 12 bytes for each parameter in 16 bits.
  double certain_optimizer = 1;
  TimeFamily time;
  /// What a trainer reports is its first rank's: the first stage.
  bool reports_first_stage = false;
  /// Its allocator gives cached blocks back and asks again where little is left: such runs end,
  /// four times as slow (30 of 1,765 in the playbook's sweep, whose log holds an OOM).
  bool retries_near_the_limit = false;
  bool measured_on_gpus = true;
};

/// shardbench, nanotron, megatron, fsdp.
[[nodiscard]] std::span<const Family> families();

/// By its exact name. Faults: invalid_input, which lists the names there are.
[[nodiscard]] Result<const Family*> find_family(std::string_view name);

/// Family of a question that names none: Megatron-LM's on GPUs. The benchmark's without them, where
/// no other family runs.
[[nodiscard]] const Family& default_family(const ClusterSpec& cluster);

/// Whether speeds and memory on one say something of the other: the same devices, as many to a
/// node.
[[nodiscard]] bool same_hardware(const ClusterSpec& a, const ClusterSpec& b);

/// That of a sweep's runner; shardbench's has the habits of its profile.
[[nodiscard]] const Family& family_of(const RunnerSpec& runner);
/// Whether what one sweep measures says something of the other's times: both have the same
/// hardware and trainers of one family, and measure layouts as a whole.
[[nodiscard]] bool is_kin(const SweepSpec& a, const SweepSpec& b);

/// The family whose name begins the runner's ("shardbench-cuda", "nanotron"); where none does,
/// shardbench's formulas, which are plain, as somebody else's: not exact.
[[nodiscard]] const Family& family_of_runner(std::string_view runner);

}  // namespace shardsweep
