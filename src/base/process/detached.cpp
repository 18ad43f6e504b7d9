// SPDX-License-Identifier: Apache-2.0
// Processes that outlive us: the daemon from a command, a lead from the daemon.
#include "machine/checked_folder.hpp"

#include <shardsweep/command.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cstring>

namespace shardsweep {
namespace {

/// posix_spawn's two descriptions, destroyed whatever happens.
struct SpawnSettings {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};

  explicit SpawnSettings(const Descriptor& log) {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, log.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    // A descriptor of ours that reached it would keep a lock or a pipe open for ever.
    ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes,
        static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

Result<pid_t> spawn_detached(
    const std::vector<std::string>& argv, const std::filesystem::path& log) {
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(log));
  SHARDSWEEP_ASSIGN(const Descriptor opened,
      folder.open_file(log.filename().string(), O_WRONLY | O_CREAT | O_APPEND));
  // Restore blocking writes for the program: open_file opens without them.
  if (::fcntl(opened.get(), F_SETFL, O_APPEND) != 0)
    return errno_error("cannot open " + log.string());
  const SpawnSettings settings(opened);
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) {
    // posix_spawn wants char*; it does not write through it.
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(
      &pid, arguments[0], &settings.files, &settings.attributes, arguments.data(), environ);
  if (error != 0) {
    return fault(FaultKind::unavailable, "cannot start '{}': {}", argv[0], std::strerror(error));
  }
  return pid;
}

}  // namespace shardsweep
