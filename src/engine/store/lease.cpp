// SPDX-License-Identifier: Apache-2.0
#include "store/lease.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::sqlite {

std::optional<LeaseHolder> lease_holder(Database& database) {
  Statement select(database,
      "SELECT host, boot_id, pid, pid_start, since, renewed, epoch FROM lease WHERE held = 1");
  auto row = select.use();
  if (!row.next()) return std::nullopt;
  return LeaseHolder{row.text(0), row.text(1), row.integer(2), row.integer(3), row.integer(4),
      row.integer(5), row.integer(6)};
}

Lease::Lease(Database& database)
    : database_(database), epoch_of_(database, "SELECT epoch * held, host, pid FROM lease") {}

LeaseHolder Lease::take(LeaseHolder claim) {
  Transaction transaction(database_);
  claim.epoch = std::max(database_.integer("SELECT epoch FROM lease"), claim.epoch) + 1;
  Statement(database_,
      "UPDATE lease SET held = 1, host = ?, boot_id = ?, pid = ?, pid_start = ?, since = ?, "
      "renewed = ?, epoch = ?")
      .run(claim.host, claim.boot_id, claim.pid, claim.pid_start, claim.since, claim.renewed,
          claim.epoch);
  transaction.commit();
  epoch_ = claim.epoch;
  return claim;
}

void Lease::renew(Timestamp now) {
  Transaction transaction(database_);
  check();
  Statement(database_, "UPDATE lease SET renewed = ?").run(now);
  transaction.commit();
}

void Lease::release() {
  Transaction transaction(database_);
  check();
  database_.execute("UPDATE lease SET held = 0");
  transaction.commit();
  epoch_ = 0;
}

void Lease::check() {
  // A request that was served into a file without a name would be answered, and lost.
  if (database_.has_moved()) {
    fail(FaultKind::rejected,
        "{} was removed, renamed or replaced after it was opened: further writes would be lost",
        database_.name());
  }
  auto row = epoch_of_.use();
  const bool found = row.next();
  if (epoch_ != 0 && found && row.integer(0) == epoch_) return;
  if (epoch_ == 0) fail(FaultKind::rejected, "this process does not hold the database's lease");
  fail(FaultKind::rejected,
      "the lease with epoch {} was taken over by pid {} on {}: nothing is written any more", epoch_,
      row.integer(2), row.view(1));
}

}  // namespace shardsweep::sqlite
