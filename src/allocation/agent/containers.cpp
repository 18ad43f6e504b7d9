// SPDX-License-Identifier: Apache-2.0
#include "agent/containers.hpp"

#include "agent/evidence.hpp"
#include "agent/reap.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "attempt/effective_environment.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

namespace shardsweep::agent {
namespace {

// The lead waits ten seconds for its node agents to leave.
constexpr double remove_limit_s = 8;
constexpr int remove_look_ms = 20;
// A registry may be asked; nothing waits longer for a name.
constexpr double ask_limit_s = 20;
constexpr std::string_view unknown_digest = "unknown";

}  // namespace

ContainerMaker::State ContainerMaker::step(const AttemptSpec& spec, const AttemptPaths& paths,
    const Environment& own, const ContainerPlace& place, double now_s) {
  if (!spec.container) return State::ready;
  const ContainerSpec& container = *spec.container;
  if (child_ != 0 && making_ != container.image) stop();
  if (child_ != 0 && look(spec, now_s) == State::making) return State::making;
  if (!why_.empty()) return State::failed;
  const std::string node = place.node.empty() ? "local" : place.node;
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

/// An image whose digest nobody tells is used all the same.
ContainerMaker::State ContainerMaker::look(const AttemptSpec& spec, double now_s) {
  int status = 0;
  const pid_t ended = ::waitpid(child_, &status, WNOHANG);
  const double limit_s = task_ == Task::ask ? ask_limit_s : spec.limits.container_limit_s;
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
  if (ended == 0)
    return fail(fmt::format("it took longer than {:.0f} s (watch.container_limit)", limit_s));
  if (!done) return fail(last.empty() ? "its runtime failed without a word" : last);
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
  // Its group: it leads one. It is reaped with all that the node agent inherits.
  ::kill(-child_, SIGKILL);
  child_ = 0;
}

void ContainerMaker::remove_all(
    const Environment& own, const ContainerPlace& place, const Clock& clock) {
  stop();
  const double deadline_s = seconds_of(clock) + remove_limit_s;
  for (const auto& [image, container] : made_) {
    const auto command = remove_command(container, place);
    if (command.empty()) continue;
    const auto child = start_rank({command, own, "/", "/dev/null", 0, 0});
    while (child && ::waitpid(*child, nullptr, WNOHANG) == 0 && seconds_of(clock) < deadline_s)
      (void)::poll(nullptr, 0, remove_look_ms);
  }
  made_.clear();
}

ContainerPlace place_of_container(const Environment& own, const std::string& token, bool has_gpus) {
  return {.token = token,
      .job = value_in(own, "SLURM_JOB_ID").value_or(""),
      .node = value_in(own, "SLURMD_NODENAME").value_or(""),
      .has_gpus = has_gpus};
}

RankStart enter_container(RankProcess& process, const AttemptSpec& spec, const RankMeeting& meeting,
    const ContainerPlace& place, const std::string& attempt_dir) {
  if (!spec.container) return {process.argv, process.environment, process.directory};
  set_meeting_place(process.environment, meeting.meet);
  process.environment.push_back(fmt::format("{}={}", rank_variable, meeting.rank));
  const std::string& workdir = spec.container->workdir;
  RankStart inside{
      process.argv, process.environment, workdir.empty() ? process.directory.string() : workdir};
  // Those of the sweep are named by being here; their values are the rank's.
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
