// SPDX-License-Identifier: Apache-2.0
// A layout in the words of a trainer's file.
#pragma once

#include "trainer/configuration.hpp"
#include "trainer/layout_words.hpp"

#include <shardsweep/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// A fault that names the axis, if the trainer has no setting for a layout.
[[nodiscard]] Result<void> check_has_words(
    std::string_view trainer, const LayoutWords& words, const TrainerLayout& layout);

/// Complete, as `form` writes it. Faults as check_has_words().
[[nodiscard]] Result<std::string> written_layout(
    std::string_view trainer, const LayoutWords& words, const TrainerLayout& layout);

/// Words of a command line (`argv`), with their placeholders: those that tell these axes, or all.
[[nodiscard]] std::vector<std::string> words_of_argv(
    const LayoutWords& words, const std::vector<std::string_view>& axes = {});

}  // namespace shardsweep
