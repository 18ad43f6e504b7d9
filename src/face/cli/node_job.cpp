// SPDX-License-Identifier: Apache-2.0
// A short job of one node, for `doctor` and `init`.
#include "cli/session.hpp"
#include "cli/terminal.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/random.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

/// The options that the site gives to a job of one node.
std::vector<std::string> options_for_one_node(const SiteSpec& site) {
  std::vector<std::string> options;
  for (const auto& [option, values] : site.slurm) {
    for (const SlurmValue& value : values) {
      if (value.from > 1 || option == "time") continue;
      options.push_back(
          value.value.empty() ? "--" + option : fmt::format("--{}={}", option, value.value));
    }
  }
  return options;
}

/// Runs `command` to its end. Ctrl-C ends it alone, while a guard lives: its caller has a job to
/// cancel.
Result<CommandOutput> waited_for(
    const std::vector<std::string>& command, const CommandOptions& options) {
  constexpr std::chrono::milliseconds step{50};
  SHARDSWEEP_ASSIGN(auto running, RunningCommand::start(command, options));
  while (!InterruptGuard::seen()) {
    if (auto output = running.poll()) return std::move(*output);
    std::this_thread::sleep_for(step);
  }
  return fault(FaultKind::unavailable, "interrupted");
}

/// Cancels the job of that name; says what has become of it.
std::string cancelled(const std::string& name) {
  const auto output = run_command({"scancel", "--me", "--name=" + name}, {});
  if (output && output->exit_code == 0) return "its job was cancelled";
  std::string why = output ? output->err.substr(0, 200) : output.error().what;
  why.erase(why.find_last_not_of(" \n") + 1);
  return fmt::format("its job may still wait: scancel --me --name={} failed ({})", name, why);
}

}  // namespace

Result<std::string> run_on_a_node(
    const Session& session, const SiteSpec& site, const std::string& script) {
  constexpr std::chrono::seconds patience{180};
  const std::string name = "shardsweep-probe-" + random_hex(6);
  const fs::path log = session.home.dir() / (name + ".log");
  std::vector<std::string> command{"sbatch", "--parsable", "--wait", "--nodes=1", "--time=2",
      "--no-requeue", "--job-name=" + name, "--output=" + log.string()};
  for (std::string& option : options_for_one_node(site))
    command.push_back(std::move(option));
  command.push_back("--wrap=" + script);
  const InterruptGuard guard;  // lasts until the job is cancelled, too
  const auto output = waited_for(command, {.deadline = patience});
  const auto said = read_own_file(log, 64 << 10);
  std::error_code ignored;
  fs::remove(log, ignored);
  if (!output) {
    return fault(FaultKind::unavailable, "the job got no node: {}; {}", output.error().what,
        cancelled(name));
  }
  if (output->exit_code == 0 && said) return *said;
  return fault(FaultKind::unavailable, "the job failed: {}{}", output->err.substr(0, 200),
      said ? said->substr(0, 400)
           : "; its output is not in '" + session.home.dir().string() +
              "': the node may not see that folder");
}

}  // namespace shardsweep
