// SPDX-License-Identifier: Apache-2.0
// Port: who gives nodes. Nothing in it blocks: what is asked is answered later by poll().
#pragma once

#include <shardsweep/result.hpp>

#include <poll.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace shardsweep {

/// One allocation to be had. The token is committed before this is submitted.
struct AllocationRequest {
  std::string token;
  std::string job_name;  ///< readable, ends with the token
  std::filesystem::path dir;
  std::filesystem::path agent;  ///< absolute path of shardsweep-agent
  int nodes = 1;
  double time_limit_s = 0;  ///< 0: none
};

/// How a submitted allocation is known again.
struct AllocationHandle {
  std::string token;
  std::string job_id;  ///< empty where the answer to the submission was never read
  std::filesystem::path dir;
};

enum class JobState : std::uint8_t { pending, running, ended, unknown };

struct SubmitAccepted {
  std::string token;
  std::string job_id;
};
/// It may have happened: to be looked up by token before anything else.
struct SubmitUnknown {
  std::string token;
  std::string why;
};
struct SubmitRefused {
  std::string token;
  std::string why;
};
struct JobSeen {
  std::string token;
  std::string job_id;
  JobState state = JobState::unknown;
  std::string detail;  ///< the scheduler's own words
};
/// A clean look found no such job. Never to be read as "completed".
struct JobNotSeen {
  std::string token;
};
struct LookFailed {
  std::string why;
};
using SchedulerEvent =
    std::variant<SubmitAccepted, SubmitUnknown, SubmitRefused, JobSeen, JobNotSeen, LookFailed>;

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  virtual void submit(const AllocationRequest& request) = 0;
  /// Ends it; looking tells when it is gone.
  virtual void cancel(const AllocationHandle& handle) = 0;
  /// Asks for all of these at once.
  virtual void look(const std::vector<AllocationHandle>& handles) = 0;
  /// Seconds between two looks: what asking costs the other side decides.
  [[nodiscard]] virtual double look_interval_s() const = 0;
  /// What has been learnt since the last call.
  [[nodiscard]] virtual std::vector<SchedulerEvent> poll() = 0;
  /// True while an answer is on its way that a single pass should wait for.
  [[nodiscard]] virtual bool settling() const { return false; }
  /// Descriptors whose readiness makes a poll() worthwhile.
  [[nodiscard]] virtual std::vector<pollfd> descriptors() const { return {}; }
};

}  // namespace shardsweep
