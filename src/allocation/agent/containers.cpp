// SPDX-License-Identifier: Apache-2.0
#include "agent/containers.hpp"

#include "agent/evidence.hpp"
#include "agent/reap.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "attempt/effective_environment.hpp"
#include "machine/host_name.hpp"
#include "machine/processes.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsweep::agent {
namespace {

// The lead waits ten seconds for its node agents to leave.
constexpr double remove_limit_s = 8;
constexpr int remove_look_ms = 20;
// A registry may be asked; nothing waits longer for a name.
constexpr double ask_limit_s = 20;
constexpr std::string_view unknown_digest = "unknown";

bool lives(const ContainerOwner& owner) {
  const auto stat = process_stat(owner.pid);
  return stat && stat->start == owner.start;
}

}  // namespace

ContainerMaker::State ContainerMaker::step(const AttemptSpec& spec, const AttemptPaths& paths,
    const Environment& own, const ContainerPlace& place, double now_s) {
  if (!spec.container) return State::ready;
  const ContainerSpec& container = *spec.container;
  if (child_ != 0 && making_ != container.image) stop();
  if (child_ != 0 && look(spec, now_s) == State::making) return State::making;
  if (!why_.empty()) return State::failed;
  const std::string node = place.node.empty() ? "local" : place.node;
  if (const auto clear = clearing(spec, place))
    return begin(clear->first, spec, clear->second,
        paths.dir / fmt::format("containers.{}.out", node), own, now_s);
  const auto make = make_command(container, place);
  if (!made_.contains(container.image) && !make.empty())
    return begin(
        Task::make, spec, make, paths.dir / fmt::format("container.{}.out", node), own, now_s);
  made_.try_emplace(container.image, container);
  if (digests_.contains(container.image)) return State::ready;
  if (const auto named = digest_in_name(container.image); !named.empty()) {
    learn_digest(container.image, named);
    return State::ready;
  }
  const auto ask = digest_command(container);
  if (!ask.empty())
    return begin(Task::ask, spec, ask, paths.dir / fmt::format("image.{}.out", node), own, now_s);
  const auto beginning = read_beginning(container.image, image_header_bytes);
  learn_digest(container.image, beginning ? digest_in_file(*beginning) : "");
  return State::ready;
}

ContainerMaker::State ContainerMaker::begin(Task task, const AttemptSpec& spec,
    const std::vector<std::string>& command, const std::filesystem::path& output,
    const Environment& own, double now_s) {
  task_ = task;
  output_ = output;
  making_ = spec.container->image;
  since_s_ = now_s;
  const auto child =
      start_rank({command, srun_environment(own), output.parent_path(), output_, 0, 0});
  if (!child) return fail(child.error().what);
  child_ = *child;
  return State::making;
}

std::optional<std::pair<ContainerMaker::Task, std::vector<std::string>>> ContainerMaker::clearing(
    const AttemptSpec& spec, const ContainerPlace& place) {
  const auto list = list_owners_command(*spec.container);
  if (list.empty() || place.owner.empty()) return std::nullopt;
  if (!std::exchange(listed_, true)) return std::pair(Task::list, list);
  // Only attempts that ran here have left containers.
  if (cleared_for_ != 0 && cleared_for_ != spec.attempt) gone_.push_back(place.owner);
  cleared_for_ = spec.attempt;
  if (gone_.empty()) return std::nullopt;
  const std::string owner = std::move(gone_.back());
  gone_.pop_back();
  removes_own_ = owner == place.owner;
  return std::pair(Task::remove, remove_left_command(*spec.container, owner));
}

/// Looks at a task's end. An image without a known digest is used all the same; another agent's
/// containers stay if they can't be found or removed.
ContainerMaker::State ContainerMaker::look(const AttemptSpec& spec, double now_s) {
  int status = 0;
  const pid_t ended = ::waitpid(child_, &status, WNOHANG);
  const bool bounded = task_ == Task::ask || task_ == Task::list;
  const double limit_s = bounded ? ask_limit_s : spec.limits.container_limit_s;
  if (ended == 0 && now_s - since_s_ < limit_s) return State::making;
  if (ended == 0) {
    stop();
  } else {
    child_ = 0;
  }
  const bool done = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const std::string last = last_line_of(output_);
  if (task_ == Task::ask) {
    learn_digest(making_, done ? last : "");
    return State::ready;
  }
  if (task_ == Task::list) {
    const auto owners = read_own_file(output_);
    if (done && owners) gone_ = gone_owners(*owners, container_owner(::getpid()), lives);
    return State::ready;
  }
  if (task_ == Task::remove && (done || !removes_own_)) return State::ready;
  const std::string_view what =
      task_ == Task::remove ? "cannot remove the containers of an earlier attempt: " : "";
  if (ended == 0)
    return fail(
        fmt::format("{}the container runtime took longer than {:.0f} s (watch.container_limit)",
            what, limit_s));
  if (!done)
    return fail(fmt::format(
        "{}{}", what, last.empty() ? "the container runtime failed and printed nothing" : last));
  made_.emplace(making_, *spec.container);
  return State::ready;
}

void ContainerMaker::learn_digest(const std::string& image, const std::string& digest) {
  digests_.insert_or_assign(image, digest.empty() ? std::string(unknown_digest) : digest);
}

std::string ContainerMaker::digest_of(const ContainerSpec& container) const {
  const auto found = digests_.find(container.image);
  return found == digests_.end() ? std::string(unknown_digest) : found->second;
}

ContainerMaker::State ContainerMaker::fail(const std::string& what) {
  why_ = what;
  return State::failed;
}

void ContainerMaker::stop() {
  if (child_ == 0) return;
  // Kill its whole process group. It is reaped with the other children of the node agent.
  ::kill(-child_, SIGKILL);
  child_ = 0;
}

void ContainerMaker::remove_all(
    const Environment& own, const ContainerPlace& place, const Clock& clock) {
  stop();
  const double deadline_s = seconds_of(clock) + remove_limit_s;
  std::set<std::vector<std::string>> commands;
  for (const auto& [image, container] : made_) {
    commands.insert(remove_left_command(container, place.owner));
    commands.insert(remove_command(container, place));
  }
  for (const auto& command : commands)
    (void)run_removal(command, own, clock, deadline_s - seconds_of(clock));
  made_.clear();
}

bool run_removal(const std::vector<std::string>& command, const Environment& environment,
    const Clock& clock, double limit_s) {
  if (command.empty()) return true;
  const auto child = start_rank({command, environment, "/", "/dev/null", 0, 0});
  if (!child) return false;
  const double deadline_s = seconds_of(clock) + limit_s;
  int status = 0;
  while (::waitpid(*child, &status, WNOHANG) == 0) {
    if (seconds_of(clock) >= deadline_s) return false;
    (void)::poll(nullptr, 0, remove_look_ms);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

ContainerOwner container_owner(pid_t pid) {
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  const auto stat = process_stat(pid);
  return {host_name(), space.string(), pid, stat ? stat->start : 0};
}

ContainerPlace place_of_container(
    const Environment& own, const std::string& token, bool has_gpus, std::string owner) {
  return {.token = token,
      .job = value_in(own, "SLURM_JOB_ID").value_or(""),
      .node = value_in(own, "SLURMD_NODENAME").value_or(""),
      .has_gpus = has_gpus,
      .owner = std::move(owner)};
}

RankStart enter_container(RankProcess& process, const AttemptSpec& spec, const RankMeeting& meeting,
    const ContainerPlace& place, const std::string& attempt_dir) {
  if (!spec.container) return {process.argv, process.environment, process.directory};
  set_meeting_place(process.environment, meeting.meet);
  process.environment.push_back(fmt::format("{}={}", rank_variable, meeting.rank));
  const std::string& workdir = spec.container->workdir;
  RankStart inside{
      process.argv, process.environment, workdir.empty() ? process.directory.string() : workdir};
  // Secrets of the sweep are only named here; their values are in the rank's environment.
  ContainerSpec container = *spec.container;
  container.env.insert(spec.env.begin(), spec.env.end());
  for (const auto& name : spec.secrets)
    container.env.erase(name);
  container.env.merge(fake_variables(spec));
  RankStart telling = inside;
  if (meeting.rank == 0)
    telling.argv =
        telling_environment(inside.argv, AttemptPaths{attempt_dir}.environment().string());
  ContainerPlace hiding = place;
  hiding.secrets = spec.secrets;
  hiding.name = fmt::format("shardsweep-{}-{}-{}", place.token, spec.attempt, meeting.rank);
  RankStart start = entered(container, telling, hiding);
  process.argv = std::move(start.argv);
  process.environment = std::move(start.environment);
  // A site's settings of its runtime may name the job.
  if (!place.job.empty() && !value_in(process.environment, "SLURM_JOB_ID"))
    process.environment.push_back("SLURM_JOB_ID=" + place.job);
  process.directory = attempt_dir;
  return inside;
}

}  // namespace shardsweep::agent
