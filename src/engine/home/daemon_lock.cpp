// SPDX-License-Identifier: Apache-2.0
// The daemon's lock: fcntl, because a flock is inherited by children and outlives a kill -9 of
// the daemon as long as one of them lives.
#include "machine/checked_folder.hpp"
#include "machine/host_name.hpp"
#include "machine/processes.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/daemon_lock.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace shardsweep {
namespace {

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Start time of a process; 0: no such process. Pid and start time name one process until a reboot.
std::int64_t start_of(std::int64_t pid) {
  const auto stat = process_stat(static_cast<pid_t>(pid));
  return stat && stat->state != 'Z' ? stat->start : 0;
}

/// File beside the lock: opening and closing the lock's own file would release the lock.
std::filesystem::path holder_file(const std::filesystem::path& lock) {
  return lock.string() + ".holder";
}

/// Names the holder for hosts that do not see this host's locks. A full disk is ignored.
void note_holder(const std::filesystem::path& lock) {
  const LeaseHolder self = this_process();
  (void)write_own_file(holder_file(lock),
      fmt::format("{} {} {} {} {}\n", self.host, self.boot_id, self.pid, self.pid_start,
          SHARDSWEEP_VERSION));
}

}  // namespace

Result<DaemonLock> DaemonLock::take(const std::filesystem::path& file, bool replace) {
  const std::string name = file.filename().string();
  const std::string target = replace ? fmt::format("{}.{}", name, ::getpid()) : name;
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(file));
  SHARDSWEEP_ASSIGN(Descriptor opened, folder.open_file(target, O_RDWR | O_CREAT));
  DaemonLock lock(opened.release());
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(lock.descriptor_, F_SETLK, &whole) != 0) {
    const bool held = errno == EACCES || errno == EAGAIN;
    return fault(held ? FaultKind::busy : FaultKind::unavailable,
        fmt::format("cannot lock '{}': {}", file.string(),
            held ? "another daemon holds it" : std::strerror(errno)));
  }
  if (replace) SHARDSWEEP_TRY(folder.rename(target, name));
  note_holder(file);
  return lock;
}

namespace {

struct Holder {
  LeaseHolder process;
  std::string version;  ///< empty: it is from before versions were noted
};

std::optional<Holder> noted_holder(const std::filesystem::path& file) {
  constexpr std::size_t most_bytes = 4096;
  const auto text = read_own_file(holder_file(file), most_bytes);
  if (!text) return std::nullopt;
  Holder holder;
  std::istringstream words(*text);
  LeaseHolder& process = holder.process;
  if (!(words >> process.host >> process.boot_id >> process.pid >> process.pid_start))
    return std::nullopt;
  words >> holder.version;
  return holder;
}

}  // namespace

std::optional<LeaseHolder> last_holder(const std::filesystem::path& file) {
  const auto holder = noted_holder(file);
  if (!holder) return std::nullopt;
  return holder->process;
}

std::string other_version_of_holder(const std::filesystem::path& file) {
  const auto holder = noted_holder(file);
  return holder && holder->version != SHARDSWEEP_VERSION ? holder->version : "";
}

DaemonLock::DaemonLock(DaemonLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

DaemonLock& DaemonLock::operator=(DaemonLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

DaemonLock::~DaemonLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::int64_t> lock_holder(const std::filesystem::path& file) {
  // Asking needs no permission to write: the home may be read-only by now.
  const auto opened = open_to_read(file);
  if (!opened) return std::nullopt;
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  const bool asked = ::fcntl(opened->get(), F_GETLK, &whole) == 0;
  if (!asked || whole.l_type == F_UNLCK) return std::nullopt;
  return whole.l_pid;
}

LeaseHolder this_process() {
  LeaseHolder self;
  self.host = host_name();
  self.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  self.pid = ::getpid();
  self.pid_start = start_of(self.pid);
  return self;
}

bool may_live(const LeaseHolder& holder) {
  if (holder.host != host_name()) return true;
  if (holder.boot_id != first_line("/proc/sys/kernel/random/boot_id")) return false;
  return start_of(holder.pid) == holder.pid_start && holder.pid_start != 0;
}

Result<void> end_holder(const LeaseHolder& holder) {
  constexpr int wait_ms = 5'000;
  if (holder.host != host_name()) {
    return fault(FaultKind::busy,
        "pid {} on {} is writing to the database. End it "
        "on that host, then use --take-over again.",
        holder.pid, holder.host);
  }
  if (!may_live(holder)) return {};
  if (!end_process({static_cast<pid_t>(holder.pid), holder.pid_start, ""}, wait_ms)) {
    return fault(
        FaultKind::busy, "pid {} is writing to the database and cannot be ended", holder.pid);
  }
  return {};
}

}  // namespace shardsweep
