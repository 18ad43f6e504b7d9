// SPDX-License-Identifier: Apache-2.0
// Port: one daemon per database. An fcntl lock tells on one host (and on network file systems
// that honour it); the lease in the database tells everywhere.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/store.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shardsweep {

/// Held until destroyed or until the process ends, however it ends. Not inherited by children.
class DaemonLock {
 public:
  /// `busy` if somebody holds it. `replace`: puts a new lock file in place of one whose
  /// holder is stopped or unreachable; the lease's epoch then keeps the old holder from
  /// writing.
  [[nodiscard]] static Result<DaemonLock> take(const std::filesystem::path& file, bool replace);
  DaemonLock(DaemonLock&& other) noexcept;
  DaemonLock& operator=(DaemonLock&& other) noexcept;
  DaemonLock(const DaemonLock&) = delete;
  DaemonLock& operator=(const DaemonLock&) = delete;
  ~DaemonLock();

 private:
  explicit DaemonLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

/// The process that holds the lock; none if nobody does or the file is not there. Not to be
/// asked by a process that holds it itself: closing any descriptor of the file gives it up.
[[nodiscard]] std::optional<std::int64_t> lock_holder(const std::filesystem::path& file);

/// Holder who took the lock last, on whatever host; none: not written down. Its times are 0.
[[nodiscard]] std::optional<LeaseHolder> last_holder(const std::filesystem::path& file);

/// The version of the program that took the lock last, if it is another one than ours.
[[nodiscard]] std::string other_version_of_holder(const std::filesystem::path& file);

/// This process as a holder of leases; times are 0.
[[nodiscard]] LeaseHolder this_process();
/// False if the holder is on this host and surely gone; true if it lives or can't be
/// told.
[[nodiscard]] bool may_live(const LeaseHolder& holder);
/// Kills a holder that was stopped in the middle of a write. Until it ends no other process can
/// write; its unfinished write is then rolled back. `busy` if it is on another host or stays.
[[nodiscard]] Result<void> end_holder(const LeaseHolder& holder);

}  // namespace shardsweep
