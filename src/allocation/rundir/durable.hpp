// SPDX-License-Identifier: Apache-2.0
// What a rename or a new file needs besides to outlive a power cut.
#pragma once

#include <shardsweep/result.hpp>

#include <filesystem>

namespace shardsweep {

/// Makes a name durable: fsync of the folder that holds it.
[[nodiscard]] Result<void> sync_folder_of(const std::filesystem::path& path);

}  // namespace shardsweep
