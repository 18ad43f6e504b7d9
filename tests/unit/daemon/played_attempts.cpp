// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_attempts.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <fstream>

namespace shardsweep::testing {

void PlayedAttempts::write_result(const std::string& nonce, const std::string& dir, double speed) {
  PlayedAttempt& attempt = by_nonce[nonce];
  if (attempt.result) return;
  attempt.result = speed > 0 ? speed : 1000.0 + static_cast<double>(by_nonce.size());
  attempt.late = booked && booked(nonce);
  std::ofstream(AttemptPaths{dir}.records(), std::ios::app)
      << fmt::format(R"({{"type":"result","run_id":"{}","tokens_per_s_per_gpu":{}}})"
                     "\n",
             nonce, *attempt.result);
}

void PlayedAttempts::tear_result(const std::string& nonce, const std::string& dir) const {
  const auto attempt = by_nonce.find(nonce);
  if (attempt != by_nonce.end() && attempt->second.result) return;
  std::ofstream(AttemptPaths{dir}.records(), std::ios::app)
      << fmt::format(R"({{"type":"result","run_id":"{}","tokens_per_s_per)", nonce);
}

}  // namespace shardsweep::testing
