// SPDX-License-Identifier: Apache-2.0
// Which layouts this program runs, and why not the others: one list, used to refuse a run and
// to answer --capabilities.
#pragma once

#include "device/platform.hpp"
#include "measurement/profile.hpp"

#include <optional>
#include <string>

namespace shardbench {

/// The first rule that the run breaks; nothing when it can be run.
std::optional<Error> refusal(const Options& options, const Platforms& platforms);

/// Refuses the layout of a model alone. Waste: layouts that train correctly, and so slowly that no
/// one wants their number.
enum class Waste { refused, allowed };
std::optional<Error> layout_refusal(
    const Layout& layout, const ModelShape& model, Waste waste = Waste::refused);

/// JSON object of devices, formats, limits of each axis, and rules. Rules are SQL-like expressions
/// over the columns of a layout, true if the layout is refused; the profile's rules are included.
std::string capabilities_json(const Platforms& platforms, const Profile& profile);

}  // namespace shardbench
