// SPDX-License-Identifier: Apache-2.0
// A second thread that watches the first: beats into the flight recorder, and ends the process
// when a phase makes no progress within its deadline.
//
// Waits in collectives have deadlines of their own and report better; this one catches a rank
// that computes, sleeps or waits for something else for ever.
#pragma once

#include "base/error.hpp"
#include "measurement/recorder.hpp"

#include <atomic>
#include <functional>
#include <thread>

namespace shardbench {

class Watchdog {
 public:
  /// `on_expiry` is called on the watchdog's thread and must not touch what the main thread
  /// uses, but for files; the process leaves with class timeout after it.
  Watchdog(FlightRecorder& recorder, std::function<void(const Error&)> on_expiry);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// `phase` begins; it must end, or progress() be called, within `limit_s`. `phase` outlives
  /// it.
  void enter(const char* phase, double limit_s);
  void progress();

 private:
  void watch();
  void expire(double limit_s);

  FlightRecorder& recorder_;
  std::function<void(const Error&)> on_expiry_;
  std::atomic<const char*> phase_{"start"};
  std::atomic<double> limit_s_{0};  // 0: none
  std::atomic<double> since_s_{0};  // Unix time of the last progress
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// SIGQUIT writes a backtrace of the main thread to stderr; the process goes on.
void install_backtrace_handler();

}  // namespace shardbench
