// SPDX-License-Identifier: Apache-2.0
// A second thread that stands in for the first one while that stands in a call of NCCL.
//
// Communicators that block hand work to the GPU within the call, at 5 to 10 us of the host;
// others start a thread for each operation, at 20 to 60. A call that blocks ends soon, unless a
// peer is gone or NCCL has to connect. So when one takes long, this thread hears the peers and
// looks at the limit; whichever fails, the communicators are aborted from here, which ends the
// call.
#pragma once

#include "base/clock.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace shardbench {

class CallGuard {
 public:
  /// `look` hears the peers, and fails if one did; `too_late` fails with what the call was for.
  CallGuard(std::function<void()> look, std::function<void(const std::string& what)> too_late,
      double limit_s);
  ~CallGuard();
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  /// `call`, in which nothing but NCCL is touched.
  template <typename Call>
  auto during(const std::string& what, const Call& call) {
    enter(what);
    const auto result = call();
    leave();
    return result;
  }

 private:
  void enter(const std::string& what);
  void leave();
  void watch();

  std::function<void()> look_;
  std::function<void(const std::string&)> too_late_;
  double limit_s_;
  /// Held by the thread that may touch sockets and fail: by the first one but for its calls.
  std::mutex turn_;
  const std::string* what_ = nullptr;  // name of the call under way
  TimePoint since_{};
  unsigned calls_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace shardbench
