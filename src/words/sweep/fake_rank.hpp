// SPDX-License-Identifier: Apache-2.0
// Which rank of a layout a trial of a proof runs (plan/proof.hpp).
#pragma once

#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace shardsweep {

/// The var that says it: the last one of such a sweep.
inline constexpr std::string_view proof_stage_var = "proof_stage";
[[nodiscard]] std::span<const std::string_view> proof_stage_words();

/// The first rank of this pipeline stage, in trainers whose stages are the slowest dimension.
[[nodiscard]] std::int32_t first_rank_of_stage(const Layout& layout, std::int32_t stage);

/// Of a trial of a proof.
[[nodiscard]] std::int32_t fake_rank_of(const SweepSpec& proof, const Point& point);

/// The stages of a pipeline that are proved, by the index of their words.
[[nodiscard]] std::int32_t stage_of_word(std::size_t word, std::int32_t stages);

}  // namespace shardsweep
