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
  /// Makes the scheduler of a site; called once for each way in which sweeps reach their nodes.
  std::function<std::unique_ptr<Scheduler>(Backend backend, const SiteSpec&)> make_scheduler;
  std::function<std::unique_ptr<Notifier>(const NotifySettings&)> make_notifier;
  /// Hash of the source tree of a sweep's programs as it is now. Takes a snapshot unless the hash
  /// is `known`. Unset: nobody watches trees.
  std::function<Result<std::string>(const SweepSpec&, const std::string& known)> take_tree{};
  std::function<std::string(int digits)> random_hex;
  Policy policy;      ///< policy of the daemon itself; each sweep brings its own
  bool stays = true;  ///< false: it makes one pass and ends
};

}  // namespace shardsweep
