// SPDX-License-Identifier: Apache-2.0
// How well memory is predicted, as text.
#pragma once

#include "show/table_view.hpp"
#include "tools/lab/memory_score.hpp"

#include <string>

namespace shardsweep {

/// table and csv: a line per model, and in a table one for all of them; json: an object with
/// `models` and `total`. Errors are shares (0.05), in a table per cent.
[[nodiscard]] std::string memory_report_text(const MemoryReport& report, const TableStyle& style);

}  // namespace shardsweep
