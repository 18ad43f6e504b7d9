// SPDX-License-Identifier: Apache-2.0
// Steps that writers and readers of all trainers' configurations share.
#pragma once

#include "trainer/configuration.hpp"
#include "trainer/settings.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace shardsweep {

[[nodiscard]] tl::unexpected<Fault> no_words(
    std::string_view trainer, std::string_view axis, std::string_view value);

/// A degree that a configuration does not set is 1. One below 1 is a fault.
[[nodiscard]] Result<std::int64_t> degree(const Settings& settings, std::string_view name);

/// Of degrees and batches as somebody wrote them: one beyond 2^63 is a fault.
[[nodiscard]] Result<std::int64_t> product(std::initializer_list<std::int64_t> factors);

/// dp from the GPUs, and grad_accum from the samples of a train step; 0: of one micro-batch.
[[nodiscard]] Result<void> derive(
    TrainerLayout& layout, std::int64_t gpus, std::int64_t global_batch);

}  // namespace shardsweep
