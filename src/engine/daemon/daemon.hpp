// SPDX-License-Identifier: Apache-2.0
// The daemon's tick: serve requests, observe, fold, decide, commit, act. One thread; nothing in
// a tick blocks. It is the database's one writer. The tick only sequences: who does the work
// owns the state for it.
#pragma once

#include "daemon/acts.hpp"
#include "daemon/deciding.hpp"
#include "daemon/desk.hpp"
#include "daemon/jobs.hpp"
#include "daemon/outside.hpp"
#include "daemon/stops.hpp"
#include "fleet/row_rules.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace shardsweep {

class Daemon {
 public:
  explicit Daemon(DaemonParts parts);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Reads what is not over. The lease is held already.
  [[nodiscard]] Result<void> load();

  /// A fault that says so if jobs of this database work in another one's folder.
  [[nodiscard]] Result<void> refuse_copy() const;
  /// Lets go of these jobs.
  [[nodiscard]] Result<void> forget_others();

  /// One pass. A fault of kind `rejected` means that another daemon has taken over: write no
  /// more.
  [[nodiscard]] Result<void> tick();

  /// Answers what has been asked for, and does nothing else: nothing is started, and no
  /// scheduler is asked.
  [[nodiscard]] Result<void> serve();
  /// A part of what has been asked for is left for the next time.
  [[nodiscard]] bool serving() const { return desk_.serving() || desk_.has_unsent(); }

  /// True if something runs, waits to run, or has been asked for.
  [[nodiscard]] bool busy() const;
  /// True if nothing is left to do. The database decides that, not this daemon's memory: if the two
  /// differ, the database is read again.
  [[nodiscard]] Result<bool> nothing_left();
  [[nodiscard]] bool asked_to_stop() const { return desk_.asked_to_stop(); }
  /// An answer of a scheduler, or a notice, is on its way that a single pass should wait for.
  [[nodiscard]] bool settling() const { return sites_.settling() || notifying_.busy(); }
  /// Descriptors whose readiness makes a tick worthwhile.
  [[nodiscard]] std::vector<pollfd> descriptors() const;
  /// Time until the next tick is due.
  [[nodiscard]] std::chrono::milliseconds pause() const;

 private:
  using Steady = std::chrono::steady_clock::time_point;
  /// Runs `work`. If the daemon contradicts itself there, returns a fault and leaves a report in
  /// the home.
  template <class Work>
  [[nodiscard]] std::invoke_result_t<Work> guarded(Work work);
  [[nodiscard]] Result<void> pass();
  [[nodiscard]] Result<void> renew_lease();
  void follow_clock();
  void observe();
  /// Reads the leads' lines, and takes back points whose lease is over.
  void listen();
  [[nodiscard]] Result<void> commit();
  [[nodiscard]] Result<void> reload();
  [[nodiscard]] Result<bool> look_for_work();
  void forget_ended();

  DaemonParts parts_;
  World world_;
  Sweeps sweeps_;
  Stops stops_;
  Samples samples_;
  Health health_;
  Channels channels_;
  PatientRecords records_;
  Leads leads_;
  Sites sites_;
  Notifying notifying_;
  Jobs jobs_;
  Deciding deciding_;
  Acts acts_;
  Outside outside_;
  RequestDesk desk_;
  Sites::Take take_;  ///< takes the answers of schedulers
  std::string boot_id_;
  std::uint64_t forgotten_ = 0;  ///< version of the world: what had ended in it was forgotten
  std::optional<Steady> last_renewal_;
  std::optional<Steady> last_tick_;
};

}  // namespace shardsweep
