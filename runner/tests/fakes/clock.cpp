// SPDX-License-Identifier: Apache-2.0
// Preloaded into a process: its clocks stand still until a test moves them (hand_clock.hpp),
// and poll(2) waits by them. A wait for time alone takes as long as it says.
#undef _FORTIFY_SOURCE  // the fortified headers define poll, as this file does
#include "../hand_clock.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

using shardbench::SharedClock;
using Poll = int (*)(pollfd*, nfds_t, int);

constexpr int look_ms = 5;
constexpr std::int64_t second_ns = 1'000'000'000;

SharedClock* shared = nullptr;
std::atomic<std::uint64_t>* waits = nullptr;
pid_t owner = 0;  // main process; its children share all this and are left out
// No two times are equal, as on any machine.
std::atomic<std::int64_t> asked_ns{0};

Poll system_poll() {
  static const auto found = reinterpret_cast<Poll>(::dlsym(RTLD_NEXT, "poll"));
  return found;
}

__attribute__((constructor)) void begin() {
  const char* file = std::getenv(SharedClock::file_variable);
  const char* slot = std::getenv(SharedClock::slot_variable);
  if (file == nullptr || slot == nullptr) return;
  const int descriptor = ::open(file, O_RDWR | O_CLOEXEC);
  void* memory =
      ::mmap(nullptr, sizeof(SharedClock), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (memory == MAP_FAILED) std::abort();
  auto* clock = static_cast<SharedClock*>(memory);
  waits = &clock->waits.at(static_cast<std::size_t>(std::atoi(slot)));
  owner = ::getpid();
  shared = clock;
}

bool is_main_thread() {
  return ::getpid() == owner && ::syscall(SYS_gettid) == owner;
}

int wait(pollfd* watched, nfds_t count, int timeout_ms) {
  if (shared == nullptr || timeout_ms == 0) return system_poll()(watched, count, timeout_ms);
  const bool counts = is_main_thread();
  const std::int64_t start_ns = shared->ahead_ns;
  int slept_ms = 0;
  int answer = 0;
  while (true) {
    answer = system_poll()(watched, count, look_ms);
    if (answer != 0) break;
    if (counts) ++*waits;
    slept_ms += look_ms;
    const std::int64_t passed_ms = (shared->ahead_ns - start_ns) / 1'000'000;
    // Other threads beat at their own pace, and the main one may wait for them.
    const bool slept = count == 0 && (!counts || !shared->moves) && slept_ms >= timeout_ms;
    if (timeout_ms > 0 && (slept || passed_ms >= timeout_ms)) break;
  }
  if (counts) *waits = ((*waits >> 32) + 1) << 32;
  return answer;
}

}  // namespace

extern "C" {

int poll(pollfd* watched, nfds_t count, int timeout_ms) {
  return wait(watched, count, timeout_ms);
}

// Name of poll with _FORTIFY_SOURCE.
int __poll_chk(pollfd* watched, nfds_t count, int timeout_ms, std::size_t /*bytes*/) {
  return wait(watched, count, timeout_ms);
}

int clock_gettime(clockid_t clock, timespec* now) {
  const bool ours = clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME;
  if (shared == nullptr || !ours) return static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  const std::int64_t base = clock == CLOCK_MONOTONIC ? shared->monotonic_ns : shared->real_ns;
  const std::int64_t at = base + shared->ahead_ns + (asked_ns += 10);
  now->tv_sec = at / second_ns;
  now->tv_nsec = at % second_ns;
  return 0;
}

}  // extern "C"
