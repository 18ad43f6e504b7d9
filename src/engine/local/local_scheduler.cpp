// SPDX-License-Identifier: Apache-2.0
// The local backend: an allocation is a lead started in a session of its own. A job id is
// `<host>/<pid>/<start>`, so that a pid that was given to somebody else is never taken for
// ours.
//
// Decision: Leftovers of a dead lead are ended before its allocation counts as ended: the next
// measurement must not share the machine with them.
#include "machine/host_name.hpp"
#include "machine/processes.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/command.hpp>

#include <fmt/format.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

/// A lead ends its attempt gently, and packs it. One that takes longer can't.
constexpr std::chrono::seconds leave_limit{120};

/// A process for ever: a pid that was given to somebody else has another start time.
struct ProcessIdentity {
  pid_t pid = 0;
  std::int64_t start = 0;
};

struct JobId {
  std::string host;
  ProcessIdentity process;
};

bool is_alive(const ProcessIdentity& process) {
  const auto stat = process_stat(process.pid);
  return stat && stat->start == process.start && stat->state != 'Z';
}

/// The lead of this allocation, by the folder that its command line names.
std::optional<ProcessIdentity> find_lead(const std::filesystem::path& dir) {
  const std::array<std::string, 3> words{"lead", "--dir", dir.string()};
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    pid_t pid = 0;
    const std::string name = entry->path().filename().string();
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    const auto arguments = process_arguments(pid);
    if (std::search(arguments.begin(), arguments.end(), words.begin(), words.end()) ==
        arguments.end())
      continue;
    if (const auto stat = process_stat(pid)) return ProcessIdentity{pid, stat->start};
  }
  return std::nullopt;
}

std::string text_of(const JobId& id) {
  return fmt::format("{}/{}/{}", id.host, id.process.pid, id.process.start);
}

std::optional<JobId> job_id_from(const std::string& text) {
  const std::size_t first = text.find('/');
  const std::size_t second = text.find('/', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  JobId id{text.substr(0, first), {}};
  const auto read = [&text](std::size_t begin, std::size_t end, auto& number) {
    const auto done = std::from_chars(text.data() + begin, text.data() + end, number);
    return done.ec == std::errc() && done.ptr == text.data() + end;
  };
  const bool whole =
      read(first + 1, second, id.process.pid) && read(second + 1, text.size(), id.process.start);
  return whole ? std::optional(id) : std::nullopt;
}

class LocalScheduler final : public Scheduler {
 public:
  explicit LocalScheduler(std::filesystem::path agent) : agent_(std::move(agent)) {}

  [[nodiscard]] std::string name() const override { return "local"; }
  [[nodiscard]] double look_interval_s() const override { return 0.5; }

  void submit(const AllocationRequest& request) override {
    const AllocationPaths paths{request.dir};
    const auto pid = spawn_detached(
        {request.agent.string(), "lead", "--dir", request.dir.string()}, paths.log());
    if (!pid) {
      events_.emplace_back(SubmitRefused{request.token, pid.error().what});
      return;
    }
    children_.push_back(*pid);
    const auto stat = process_stat(*pid);
    if (!stat) {
      events_.emplace_back(SubmitUnknown{request.token, "the lead ended at once"});
      return;
    }
    events_.emplace_back(
        SubmitAccepted{request.token, text_of({host_name(), {*pid, stat->start}})});
  }

  void cancel(const AllocationHandle& handle) override {
    const auto id = job_id_from(handle.job_id);
    if (!id || id->host != host_name() || !is_alive(id->process)) return;
    const auto now = SystemClock().steady();
    const auto [asked, first] = cancelled_.try_emplace(handle.token, now);
    ::kill(id->process.pid, now - asked->second > leave_limit ? SIGKILL : SIGTERM);
    ::kill(id->process.pid, SIGCONT);  // a stopped lead takes its SIGTERM only then
  }

  void look(const std::vector<AllocationHandle>& handles) override {
    reap_children();
    for (const AllocationHandle& handle : handles)
      look_at(handle);
  }

  [[nodiscard]] bool settling() const override { return !cleanups_.empty(); }

  [[nodiscard]] std::vector<SchedulerEvent> poll() override {
    reap_children();
    finish_cleanups();
    return std::exchange(events_, {});
  }

 private:
  void reap_children() {
    std::erase_if(children_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  }

  void look_at(const AllocationHandle& handle) {
    std::optional<JobId> id = job_id_from(handle.job_id);
    if (!id) {
      // The answer to its submission was never read: the lead's command line names its folder.
      if (const auto lead = find_lead(handle.dir)) {
        id = JobId{host_name(), *lead};
      }
    }
    if (id && id->host != host_name()) {
      events_.emplace_back(
          JobSeen{handle.token, handle.job_id, JobState::unknown, "runs on " + id->host});
      return;
    }
    if (id && is_alive(id->process)) {
      events_.emplace_back(JobSeen{handle.token, text_of(*id), JobState::running, "running"});
      return;
    }
    if (cleanups_.find(handle.token) == cleanups_.end()) start_cleanup(handle, id.has_value());
  }

  struct Cleanup {
    RunningCommand command;
    AllocationHandle handle;
    bool was_seen = false;
  };

  void start_cleanup(const AllocationHandle& handle, bool was_seen) {
    auto command =
        RunningCommand::start({agent_.string(), "sweep-leftovers", "--token", handle.token},
            {.deadline = std::chrono::seconds(60)});
    if (!command) {
      events_.emplace_back(LookFailed{command.error().what});
      return;
    }
    cleanups_.emplace(handle.token, Cleanup{std::move(*command), handle, was_seen});
  }

  void finish_cleanups() {
    for (auto entry = cleanups_.begin(); entry != cleanups_.end();) {
      Cleanup& cleanup = entry->second;
      const auto done = cleanup.command.poll();
      if (!done) {
        ++entry;
        continue;
      }
      if (!*done) {
        events_.emplace_back(LookFailed{done->error().what});
      } else if ((*done)->exit_code != 0) {
        events_.emplace_back(LookFailed{"leftovers of " + entry->first +
            " could not be ended: " + (*done)->err.substr(0, 300)});
      } else if (cleanup.was_seen) {
        events_.emplace_back(JobSeen{cleanup.handle.token, cleanup.handle.job_id, JobState::ended,
            "the lead's process is gone"});
      } else {
        events_.emplace_back(JobNotSeen{cleanup.handle.token});
      }
      cancelled_.erase(entry->first);
      entry = cleanups_.erase(entry);
    }
  }

  std::filesystem::path agent_;
  std::vector<pid_t> children_;
  std::map<std::string, Cleanup> cleanups_;
  /// Time of cancellation, by token.
  std::map<std::string, std::chrono::steady_clock::time_point> cancelled_;
  std::vector<SchedulerEvent> events_;
};

}  // namespace

std::unique_ptr<Scheduler> make_local_scheduler(const std::filesystem::path& agent) {
  return std::make_unique<LocalScheduler>(agent);
}

}  // namespace shardsweep
