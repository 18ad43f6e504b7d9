// SPDX-License-Identifier: Apache-2.0
// A database that was copied with its folder: the jobs in its rows are the original's, and work in
// the original's folder. The copy gives them no orders.
#pragma once

#include <shardsweep/home.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// The other database in whose home `folder`, of an allocation or an attempt, lies. Empty if this
/// database's home has it, by whatever path, or if the other one is gone: then this one was moved.
[[nodiscard]] std::optional<std::filesystem::path> other_database(
    const Home& home, const std::filesystem::path& folder);

/// A sentence if one of these folders of live allocations is another database's: whose copy this
/// is, how many of its jobs are not its own, and what to do.
[[nodiscard]] std::optional<std::string> copy_text(
    const Home& home, const std::vector<std::filesystem::path>& folders);

}  // namespace shardsweep
