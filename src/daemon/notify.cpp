// SPDX-License-Identifier: Apache-2.0
// Telling those who do not watch: sweeps by the addresses of their own site files, what
// concerns all of them by each address once.
#include "daemon/daemon.hpp"

#include <shardsweep/log.hpp>

#include <algorithm>

namespace shardsweep {

void Daemon::notify() {
  const auto notices = watcher_.take(world_, parts_.policy, parts_.clock.now());
  if (parts_.make_notifier && !notices.empty()) {
    std::set<NotifySettings> wanted;
    for (const auto& [id, sweep] : world_.sweeps()) {
      const auto context = contexts_.find(sweep.id);
      if (context == contexts_.end()) continue;
      const NotifySettings& settings = context->second.site.notify;
      if (!settings.wanted()) continue;
      for (const Notice& notice : notices) {
        const bool asked = std::find(settings.events.begin(), settings.events.end(),
                                     notice.event) != settings.events.end();
        const bool own = notice.sweep == sweep.name;
        // What is nobody's own is told once by every address.
        const bool first = notice.sweep.empty() && wanted.count(settings) == 0;
        if (!asked || !(own || first)) continue;
        auto& notifier = notifiers_[settings];
        if (!notifier) notifier = parts_.make_notifier(settings);
        notifier->send(notice);
      }
      wanted.insert(settings);
    }
  }
  for (auto& [settings, notifier] : notifiers_) {
    for (const std::string& line : notifier->poll())
      log_warning(line);
  }
}

bool Daemon::is_telling() const {
  return std::any_of(notifiers_.begin(), notifiers_.end(),
                     [](const auto& entry) { return entry.second->busy(); });
}

}  // namespace shardsweep
