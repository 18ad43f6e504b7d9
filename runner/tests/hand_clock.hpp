// SPDX-License-Identifier: Apache-2.0
// A clock that tests move by hand, for real processes: fakes/clock.cpp, preloaded, takes the
// place of the system's. Time stands still until all of them wait for it: however busy the
// machine is, no deadline passes before everything that can happen without it has happened.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardbench {

/// A file that test and processes share.
struct SharedClock {
  static constexpr const char* file_variable = "SHARDBENCH_CLOCK";
  static constexpr const char* slot_variable = "SHARDBENCH_CLOCK_SLOT";
  std::int64_t monotonic_ns;  // time at which both clocks stand still
  std::int64_t real_ns;
  std::atomic<std::int64_t> ahead_ns;
  // True: a wait for time alone lasts until the test has moved the clock. False: it lasts as long
  // as it says.
  std::atomic<bool> moves;
  // Counts per process: upper half, returns of its main thread from a wait; lower half, looks of
  // the present wait that found nothing. 0 there: the process works.
  std::array<std::atomic<std::uint64_t>, 64> waits;
};

class HandClock {
 public:
  /// `preload`: the library that processes get.
  explicit HandClock(const std::string& preload);
  ~HandClock();
  HandClock(const HandClock&) = delete;
  HandClock& operator=(const HandClock&) = delete;

  /// For the next process, before it is forked.
  std::size_t next_slot();
  /// Called in the child.
  void adopt(std::size_t slot) const;
  void watch(std::size_t slot, pid_t pid);
  void forget(pid_t pid);
  /// At once, whatever the processes do.
  void pass(double seconds) { shared_->ahead_ns += static_cast<std::int64_t>(seconds * 1e9); }
  /// Lets time pass when nothing else can happen, until stand_still().
  void move() { shared_->moves = true; }
  void stand_still() { shared_->moves = false; }
  /// Moves the clock a little if every process waits, and has got all that was sent to it.
  void pass_if_all_wait();

 private:
  struct Process {
    std::size_t slot;
    pid_t pid;
    std::uint64_t waits = 0;  // value when all processes began to wait
  };
  std::string preload_;
  std::string file_;
  SharedClock* shared_ = nullptr;
  std::vector<Process> processes_;
  std::size_t slots_ = 0;
  bool all_waited_ = false;
};

}  // namespace shardbench
