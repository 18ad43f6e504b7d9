// SPDX-License-Identifier: Apache-2.0
// A database that was copied or moved with its folder, while its rows name folders of the old
// place. The jobs in a copy's rows are the original's, and work in the original's folder: the copy
// gives them no orders.
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

/// The folder of an allocation or an attempt, plain or packed: at its row's path, else at the same
/// path below this home.
[[nodiscard]] std::filesystem::path folder_here(
    const Home& home, const std::filesystem::path& folder);

/// If one of these folders of live allocations is another database's: whose copy this one is, how
/// many jobs are the original's, and what to do.
[[nodiscard]] std::optional<std::string> copy_text(
    const Home& home, const std::vector<std::filesystem::path>& folders);

}  // namespace shardsweep
