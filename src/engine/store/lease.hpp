// SPDX-License-Identifier: Apache-2.0
// The lease: who writes. The fcntl lock (daemon_lock.hpp) keeps a second daemon away; the epoch
// keeps a daemon away that slept through a takeover, whatever the lock says.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/store.hpp>

#include <optional>

namespace shardsweep::sqlite {

[[nodiscard]] std::optional<LeaseHolder> lease_holder(Database& database);

class Lease {
 public:
  explicit Lease(Database& database);
  LeaseHolder take(LeaseHolder claim);
  void renew(Timestamp now);
  void release();
  /// Throws `rejected` where the lease is not ours. To be asked within the transaction that
  /// writes, or the answer is worth nothing.
  void check();

 private:
  Database& database_;
  Statement epoch_of_;
  std::int64_t epoch_ = 0;  ///< 0: not taken
};

}  // namespace shardsweep::sqlite
