// SPDX-License-Identifier: Apache-2.0
// A layout in words. Every command, page, table and stored row that shows one has its text from
// here, so that two layouts that differ never look alike, and one layout looks alike everywhere:
// each axis of a layout is in the label, in the order of AxisInfo::place, unless it has its
// default. The first ones (spelt) are always there.
#pragma once

#include <shardsweep/point.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace shardsweep {

enum class LayoutForm : std::uint8_t {
  label,    ///< dp4 tp2 pp1 mb2 ga4 z1 cp2 full sp no-overlap
  degrees,  ///< dp4 tp2 pp1 cp2: how the GPUs are divided, and nothing else
};

[[nodiscard]] std::string layout_text(const Point& point, LayoutForm form = LayoutForm::label);

/// The label of a layout whose values come from elsewhere, as axis_text() would print them. A
/// word that is none of ours is printed as it is.
[[nodiscard]] std::string layout_label(const std::function<std::string(const AxisInfo&)>& value_of);

}  // namespace shardsweep
