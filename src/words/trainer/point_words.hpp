// SPDX-License-Identifier: Apache-2.0
// A point as what a trainer is told of it.
#pragma once

#include "trainer/configuration.hpp"

#include <shardsweep/point.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// `model`: its layers and experts decide which words some trainers have, if any.
[[nodiscard]] TrainerLayout layout_of_point(const Point& point, const ModelSpec& model = {});

/// Why the trainer does not start a point, by the rules of its file; empty: it does.
[[nodiscard]] std::string rule_against_point(
    std::string_view trainer, const Point& point, const ModelSpec& model = {});

/// Configuration of a point as configuration_of() writes it; a fault if the rules of the trainer's
/// file refuse the point.
[[nodiscard]] Result<std::string> configuration_of_point(
    std::string_view trainer, const Point& point, const ModelSpec& model = {});

/// Value of an axis in a trainer's layout, in axis_text()'s form; empty: the layout has none.
[[nodiscard]] std::optional<std::string> axis_text_of(
    const TrainerLayout& layout, const AxisInfo& axis);

/// Sets an axis; ignores axes that a trainer's layout does not have.
void set_axis(TrainerLayout& layout, const AxisInfo& axis, std::int64_t value);

/// An axis that no trainer's words are known for here, if its value is not the default; with
/// that value. Empty if there is none.
[[nodiscard]] std::string axis_without_words(const Point& point);

}  // namespace shardsweep
