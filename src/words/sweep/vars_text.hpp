// SPDX-License-Identifier: Apache-2.0
// Vars and hosts of the database's JSON in words.
#pragma once

#include <string>
#include <vector>

namespace shardsweep {

/// `{"nccl_ib_hca": "mlx5_0:1", "nvls": 1}` as "nccl_ib_hca mlx5_0:1, nvls 1": values as their
/// sweep file has them. What is no JSON object has none.
[[nodiscard]] std::string vars_text(const std::string& json);

/// Text of vars_text() for one of several: a var that only the others have is "no nvls".
[[nodiscard]] std::string vars_text_among(
    const std::string& json, const std::vector<std::string>& others);

/// `["n2", "n1"]` as "n1 n2", each host once. What is no JSON array has none.
[[nodiscard]] std::string hosts_text(const std::string& json);

}  // namespace shardsweep
