// SPDX-License-Identifier: Apache-2.0
// Families of trainers: which one a question, a runner or a sweep means. What they are is the
// section `planner` of the trainers' files (trainer/habits.hpp).
#pragma once

#include "trainer/habits.hpp"

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <span>
#include <string_view>

namespace shardsweep {

/// Built-in families, except the one for any other program.
[[nodiscard]] std::span<const Family> families();

/// Finds a family by its exact name; a user's added file goes first. Faults: invalid_input, which
/// lists the names there are.
[[nodiscard]] Result<const Family*> find_family(std::string_view name);

/// True if other processes also know the family by its name: it is from no user's file.
[[nodiscard]] bool is_built_in(const Family& family);

/// Family of a question that names none: on GPUs, and without them.
[[nodiscard]] const Family& usual_family(UsualOn on);
[[nodiscard]] const Family& default_family(const ClusterSpec& cluster);

/// True if speed and memory on one tell about the other: the same devices, as many to a node.
[[nodiscard]] bool same_hardware(const ClusterSpec& a, const ClusterSpec& b);

/// Family of a sweep's runner; shardbench's has the habits of its profile.
[[nodiscard]] const Family& family_of(const RunnerSpec& runner);
/// True if times of one sweep tell about the other's: both have the same hardware and trainers of
/// one family, and measure whole layouts.
[[nodiscard]] bool is_kin(const SweepSpec& a, const SweepSpec& b);

/// The family of a user's file of this name; else the one whose name begins the runner's; if
/// none does, shardbench's formulas, which are plain, as somebody else's: not exact.
[[nodiscard]] const Family& family_of_runner(std::string_view runner);

/// shardbench's memory on GPUs before it takes pieces: the plain formulas.
[[nodiscard]] const MemoryFamily& shardbench_cuda_memory();

}  // namespace shardsweep
