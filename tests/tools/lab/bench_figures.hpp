// SPDX-License-Identifier: Apache-2.0
// This program's own figures over its commits: the lines of `scripts/bench --append FILE`, as
// series of `history`.
#pragma once

#include "show/history.hpp"

#include <shardsweep/result.hpp>

#include <string>
#include <vector>

namespace shardsweep {

/// `text` of `file`, which is for messages. Each figure of each host is a series; `names` keeps
/// some of them. What is a time is turned over: higher is faster, as everywhere.
[[nodiscard]] Result<History> history_of_bench(const std::string& text, const std::string& file,
    const std::vector<std::string>& names, double resolve);

/// Of history_table() or history_points(): without the columns of layouts.
[[nodiscard]] Table without_layouts(const Table& table);

}  // namespace shardsweep
