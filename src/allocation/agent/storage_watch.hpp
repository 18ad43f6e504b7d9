// SPDX-License-Identifier: Apache-2.0
// Records, logs and recorders of an attempt lie on a file system: once that is full, what the
// ranks do says nothing of the layout. It is asked once a second while they run, and written to
// at the end if the attempt has failed, since a quota shows only to those who write.
#pragma once

#include "agent/attempt_here.hpp"

#include <shardsweep/storage.hpp>

#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

class StorageWatch {
 public:
  explicit StorageWatch(const AttemptHere& here) : here_(here) {}

  /// A rank of `ranks` that prints without end, which would fill what others need too.
  [[nodiscard]] std::optional<Evidence> look(const std::vector<int>& ranks);
  /// Why the files of a failed attempt could not be written; empty: they could.
  [[nodiscard]] std::string judge();

 private:
  const AttemptHere& here_;
  std::optional<StorageFault> fault_;  ///< seen while it ran
  double looked_at_s_ = 0;
};

}  // namespace shardsweep::agent
