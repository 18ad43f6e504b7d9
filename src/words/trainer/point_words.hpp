// SPDX-License-Identifier: Apache-2.0
// A point as what a trainer is told of it.
#pragma once

#include "trainer/configuration.hpp"

#include <shardsweep/point.hpp>

#include <optional>
#include <string>

namespace shardsweep {

/// `model`: some trainers have other words for it, or none, by its layers and experts.
[[nodiscard]] TrainerLayout layout_of_point(const Point& point, const ModelSpec& model = {});

/// What a trainer's layout says of an axis, as axis_text() writes it; none: nothing.
[[nodiscard]] std::optional<std::string> axis_text_of(
    const TrainerLayout& layout, const AxisInfo& axis);

/// An axis that no trainer's words are known for here, if its value is not the default; with
/// that value. Empty if there is none.
[[nodiscard]] std::string axis_without_words(const Point& point);

}  // namespace shardsweep
