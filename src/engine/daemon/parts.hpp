// SPDX-License-Identifier: Apache-2.0
// What the daemon works with; none of it is the daemon's own.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/notifier.hpp>
#include <shardsweep/scheduler.hpp>
#include <shardsweep/store.hpp>

#include <functional>
#include <memory>
#include <string>

namespace shardsweep {

struct DaemonParts {
  Home home;
  Installation installation;
  Store& store;
  const Clock& clock;
  /// Asked once for every way in which sweeps reach their nodes.
  std::function<std::unique_ptr<Scheduler>(Backend backend, const SiteSpec&)> make_scheduler;
  std::function<std::unique_ptr<Notifier>(const NotifySettings&)> make_notifier;
  /// The snapshot of the tree that a sweep's programs are in, as it is now, by its hash; it is
  /// taken unless it is `known`. Unset: nobody looks.
  std::function<Result<std::string>(const SweepSpec&, const std::string& known)> take_tree{};
  std::function<std::string(int digits)> random_hex;
  Policy policy;      ///< policy of the daemon itself; each sweep brings its own
  bool stays = true;  ///< false: it makes one pass and ends
};

}  // namespace shardsweep
