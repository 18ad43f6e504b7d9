// SPDX-License-Identifier: Apache-2.0
#include "hand_clock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <new>
#include <utility>

namespace shardbench {
namespace {

// Twenty steps are the second at which a watchdog takes a jump for its own standstill; it looks
// more often.
constexpr std::int64_t step_ns = 50'000'000;

std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  (void)::clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

/// 'T' is stopped, 'Z' has ended.
char state_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? 'Z' : text[end + 2];
}

}  // namespace

HandClock::HandClock(const std::string& preload) : preload_(preload) {
  file_ = std::filesystem::temp_directory_path().string() + "/shardbench-clock.XXXXXX";
  const int descriptor = ::mkstemp(file_.data());
  if (descriptor < 0 || ::ftruncate(descriptor, sizeof(SharedClock)) != 0) std::abort();
  void* memory =
      ::mmap(nullptr, sizeof(SharedClock), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (memory == MAP_FAILED) std::abort();
  shared_ = new (memory) SharedClock{};
  shared_->monotonic_ns = now_ns(CLOCK_MONOTONIC);
  shared_->real_ns = now_ns(CLOCK_REALTIME);
}

HandClock::~HandClock() {
  (void)::munmap(shared_, sizeof(SharedClock));
  (void)::unlink(file_.c_str());
}

std::size_t HandClock::next_slot() {
  const std::size_t slot = slots_++ % shared_->waits.size();
  shared_->waits[slot] = 0;
  return slot;
}

void HandClock::adopt(std::size_t slot) const {
  (void)::setenv("LD_PRELOAD", preload_.c_str(), 1);
  (void)::setenv(SharedClock::file_variable, file_.c_str(), 1);
  (void)::setenv(SharedClock::slot_variable, std::to_string(slot).c_str(), 1);
  // The sanitizer's runtime wants to be the first library, without a reason here.
  const char* options = std::getenv("ASAN_OPTIONS");
  const std::string own = options == nullptr ? "" : std::string(options) + ":";
  (void)::setenv("ASAN_OPTIONS", (own + "verify_asan_link_order=0").c_str(), 1);
}

void HandClock::watch(std::size_t slot, pid_t pid) {
  processes_.push_back({slot, pid});
  all_waited_ = false;
}

void HandClock::forget(pid_t pid) {
  std::erase_if(processes_, [pid](const Process& one) { return one.pid == pid; });
}

/// Lets time pass if all processes wait at one moment, and each then looks twice and finds nothing.
/// Messages from before that moment have arrived then, and none was sent since.
void HandClock::pass_if_all_wait() {
  constexpr std::uint64_t lower_half = 0xffffffff;
  bool same = all_waited_;
  bool twice = true;
  std::vector<std::pair<Process*, std::uint64_t>> now;
  for (Process& one : processes_) {
    const char state = state_of(one.pid);
    if (state == 'T' || state == 'Z') continue;
    const std::uint64_t waits = shared_->waits[one.slot];
    if ((waits & lower_half) == 0) {
      all_waited_ = false;
      return;
    }
    same = same && (waits & ~lower_half) == (one.waits & ~lower_half);
    twice = twice && waits >= one.waits + 2;
    now.emplace_back(&one, waits);
  }
  if (now.empty() || (same && !twice)) return;
  all_waited_ = !same;
  if (same) {
    shared_->ahead_ns += step_ns;
    return;
  }
  for (const auto& [one, waits] : now)
    one->waits = waits;
}

}  // namespace shardbench
