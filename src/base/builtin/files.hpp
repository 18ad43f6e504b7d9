// SPDX-License-Identifier: Apache-2.0
// Presets, sweeps and templates inside the program: a copied program needs no files beside it.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace shardsweep::builtin {

struct File {
  std::string_view path;  ///< "sweeps/models/tiny.yaml", "templates/lane.sbatch"
  std::string_view text;
};

/// All files, sorted by path.
[[nodiscard]] std::span<const File> files();
[[nodiscard]] std::optional<std::string_view> text_of(std::string_view path);

}  // namespace shardsweep::builtin
