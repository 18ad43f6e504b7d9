// SPDX-License-Identifier: Apache-2.0
// Files that come with the program: built in, or in a folder that goes before them.
#pragma once

#include <shardsweep/load.hpp>
#include <shardsweep/result.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::config {

/// `folder`/`path`, else `root`/`path` of what is built in. `root` is sweeps or templates.
[[nodiscard]] Result<ShippedFile> read_shipped(const std::filesystem::path& folder,
                                               std::string_view root,
                                               const std::filesystem::path& path);

/// Names of the .yaml files in `kind`, of the folder and built in, sorted, each once. `kind` is
/// models, clusters, or empty for sweeps.
[[nodiscard]] std::vector<std::string> shipped_names(const std::filesystem::path& folder,
                                                     std::string_view kind);

}  // namespace shardsweep::config
