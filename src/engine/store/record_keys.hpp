// SPDX-License-Identifier: Apache-2.0
// A runner's own metrics: keys of its result record that no column has. The store keeps the
// record whole.
#pragma once

#include "store/selection.hpp"
#include "store/sqlite.hpp"

#include <string>
#include <vector>

namespace shardsweep::sqlite {

/// Names among `asked` that are keys of a chosen measurement's record, with a number, text or truth
/// value. Examples are `bubble_share`, and `phase_ms.forward` within an object.
[[nodiscard]] std::vector<std::string> record_keys(
    Database& database, const ResolvedNames& chosen, const std::vector<std::string>& asked);

/// ", (…) AS key" for each, in a row with the column `attempt_id`.
[[nodiscard]] std::string record_columns(
    const std::vector<std::string>& keys, const std::string& attempt_id);

}  // namespace shardsweep::sqlite
