// SPDX-License-Identifier: Apache-2.0
#include "sweep/binary_length.hpp"

#include <fmt/format.h>

namespace shardsweep {

std::string binary_length_meant(std::int64_t seq_len, std::int64_t tokens) {
  constexpr std::int64_t k = 1000;
  constexpr std::int64_t kibi = 1024;
  const auto binary = seq_len / k * kibi;
  if (seq_len <= 0 || seq_len % k != 0 || tokens % binary != 0) return {};
  return fmt::format(
      "; for a seq_len of {} write {}Ki, as {}k is {}", binary, seq_len / k, seq_len / k, seq_len);
}

}  // namespace shardsweep
