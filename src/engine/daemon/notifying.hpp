// SPDX-License-Identifier: Apache-2.0
// Telling those who do not watch: sweeps by the addresses of their own site files, what
// concerns all of them by each address once.
#pragma once

#include "daemon/sweeps.hpp"
#include "fleet/notices.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardsweep {

class Notifying {
 public:
  Notifying(const DaemonParts& parts, World& world, Sweeps& sweeps)
      : parts_(parts), world_(world), sweeps_(sweeps) {}

  /// Takes changes that have just been committed.
  void see(const std::vector<Change>& committed);
  void look_failed(const std::string& why);
  void look_succeeded();
  void notify();
  /// True while a notice is being sent.
  [[nodiscard]] bool busy() const;
  [[nodiscard]] std::vector<pollfd> descriptors() const;

 private:
  void add_answers(Notice& notice, SweepId sweep);
  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Watcher watcher_;
  std::map<NotifySettings, std::unique_ptr<Notifier>> notifiers_;
};

}  // namespace shardsweep
