// SPDX-License-Identifier: Apache-2.0
// A descriptor that stands for one process, whatever becomes of its pid (Linux 5.3). By system
// call: glibc 2.36 declares them without C linkage.
#pragma once

#include "machine/descriptor.hpp"

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace shardsweep {

[[nodiscard]] inline Descriptor open_pidfd(pid_t pid) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}
[[nodiscard]] inline bool send_signal(const Descriptor& process, int signal) {
  return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

}  // namespace shardsweep
