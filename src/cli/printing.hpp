// SPDX-License-Identifier: Apache-2.0
// How a command's tables stand on its standard output.
#pragma once

#include "cli/session.hpp"
#include "show/table_view.hpp"

#include <string_view>
#include <vector>

namespace shardsweep {

/// By the session's --format and --wide, and by what standard output is.
[[nodiscard]] TableStyle table_style(const Session& session,
                                     std::vector<std::string_view> important = {});

/// The table to standard output, its note to standard error.
[[nodiscard]] Result<ExitCode> print_table(const Table& table, const TableStyle& style);

}  // namespace shardsweep
