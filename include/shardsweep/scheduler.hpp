// SPDX-License-Identifier: Apache-2.0
// Port: the scheduler, which gives nodes. No call blocks: poll() returns the answers later.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/words.hpp>

#include <poll.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsweep {

/// One allocation to be had. The token is committed before this is submitted.
struct AllocationRequest {
  std::string token;
  std::string job_name;  ///< readable, ends with the token
  std::filesystem::path dir;
  std::filesystem::path agent;   ///< absolute path of shardsweep-agent
  std::filesystem::path script;  ///< the rendered job script; empty if none is needed
  double limit_s = 150;          ///< limit for the scheduler's answer
  double deadline_in_s = 0;      ///< time by which it has ended or does not start; 0: no matter
  bool strict = false;           ///< held until its id is committed: released by release()
};

/// Stored text.
enum class JobState : std::uint8_t { pending, running, ended, unknown };
SHARDSWEEP_WORDS(JobState, "pending", "running", "ended", "unknown");

/// Part that clean looks have not found: the job itself, or why it has ended. Stored text;
/// `nothing` is the empty word.
enum class Missing : std::uint8_t { nothing, job, account };
SHARDSWEEP_WORDS(Missing, "", "job", "account");

/// Person who keeps a job from running, apart from what the job waits for. Stored text; `nobody` is
/// the empty word.
enum class Hold : std::uint8_t { nobody, user, suspended };
SHARDSWEEP_WORDS(Hold, "", "user", "suspended");

/// How a submitted allocation is known again.
struct AllocationHandle {
  std::string token;
  std::string job_name;  ///< unique: it ends with the token
  std::string job_id;    ///< empty if the answer to the submission was never read
  std::filesystem::path dir;
  Timestamp created_at = 0;
  bool claimed = false;                ///< a lead has claimed it
  bool waits = false;                  ///< the last look has seen its job in the queue
  Missing missing = Missing::nothing;  ///< part that the look before has not found
  double missing_for_s = 0;            ///< time since the first look that did not find it
};

/// Questions about a site beside our own jobs: each has its price.
struct SiteQuestions {
  bool partitions = false;  ///< how large they are: asked anyway, but something depends on it
  bool others = false;      ///< how many jobs of others wait for their nodes
  double others_s = 60;     ///< interval between two such questions
  double answer_limit_s = 10;
  friend bool operator==(const SiteQuestions&, const SiteQuestions&) = default;
};
/// Nodes of a partition with equal GPUs and memory.
struct NodesAlike {
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;       ///< GPUs of each node
  std::int64_t memory_mb = 0;  ///< memory of each node; 0: not told
  std::int64_t idle = 0;       ///< number of them on which nothing ran as they were asked for
  friend bool operator==(const NodesAlike&, const NodesAlike&) = default;
};
struct PartitionFacts {
  std::int32_t nodes = 0;
  std::int32_t others_waiting = 0;
  std::vector<NodesAlike> alike{};  ///< empty: not told
  double longest_s = 0;             ///< wall time of a job; 0: as long as it likes, or not told
  friend bool operator==(const PartitionFacts&, const PartitionFacts&) = default;
};
/// One association of ours.
struct AccountFacts {
  std::optional<std::int64_t> most_jobs{};  ///< limit of jobs in the queue at once; none: no limit
  std::string default_qos{};
  friend bool operator==(const AccountFacts&, const AccountFacts&) = default;
};
struct SiteFacts {
  bool partitions_known = false;
  bool others_known = false;
  std::string default_partition{};
  std::map<std::string, PartitionFacts> partitions{};
  Timestamp idle_at = 0;  ///< time of the question how many nodes are idle; 0: not asked
  std::string default_account{};
  std::map<std::string, AccountFacts> accounts{};
  std::map<std::string, std::int64_t> most_jobs_by_qos{};  ///< limits by QOS, if there are any
  friend bool operator==(const SiteFacts&, const SiteFacts&) = default;
};

struct SubmitAccepted {
  std::string token;
  std::string job_id;
};
/// The submission may have happened: to be looked up by token before anything else.
struct SubmitUnknown {
  std::string token;
  std::string why;
};
struct SubmitRefused {
  std::string token;
  std::string why;
};
/// Submission that was put off: a limit that other jobs fill, or a scheduler that is too busy. To
/// be tried again.
struct SubmitDeferred {
  std::string token;
  std::string why;
  bool passes = true;  ///< false: its words leave open whether the limit ever passes
};
struct JobSeen {
  std::string token;
  std::string job_id;
  JobState state = JobState::unknown;
  std::string detail;  ///< the scheduler's own words
  /// Outcome that its end gives an attempt that was running in it; none: no conclusion.
  std::optional<Outcome> outcome{};
  std::string advice{};      ///< why it waits, in plain words with what to do about it
  std::string nodes{};       ///< nodes in the scheduler's writing
  bool after_claim = false;  ///< true: claimed before this look began
  bool own_cancel = false;   ///< shardsweep cancelled it, not the user
  Hold hold = Hold::nobody;  ///< hold of a pending or running job
};
/// A second job with this token: it has been cancelled.
struct JobDuplicate {
  std::string token;
  std::string job_id;
};
/// Clean looks have found no such job. Never to be read as "completed".
struct JobNotSeen {
  std::string token;
};
/// One look has not: that is not enough.
struct JobMissed {
  std::string token;
  Missing what = Missing::job;
};
struct LookFailed {
  std::string why;
};
struct SiteSeen {
  SiteFacts facts;
};
using SchedulerEvent = std::variant<SubmitAccepted, SubmitUnknown, SubmitRefused, SubmitDeferred,
    JobSeen, JobDuplicate, JobNotSeen, JobMissed, LookFailed, SiteSeen>;

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  virtual void submit(const AllocationRequest& request) = 0;
  /// Ends it; looking tells when it is gone. One that `waits` is ended only as long as it
  /// does: its lead may have claimed it since.
  virtual void cancel(const AllocationHandle& handle) = 0;
  /// Lets one that was submitted strictly start.
  virtual void release(const AllocationHandle& handle) { (void)handle; }
  /// Asks for all of these at once.
  virtual void look(const std::vector<AllocationHandle>& handles) = 0;
  /// How long a question may stay unanswered, from the next one on.
  virtual void answer_within(double limit_s) { (void)limit_s; }
  /// Seconds between two looks; they depend on the cost of a look for the scheduler.
  [[nodiscard]] virtual double look_interval_s() const = 0;
  /// To be found out, and again from time to time, without being looked for; SiteSeen answers.
  virtual void ask(const std::optional<SiteQuestions>& questions) { (void)questions; }
  /// A SiteSeen will come: nothing should be submitted before.
  [[nodiscard]] virtual bool knows_site() const { return false; }
  /// Events since the last call.
  [[nodiscard]] virtual std::vector<SchedulerEvent> poll() = 0;
  /// True while an answer is on its way that a single pass should wait for.
  [[nodiscard]] virtual bool settling() const { return false; }
  /// Descriptors whose readiness makes a poll() worthwhile.
  [[nodiscard]] virtual std::vector<pollfd> descriptors() const { return {}; }
};

}  // namespace shardsweep
