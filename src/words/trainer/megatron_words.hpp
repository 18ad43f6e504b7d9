// SPDX-License-Identifier: Apache-2.0
// A layout in the words of Megatron-LM (flags) and of Megatron-Bridge (overrides behind a
// recipe), and back. Both derive dp from the GPUs.
#pragma once

#include "trainer/configuration.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Words of a command line with placeholders (text/placeholders.hpp) that tell the trainer
/// these axes, or all that it has words for: the one table of them. Layouts are written by it,
/// a new sweep's command line holds them, and a sweep that leaves an axis out is advised so.
[[nodiscard]] std::vector<std::string> told_to_megatron(
    const std::vector<std::string_view>& axes = {});
[[nodiscard]] std::vector<std::string> told_to_bridge(
    const std::vector<std::string_view>& axes = {});

[[nodiscard]] Result<std::string> write_megatron(const TrainerLayout& layout);
[[nodiscard]] Result<TrainerLayout> read_megatron(std::string_view text, std::int64_t gpus);
[[nodiscard]] Result<std::string> write_bridge(const TrainerLayout& layout);
[[nodiscard]] Result<TrainerLayout> read_bridge(std::string_view text, std::int64_t gpus);

}  // namespace shardsweep
