// SPDX-License-Identifier: Apache-2.0
// Port: notices to a user who is away. No call blocks, and a failed notice fails no sweep.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/sweep.hpp>

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

namespace shardsweep {

/// Message for a user.
struct Notice {
  NotifyEvent event = NotifyEvent::sweep_ended;
  std::string sweep;  ///< name; empty: none in particular
  std::string text;   ///< one sentence
  Timestamp at = 0;
};

class Notifier {
 public:
  virtual ~Notifier() = default;
  virtual void send(const Notice& notice) = 0;
  /// Sends on; returns lines for the log, which never contain the address beyond its host, nor a
  /// header.
  [[nodiscard]] virtual std::vector<std::string> poll() = 0;
  /// True while a notice is being sent or waits for another try.
  [[nodiscard]] virtual bool busy() const = 0;
  [[nodiscard]] virtual std::vector<pollfd> descriptors() const = 0;
};

/// A webhook: JSON with Slack's `text` and the notice's parts. A notice is tried a few times
/// and then dropped with a word in the log. `clock` outlives it.
[[nodiscard]] std::unique_ptr<Notifier> make_webhook(
    const NotifySettings& settings, const Clock& clock);

}  // namespace shardsweep
