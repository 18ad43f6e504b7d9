// SPDX-License-Identifier: Apache-2.0
// A sequence length in thousands where one in units of 1,024 was meant.
#pragma once

#include <cstdint>
#include <string>

namespace shardsweep {

/// `; for a seq_len of 8192 write 8Ki, as 8k is 8000` if that divides `tokens`; else empty.
[[nodiscard]] std::string binary_length_meant(std::int64_t seq_len, std::int64_t tokens);

}  // namespace shardsweep
