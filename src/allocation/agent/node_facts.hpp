// SPDX-License-Identifier: Apache-2.0
// The body of `shardsweep-agent check`: what a node finds of itself, in one line on stdout. It
// is a process of its own, since a file system or a driver may not answer: whoever has started
// it need not wait for it.
#pragma once

#include <shardsweep/check.hpp>
#include <shardsweep/clock.hpp>

#include <cstdint>
#include <string>

namespace shardsweep::agent {

struct CheckOptions {
  std::string dir;  ///< folder of the allocation
  std::string node;
  CheckTime time = CheckTime::before;
  std::int32_t round = 0;  ///< round of `pairs`
};

[[nodiscard]] int run_check(const CheckOptions& options, const Clock& clock);

}  // namespace shardsweep::agent
