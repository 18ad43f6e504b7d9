// SPDX-License-Identifier: Apache-2.0
// A layout from what somebody tells a trainer, in the words of the trainer's file.
#pragma once

#include "trainer/configuration.hpp"
#include "trainer/layout_words.hpp"
#include "trainer/settings.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>

namespace shardsweep {

/// `WORD={AXIS}` is an axis's value as it stands, `{AXIS=VALUE?WORD}` gives it that value; then the
/// lines of `reads` count, from the top, later ones more. `gpus`: of the run, which give dp if
/// no word does; 0: not known, which is a fault there. Faults name the word.
[[nodiscard]] Result<TrainerLayout> read_layout(
    const LayoutWords& words, const Settings& said, std::int64_t gpus);

}  // namespace shardsweep
