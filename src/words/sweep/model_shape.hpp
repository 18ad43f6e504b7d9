// SPDX-License-Identifier: Apache-2.0
// Whether the numbers of a model belong together, whoever wrote them.
#pragma once

#include <shardsweep/model.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct ShapeMistake {
  std::string_view key;  ///< key with the mistake; empty: the model as a whole
  std::string what;
};

/// Heads that do not divide, latents that do not fit, and experts without what they need: at
/// most one of each. Values of
/// the model are within their ranges.
[[nodiscard]] std::vector<ShapeMistake> shape_mistakes(const ModelSpec& model);

}  // namespace shardsweep
