// SPDX-License-Identifier: Apache-2.0
// The schedulers, one for each way in which sweeps reach their nodes: when each is looked at,
// what it is asked about its site, what it has answered of that.
#pragma once

#include "daemon/sweeps.hpp"
#include "fleet/decide.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardsweep {

class Sites {
 public:
  /// Keyed by scheduler: see key_of().
  using Handles = std::map<std::string, std::vector<AllocationHandle>>;
  using Take = std::function<void(const std::string& key, const SchedulerEvent& event)>;

  Sites(const DaemonParts& parts, World& world, Sweeps& sweeps)
      : parts_(parts), world_(world), sweeps_(sweeps) {}

  /// The backend and, for slurmrestd, its address.
  [[nodiscard]] std::string key_of(Backend backend, SweepId sweep) const;
  [[nodiscard]] Scheduler& of(Backend backend, SweepId sweep);
  /// Looks at each scheduler whose time has come, and takes what has been answered.
  void look(const Handles& handles, const Take& take);
  void poll(const Take& take);
  /// Adds the site's answers that a sweep's limits depend on.
  void add_facts(const SweepContext& context, const SweepRow& sweep, SweepFacts& facts) const;
  /// Grows with what sites have told about themselves.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] bool settling() const;
  [[nodiscard]] std::vector<pollfd> descriptors() const;

 private:
  using Steady = std::chrono::steady_clock::time_point;
  void poll(const std::string& key, Scheduler& scheduler, const Take& take);
  void take_site(const std::string& key, const SiteSeen& site);
  void ask();
  [[nodiscard]] double answer_limit_s(const std::string& key) const;
  [[nodiscard]] double look_interval_s(const std::string& key, const Scheduler& scheduler) const;

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  std::map<std::string, std::unique_ptr<Scheduler>> schedulers_;
  std::map<std::string, Steady> last_look_;
  std::map<std::string, SiteFacts> facts_;
  std::uint64_t version_ = 1;
};

}  // namespace shardsweep
