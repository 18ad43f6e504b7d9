// SPDX-License-Identifier: Apache-2.0
// An allocation of a test's own with its real lead on this machine.
#pragma once

#include "programs/agent/daemon_side.hpp"

#include <map>

namespace shardsweep::test {

class Allocation : public DaemonSide {
 public:
  Allocation();
  ~Allocation() override;

  std::map<std::string, std::string> environment;  ///< of the lead, besides our own

  void start();
  /// A program of that name comes first on the lead's PATH. `script` follows #!/bin/sh.
  void put_on_path(const std::string& name, const std::string& script);
  /// Exit code of the lead, -signal, or none within the limit.
  [[nodiscard]] std::optional<int> wait_exit(double limit_s = 20);

  [[nodiscard]] pid_t lead() const { return lead_; }
  [[nodiscard]] pid_t guard() const;
  [[nodiscard]] pid_t node_agent() const;

 private:
  pid_t lead_ = 0;
  std::optional<int> exit_;
};

}  // namespace shardsweep::test
