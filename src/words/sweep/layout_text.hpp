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
#include <vector>

namespace shardsweep {

enum class LayoutForm : std::uint8_t {
  label,    ///< dp4 tp2 pp1 mb2 ga4 z1 cp2 full sp no-overlap
  degrees,  ///< dp4 tp2 pp1 cp2: how the GPUs are divided, and nothing else
};

[[nodiscard]] std::string layout_text(const Point& point, LayoutForm form = LayoutForm::label);

/// The label of a layout whose values come from elsewhere, as axis_text() would print them. A
/// word that is none of ours is printed as it is.
[[nodiscard]] std::string layout_label(const std::function<std::string(const AxisInfo&)>& value_of);

// Vars and hosts of the database's JSON in words.

/// `{"nccl_ib_hca": "mlx5_0:1", "nvls": 1}` as "nccl_ib_hca mlx5_0:1, nvls 1": values as their
/// sweep file has them. What is no JSON object has none.
[[nodiscard]] std::string vars_text(const std::string& json);

/// Text of vars_text() for one of several: a var that only the others have is "no nvls".
[[nodiscard]] std::string vars_text_among(
    const std::string& json, const std::vector<std::string>& others);

/// `["n2", "n1"]` as "n1 n2", each host once. What is no JSON array has none.
[[nodiscard]] std::string hosts_text(const std::string& json);

}  // namespace shardsweep
