// SPDX-License-Identifier: Apache-2.0
// Vars in words.
#pragma once

#include <string>

namespace shardsweep {

/// `{"nccl_ib_hca": "mlx5_0:1", "nvls": 1}` as "nccl_ib_hca mlx5_0:1, nvls 1": values as their
/// sweep file has them. What is no JSON object has none.
[[nodiscard]] std::string vars_text(const std::string& json);

}  // namespace shardsweep
