// SPDX-License-Identifier: Apache-2.0
// Whether the numbers of a model belong together, whoever wrote them.
#pragma once

#include <shardsweep/model.hpp>

#include <cstdint>
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

// A sequence length in thousands where one in units of 1,024 was meant.

/// `; for a seq_len of 8192 write 8Ki, as 8k is 8000` if that divides `tokens`; else empty.
[[nodiscard]] std::string binary_length_meant(std::int64_t seq_len, std::int64_t tokens);

}  // namespace shardsweep
