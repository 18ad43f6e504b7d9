// SPDX-License-Identifier: Apache-2.0
// Decision: A webhook is told one notice at a time, a few times. Its secrets are in no database
// and no log.
#include "daemon/notifying.hpp"

#include "answer/best_text.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace shardsweep {

void Notifying::see(const std::vector<Change>& committed) {
  watcher_.see(world_, committed, parts_.clock.now());
}
void Notifying::look_failed(const std::string& why) {
  watcher_.look_failed(why, parts_.clock.now());
}
void Notifying::look_succeeded() {
  watcher_.look_succeeded(parts_.clock.now());
}

/// Adds the winners and their certainty for readers who are away.
void Notifying::add_answers(Notice& notice, SweepId sweep) {
  if (notice.event != NotifyEvent::sweep_ended) return;
  const auto cells = parts_.store.best_of_cells(sweep);
  if (!cells) return log_warning(fmt::format("notify: {}", cells.error().what));
  notice.text = ended_text(notice.text, *cells);
}

void Notifying::notify() {
  auto notices = watcher_.take(world_, parts_.policy, parts_.clock.now());
  if (!notices.empty()) fail_point("daemon.notify");
  if (parts_.make_notifier && !notices.empty()) {
    std::set<NotifySettings> wanted;
    for (const auto& [id, sweep] : world_.sweeps()) {
      const NotifySettings& settings = sweeps_.site_of(sweep.id).notify;
      if (!settings.wanted()) continue;
      for (Notice notice : notices) {
        const bool asked = std::find(settings.events.begin(), settings.events.end(),
                               notice.event) != settings.events.end();
        const bool own = notice.sweep == sweep.name;
        // A notice of no sweep goes once to every address.
        const bool first = notice.sweep.empty() && wanted.count(settings) == 0;
        if (!asked || !(own || first)) continue;
        if (own) add_answers(notice, sweep.id);
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

bool Notifying::busy() const {
  return std::any_of(
      notifiers_.begin(), notifiers_.end(), [](const auto& entry) { return entry.second->busy(); });
}

std::vector<pollfd> Notifying::descriptors() const {
  std::vector<pollfd> all;
  for (const auto& [settings, notifier] : notifiers_) {
    const auto more = notifier->descriptors();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace shardsweep
