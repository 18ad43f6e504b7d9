// SPDX-License-Identifier: Apache-2.0
// The names in a folder that people may have filled.
#pragma once

#include <shardsweep/result.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace shardsweep {

/// Names of all that is in `folder` and that `keep` keeps, sorted; of a folder that is not
/// there none. A fault if it can't be read to its end, or if more than `most` are kept.
[[nodiscard]] Result<std::vector<std::string>> names_in_folder(const std::filesystem::path& folder,
    std::size_t most, const std::function<bool(const std::string&)>& keep);

}  // namespace shardsweep
