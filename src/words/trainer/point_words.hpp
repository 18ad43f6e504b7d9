// SPDX-License-Identifier: Apache-2.0
// A point as what a trainer is told of it.
#pragma once

#include "trainer/configuration.hpp"

#include <shardsweep/point.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// `model`: some trainers have other words for it, or none, by its layers and experts.
[[nodiscard]] TrainerLayout layout_of_point(const Point& point, const ModelSpec& model = {});

/// Why the trainer does not start a point, by the rules of its file; empty: it does.
[[nodiscard]] std::string rule_against_point(
    std::string_view trainer, const Point& point, const ModelSpec& model = {});

/// What configuration_of() writes for its layout; a point that the trainer does not start, by the
/// rules of its file, is a fault.
[[nodiscard]] Result<std::string> configuration_of_point(
    std::string_view trainer, const Point& point, const ModelSpec& model = {});

/// What a trainer's layout says of an axis, as axis_text() writes it; none: nothing.
[[nodiscard]] std::optional<std::string> axis_text_of(
    const TrainerLayout& layout, const AxisInfo& axis);

/// One that is none of a trainer's layout is passed over.
void set_axis(TrainerLayout& layout, const AxisInfo& axis, std::int64_t value);

/// An axis that no trainer's words are known for here, if its value is not the default; with
/// that value. Empty if there is none.
[[nodiscard]] std::string axis_without_words(const Point& point);

}  // namespace shardsweep
