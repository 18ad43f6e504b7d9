// SPDX-License-Identifier: Apache-2.0
// Log lines of the agent on stderr: time, who, what. Whoever starts a lead points it at
// lead.log.
#pragma once

#include <shardsweep/clock.hpp>

#include <string>
#include <string_view>

namespace shardsweep::agent {

class Log {
 public:
  Log(const Clock& clock, std::string who) : clock_(clock), who_(std::move(who)) {}
  void line(std::string_view text) const;

 private:
  const Clock& clock_;
  std::string who_;
};

}  // namespace shardsweep::agent
