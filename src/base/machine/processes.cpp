// SPDX-License-Identifier: Apache-2.0
// A pid alone names no process: a moment later it may be another's. Who is to be ended is held
// by a pidfd, and only then compared by start time; every signal goes to that descriptor.
// Processes come and go while /proc is read: one that is gone is not there, and one that can't
// be read is counted, since nobody can say what it holds.
#include "machine/processes.hpp"

#include "machine/descriptor.hpp"

#include <shardsweep/clock.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>

namespace shardsweep {
namespace {

constexpr std::size_t largest_proc_file = 4 << 20;
constexpr std::size_t shown_cmdline = 200;

std::string proc_path(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

/// The error number if it can't be read.
int read_proc(const std::string& path, std::string& text) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return errno;
  text.clear();
  std::string chunk(16384, '\0');
  while (text.size() < largest_proc_file) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    text.append(chunk, 0, static_cast<std::size_t>(got));
  }
  return 0;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// The names of a folder of /proc that are numbers.
std::vector<pid_t> numbers_in(const std::string& path) {
  std::vector<pid_t> numbers;
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return numbers;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name(&entry->d_name[0]);
    if (name.find_first_not_of("0123456789") != std::string_view::npos) continue;
    if (const auto pid = number<pid_t>(name)) numbers.push_back(*pid);
  }
  ::closedir(folder);
  return numbers;
}

std::vector<std::string_view> words_between(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// Fallback for kernels without CONFIG_PROC_CHILDREN.
std::vector<pid_t> children_by_scan(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t pid : numbers_in("/proc")) {
    const auto stat = process_stat(pid);
    if (stat && stat->parent == parent) children.push_back(pid);
  }
  return children;
}

bool has_marker(std::string_view environment, const std::function<bool(std::string_view)>& fits) {
  for (const auto entry : words_between(environment, '\0')) {
    for (const auto variable : {marker_variable, agent_variable}) {
      if (entry.size() > variable.size() && entry.starts_with(variable) &&
          entry[variable.size()] == '=' && fits(entry.substr(variable.size() + 1)))
        return true;
    }
  }
  return false;
}

/// Marker of a rank or an agent; empty: there is none.
std::string_view marker_in(std::string_view environment) {
  std::string_view found;
  (void)has_marker(environment, [&](std::string_view value) {
    found = value;
    return true;
  });
  return found;
}

/// `name` with its "="; empty if it is not set.
std::string_view variable_in(std::string_view environment, std::string_view name) {
  const auto entries = words_between(environment, '\0');
  const auto found = std::find_if(entries.begin(), entries.end(),
      [&](std::string_view entry) { return entry.starts_with(name); });
  return found == entries.end() ? std::string_view() : found->substr(name.size());
}

bool is_own(pid_t pid) {
  struct stat status {};
  return ::stat(proc_path(pid, "").c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

/// True if a slurmstepd is an ancestor of `pid`.
bool is_in_step(pid_t pid) {
  constexpr int deepest = 64;
  for (int i = 0; pid > 1 && i < deepest; ++i) {
    if (process_cmdline(pid).starts_with("slurmstepd")) return true;
    const auto stat = process_stat(pid);
    if (!stat) return false;
    pid = stat->parent;
  }
  return false;
}

struct Target {
  ProcessEntry process;
  Descriptor handle;
};

/// Opens a handle to a process; empty if it is gone. If the start time differs, the number was
/// given to another process.
std::optional<Target> target_of(const ProcessEntry& process) {
  Descriptor handle = open_pidfd(process.pid);
  if (!handle.valid() && errno == ESRCH) return std::nullopt;
  const auto stat = process_stat(process.pid);
  if (!stat || stat->start != process.start || stat->state == 'Z') return std::nullopt;
  return Target{process, std::move(handle)};
}

bool has_ended(const Target& target, int wait_ms) {
  pollfd gone{target.handle.get(), POLLIN, 0};
  return ::poll(&gone, 1, wait_ms) == 1;
}

/// Takes those that end within `limit_ms` in all off the list.
void wait_for_end(std::vector<Target>& targets, int limit_ms) {
  using std::chrono::milliseconds;
  const SystemClock clock;
  const auto deadline = clock.steady() + milliseconds(limit_ms);
  std::erase_if(targets, [&](const Target& target) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - clock.steady()).count();
    return has_ended(target, static_cast<int>(std::max<std::int64_t>(left, 0)));
  });
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t pid) {
  std::string text;
  if (read_proc(proc_path(pid, "stat"), text) != 0) return std::nullopt;
  // The name in parentheses may hold anything, so what follows the last one is counted:
  // state is field 3, parent 4, start time 22.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const auto fields = words_between(std::string_view(text).substr(name_end + 1), ' ');
  constexpr std::size_t start_field = 22 - 3;
  if (fields.size() <= start_field) return std::nullopt;
  ProcessStat stat;
  stat.state = fields[0][0];
  stat.parent = number<pid_t>(fields[1]).value_or(0);
  stat.start = number<std::int64_t>(fields[start_field]).value_or(0);
  return stat;
}

std::string process_cmdline(pid_t pid) {
  std::string text;
  if (read_proc(proc_path(pid, "cmdline"), text) == 0 && !text.empty()) {
    while (!text.empty() && text.back() == '\0')
      text.pop_back();
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    text.resize(std::min(text.size(), shown_cmdline));
    return text;
  }
  if (read_proc(proc_path(pid, "comm"), text) != 0) return "[gone]";
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return "[" + text + "]";
}

std::vector<std::string> process_arguments(pid_t pid) {
  std::string text;
  std::vector<std::string> words;
  if (read_proc(proc_path(pid, "cmdline"), text) != 0) return words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string process_environment(pid_t pid) {
  std::string text;
  return read_proc(proc_path(pid, "environ"), text) == 0 ? text : "";
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  const std::string tasks = proc_path(pid, "task");
  for (const pid_t task : numbers_in(tasks)) {
    std::string text;
    const int error = read_proc(tasks + "/" + std::to_string(task) + "/children", text);
    // The thread's folder is there and this file is not: the kernel does not have it.
    if (error == ENOENT && task == pid && process_stat(pid)) return children_by_scan(pid);
    if (error != 0) continue;
    for (const auto part : words_between(text, ' ')) {
      if (const auto child = number<pid_t>(part)) children.push_back(*child);
    }
  }
  return children;
}

std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<pid_t> all = children_of(pid);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto below = children_of(all[i]);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

bool has_gpus() {
  return ::access("/dev/nvidiactl", F_OK) == 0;
}

MarkedProcesses find_marked(const std::function<bool(std::string_view marker)>& fits) {
  MarkedProcesses marked;
  const pid_t self = ::getpid();
  std::string environment;
  for (const pid_t pid : numbers_in("/proc")) {
    if (pid == self) continue;
    const auto before = process_stat(pid);
    if (!before || before->state == 'Z' || before->state == 'X') continue;
    const int error = read_proc(proc_path(pid, "environ"), environment);
    if (error == EACCES || error == EPERM) ++marked.unreadable;
    if (error != 0 || !has_marker(environment, fits)) continue;
    marked.found.push_back({pid, before->start, process_cmdline(pid)});
  }
  return marked;
}

std::vector<MarkedProcess> marked_processes() {
  std::vector<MarkedProcess> all;
  std::string environment;
  for (const pid_t pid : numbers_in("/proc")) {
    if (pid == ::getpid()) continue;
    const auto stat = process_stat(pid);
    if (!stat || stat->state == 'Z' || stat->state == 'X' || !is_own(pid)) continue;
    if (read_proc(proc_path(pid, "environ"), environment) != 0) continue;
    const std::string_view marker = marker_in(environment);
    if (!marker.empty())
      all.push_back({{pid, stat->start, process_cmdline(pid)}, std::string(marker),
          is_in_step(stat->parent)});
  }
  return all;
}

std::string job_id_of(std::string_view job, std::string_view array, std::string_view task) {
  if (array.empty()) return std::string(job);
  return std::string(array) + "_" + std::string(task);
}

std::vector<pid_t> own_processes() {
  std::vector<pid_t> own = numbers_in("/proc");
  std::erase_if(own, [](pid_t pid) { return !is_own(pid); });
  return own;
}

std::vector<JobProcess> job_processes() {
  std::vector<JobProcess> all;
  std::string environment;
  for (const pid_t pid : numbers_in("/proc")) {
    if (pid == ::getpid()) continue;
    const auto stat = process_stat(pid);
    if (!stat || stat->state == 'Z' || stat->state == 'X' || !is_own(pid)) continue;
    if (read_proc(proc_path(pid, "environ"), environment) != 0) continue;
    const std::string_view job = variable_in(environment, "SLURM_JOB_ID=");
    if (job.empty() || !marker_in(environment).empty()) continue;
    all.push_back({{pid, stat->start, process_cmdline(pid)},
        job_id_of(job, variable_in(environment, "SLURM_ARRAY_JOB_ID="),
            variable_in(environment, "SLURM_ARRAY_TASK_ID=")),
        std::string(variable_in(environment, "SLURM_CLUSTER_NAME=")), is_in_step(stat->parent)});
  }
  return all;
}

std::vector<ProcessEntry> end_processes(
    const std::vector<ProcessEntry>& processes, int grace_ms, int wait_ms) {
  std::vector<Target> targets;
  for (const ProcessEntry& process : processes) {
    if (auto target = target_of(process)) targets.push_back(*std::move(target));
  }
  for (const Target& target : targets) {
    (void)send_signal(target.handle, SIGTERM);
    (void)send_signal(target.handle, SIGCONT);
  }
  wait_for_end(targets, grace_ms);
  for (const Target& target : targets)
    (void)send_signal(target.handle, SIGKILL);
  wait_for_end(targets, wait_ms);
  std::vector<ProcessEntry> left;
  left.reserve(targets.size());
  for (const Target& target : targets)
    left.push_back(target.process);
  return left;
}

bool end_process(const ProcessEntry& process, int wait_ms) {
  const auto target = target_of(process);
  if (!target) return true;
  if (!send_signal(target->handle, SIGKILL)) return errno == ESRCH;
  return has_ended(*target, wait_ms);
}

}  // namespace shardsweep
