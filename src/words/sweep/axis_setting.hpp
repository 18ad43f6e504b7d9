// SPDX-License-Identifier: Apache-2.0
// A layout, or a part of one, as a person types it: "tp=4 pp=2 recompute=full", or a label as
// tables print it, "dp4 tp2 pp1 mb2 ga4 z1 full sp".
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <string_view>
#include <vector>

namespace shardsweep {

/// The value of a layout's axis from its text: a whole number, one of its words, true or false.
/// Faults (invalid_input): no such value, or beyond the axis's range; the message names them.
[[nodiscard]] Result<std::int64_t> axis_value_from(const AxisInfo& axis, std::string_view text);

/// Each axis of a layout that `text` sets, with one value; pieces stand between spaces or
/// commas. Names, their aliases and their short forms are understood. Faults (invalid_input):
/// an unknown name, an axis set twice, or one that is none of a layout.
[[nodiscard]] Result<std::vector<AxisValues>> read_layout_settings(std::string_view text);

}  // namespace shardsweep
