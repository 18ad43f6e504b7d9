// SPDX-License-Identifier: Apache-2.0
// An owned file descriptor, of a file or of a process, and errno as a Fault. Every descriptor
// is opened O_CLOEXEC: what we start inherits none of them.
#pragma once

#include <shardsweep/result.hpp>

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool valid() const { return number_ >= 0; }
  /// Gives the descriptor up; the caller closes it.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  void reset() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

/// "what: No such file or directory".
[[nodiscard]] inline Fault errno_fault(std::string_view what, int error = errno) {
  return {FaultKind::unavailable, std::string(what) + ": " + std::strerror(error)};
}
[[nodiscard]] inline tl::unexpected<Fault> errno_error(std::string_view what, int error = errno) {
  return tl::unexpected(errno_fault(what, error));
}

// A descriptor that stands for one process, whatever becomes of its pid (Linux 5.3). By system
// call: glibc 2.36 declares them without C linkage.

[[nodiscard]] inline Descriptor open_pidfd(pid_t pid) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}
[[nodiscard]] inline bool send_signal(const Descriptor& process, int signal) {
  return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

}  // namespace shardsweep
