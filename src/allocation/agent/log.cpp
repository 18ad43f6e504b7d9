// SPDX-License-Identifier: Apache-2.0
#include "agent/log.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <ctime>

namespace shardsweep::agent {

void Log::line(std::string_view text) const {
  const Timestamp now = clock_.now();
  const std::time_t seconds = now / 1'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  const std::string line = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z {} {}\n",
      utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
      now / 1000 % 1000, who_, text);
  // One write, so that lines of several processes don't mix. A full disk must not end anything.
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace shardsweep::agent
