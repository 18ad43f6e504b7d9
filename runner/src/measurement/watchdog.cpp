// SPDX-License-Identifier: Apache-2.0
#include "measurement/watchdog.hpp"

#include "base/clock.hpp"
#include "base/signals.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

namespace shardbench {
namespace {

constexpr int beat_ms = 100;

// Restrict this handler to async-signal-safe calls: backtrace was called once before, so that its
// library is loaded.
void write_backtrace(int) {
  const int saved = errno;
  constexpr std::string_view title = "shardbench: backtrace (SIGQUIT)\n";
  std::array<void*, 64> frames{};
  (void)!::write(STDERR_FILENO, title.data(), title.size());
  ::backtrace_symbols_fd(
      frames.data(), ::backtrace(frames.data(), static_cast<int>(frames.size())), STDERR_FILENO);
  errno = saved;
}

}  // namespace

void install_backtrace_handler() {
  std::array<void*, 4> frames{};
  (void)::backtrace(frames.data(), static_cast<int>(frames.size()));
  struct sigaction action {};
  action.sa_handler = write_backtrace;
  action.sa_flags = SA_RESTART;
  (void)::sigaction(SIGQUIT, &action, nullptr);
}

Watchdog::Watchdog(FlightRecorder& recorder, std::function<void(const Error&)> on_expiry)
    : recorder_(recorder), on_expiry_(std::move(on_expiry)), since_s_(unix_time_s()) {
  const SignalBlock blocked;
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  stopping_ = true;
  thread_.join();
}

void Watchdog::enter(const char* phase, double limit_s) {
  phase_ = phase;
  since_s_ = unix_time_s();
  limit_s_ = limit_s;
}

void Watchdog::progress() {
  since_s_ = unix_time_s();
}

void Watchdog::watch() {
  double last = unix_time_s();
  while (!stopping_) {
    recorder_.beat();
    sleep_ms(beat_ms);
    const double time = unix_time_s();
    // Time that this thread did not see either was spent suspended: nobody's hang.
    if (time - last > 10 * beat_ms * 1e-3) since_s_ = since_s_ + (time - last);
    last = time;
    const double limit_s = limit_s_;
    if (limit_s > 0 && time - since_s_ > limit_s) expire(limit_s);
  }
}

void Watchdog::expire(double limit_s) {
  const Error error{.kind = ErrorClass::timeout,
      .message = "no progress in phase " + std::string(phase_.load()) + " within " +
          std::to_string(limit_s) + " s"};
  std::fprintf(stderr, "shardbench: timeout: %s\n", error.message.c_str());
  on_expiry_(error);
  _exit(exit_code(error.kind));
}

}  // namespace shardbench
