// SPDX-License-Identifier: Apache-2.0
// Decision: A daemon in Slurm is a chain of jobs, because many sites have no scrontab. The next
// job is requested while the database is held.
#include "cli/daemon_job.hpp"

#include "fleet/site_limits.hpp"
#include "slurm/words/script.hpp"
#include "slurm/words/submission.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <stdlib.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <variant>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

/// A visitor of lambdas, one for each alternative.
template <class... Each>
struct Hears : Each... {
  using Each::operator()...;
};
template <class... Each>
Hears(Each...) -> Hears<Each...>;

constexpr double look_limit_s = 30;
constexpr double submit_limit_s = 150;  // sbatch retries for two minutes by itself
// Two looks so far apart: what was accepted is listed by then (MessageTimeout).
constexpr double look_again_s = 10;
constexpr double ask_again_s = 60;
constexpr int looks_after_lost_answer = 2;
constexpr auto poll_pause = std::chrono::milliseconds(200);
constexpr double first_wait_s = 60;

/// Name of the chain of jobs, made from the database's path: a second start finds the first chain.
std::string chain_of(const Session& session) {
  std::error_code ignored;
  const fs::path path = fs::weakly_canonical(session.home.database, ignored);
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : path.string())
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return fmt::format("shardsweep-daemon_{:08x}", hash);
}

fs::path script_of(const Session& session) {
  return session.home.dir() / "daemon.sbatch";
}

/// Environment without variables that change what Slurm does, set by the login shell or by our own
/// job.
CommandOptions within(double limit_s) {
  return {.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(limit_s * 1e3)),
      .environment = slurm::command_environment(own_environment())};
}

std::vector<std::string> look_command() {
  return {"squeue", "--me", "--noheader", "--format=%i|%j"};
}

/// The id of the job whose name `fits`, in what look_command() printed.
template <class Fits>
std::optional<std::string> listed(const std::string& text, const Fits& fits) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t bar = line.find('|');
    if (bar != std::string::npos && fits(line.substr(bar + 1))) return line.substr(0, bar);
  }
  return std::nullopt;
}

std::vector<std::string> submit_command(
    const Session& session, const std::string& name, int number, const std::string& after) {
  std::vector<std::string> command{"sbatch", "--parsable", "--job-name=" + name};
  if (!after.empty()) command.push_back("--dependency=afterany:" + after);
  command.push_back(script_of(session).string());
  command.push_back(std::to_string(number));
  return command;
}

/// Options of the daemon's job: the site's for any job of one node, without GPUs, then the user's.
Result<std::map<std::string, std::string>> job_options(
    const SiteSpec& site, const std::vector<std::string>& own) {
  std::map<std::string, std::string> options{
      {"nodes", "1"}, {"ntasks", "1"}, {"cpus-per-task", "1"}, {"mem", "1G"}, {"time", "1-0"}};
  for (const char* option : {"account", "partition", "qos", "reservation"}) {
    if (std::string value = site_value(site, option, 1); !value.empty())
      options[option] = std::move(value);
  }
  for (const std::string& option : own) {
    const std::size_t equals = option.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return fault(FaultKind::invalid_input,
          "--job-option '{}': write OPTION=VALUE, with a long option of sbatch: time=12:00:00",
          option);
    }
    options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  return options;
}

Result<void> write_script(
    const Session& session, const SiteSpec& site, const std::vector<std::string>& own) {
  SHARDSWEEP_ASSIGN(const auto options, job_options(site, own));
  std::string text =
      "#!/bin/bash\n#SBATCH --no-requeue\n#SBATCH --open-mode=append\n"
      "#SBATCH --signal=B:TERM@60\n";
  for (const auto& [option, value] : options) {
    SHARDSWEEP_ASSIGN(const std::string word, directive_value(option, value));
    text += fmt::format("#SBATCH --{}={}\n", option, word);
  }
  SHARDSWEEP_ASSIGN(const std::string log, output_value(session.home.log().string()));
  text += fmt::format(
      "#SBATCH --output={}\n\n"
      "# The daemon of {}; SIGTERM a minute before the end lets its successor go on.\n"
      "exec {} daemon --until-idle --db {} --as-job \"$1\"\n",
      log, session.home.database.string(), shell_quote(session.installation.shardsweep.string()),
      shell_quote(fs::absolute(session.home.database).string()));
  return write_own_file(script_of(session), text);
}

/// Waits for the job's daemon, and after a minute says that the job is queued.
Result<ExitCode> await_daemon(const Session& session, const std::string& job) {
  const auto until = session.clock.steady() + std::chrono::duration<double>(first_wait_s);
  while (session.clock.steady() < until) {
    if (daemon_runs(session)) {
      say("the daemon runs as job {}. It hands over to its next job before its time is up. It ends "
          "when nothing is left to do.",
          job);
      return ExitCode::done;
    }
    std::this_thread::sleep_for(poll_pause);
  }
  say("job {} waits in the queue. Commands wait for it and start no other daemon.", job);
  return ExitCode::done;
}

/// sbatch's answer was lost: the job may be there all the same.
Result<ExitCode> look_again(
    const Session& session, const std::string& name, const std::string& why) {
  std::this_thread::sleep_for(std::chrono::duration<double>(look_again_s));
  if (const auto job = daemon_job(session)) return await_daemon(session, *job);
  return fault(FaultKind::unavailable,
      "sbatch gave no answer ({}). The job may exist: look with 'squeue --me --name={}' before you "
      "try again.",
      why, name);
}

}  // namespace

std::optional<std::string> daemon_job(const Session& session) {
  std::error_code ignored;
  if (!fs::exists(script_of(session), ignored)) return std::nullopt;
  const auto output = run_command(look_command(), within(look_limit_s));
  if (!output || output->exit_code != 0) return std::nullopt;
  const std::string chain = chain_of(session) + "-";
  return listed(output->out, [&](const std::string& name) { return name.rfind(chain, 0) == 0; });
}

Result<ExitCode> start_daemon_job(const Session& session, const std::vector<std::string>& own) {
  SHARDSWEEP_TRY(make_home(session.home));
  if (const auto job = daemon_job(session)) {
    say("the daemon already has a job: {}", *job);
    return ExitCode::done;
  }
  if (daemon_runs(session)) {
    return fault(FaultKind::busy,
        "a daemon already runs for this database. End it first: kill its pid. Running trials go "
        "on.");
  }
  SHARDSWEEP_ASSIGN(const SiteAccess access, read_site(session));
  SHARDSWEEP_TRY(probe_slurm());
  SHARDSWEEP_TRY(write_script(session, access.site, own));
  const std::string name = chain_of(session) + "-1";
  const auto output = run_command(submit_command(session, name, 1, ""), within(submit_limit_s));
  const SchedulerEvent answer = output
      ? slurm::read_submission(name, output->exit_code, output->out, output->err)
      : SchedulerEvent(SubmitUnknown{name, output.error().what});
  return std::visit(
      Hears{[&](const SubmitAccepted& accepted) { return await_daemon(session, accepted.job_id); },
          [](const SubmitRefused& refused) -> Result<ExitCode> {
            return fault(FaultKind::rejected, refused.why);
          },
          [](const SubmitDeferred& deferred) -> Result<ExitCode> {
            return fault(FaultKind::unavailable, deferred.why);
          },
          [&](const SubmitUnknown& unknown) { return look_again(session, name, unknown.why); },
          // No other event answers a submission.
          [](const auto&) -> Result<ExitCode> {
            return fault(FaultKind::internal, "sbatch's answer was misread");
          }},
      answer);
}

Successor::Successor(const Session& session, int number)
    : session_(session), name_(fmt::format("{}-{}", chain_of(session), number)), number_(number) {}

double Successor::now_s() const {
  return std::chrono::duration<double>(session_.clock.steady().time_since_epoch()).count();
}

void Successor::start(const std::vector<std::string>& argv, double limit_s) {
  auto command = RunningCommand::start(argv, within(limit_s));
  if (command) {
    command_ = std::move(*command);
    return;
  }
  log_warning("the daemon's next job: " + command.error().what);
  not_before_s_ = now_s() + ask_again_s;
}

void Successor::step() {
  if (command_) {
    auto done = command_->poll();
    if (!done) return;
    command_.reset();
    return stage_ == Stage::look ? take_look(*done) : take_submission(*done);
  }
  if (stage_ == Stage::there || now_s() < not_before_s_) return;
  if (stage_ == Stage::look) return start(look_command(), look_limit_s);
  const char* own = ::getenv("SLURM_JOB_ID");
  start(submit_command(session_, name_, number_, own == nullptr ? "" : own), submit_limit_s);
}

/// Takes squeue's answer. An earlier process with this id may have asked for the next job already.
void Successor::take_look(const Result<CommandOutput>& output) {
  if (!output || output->exit_code != 0) {
    not_before_s_ = now_s() + look_again_s;
    return;
  }
  const auto job = listed(output->out, [this](const std::string& name) { return name == name_; });
  if (job) {
    log_info(fmt::format("the daemon's next job is {}", *job));
    stage_ = Stage::there;
  } else if (++clean_looks_ >= needed_looks_) {
    stage_ = Stage::submit;
  } else {
    not_before_s_ = now_s() + look_again_s;
  }
}

void Successor::take_submission(const Result<CommandOutput>& output) {
  const SchedulerEvent answer = output
      ? slurm::read_submission(name_, output->exit_code, output->out, output->err)
      : SchedulerEvent(SubmitUnknown{name_, output.error().what});
  stage_ = Stage::look;
  clean_looks_ = 0;
  const auto ask_later = [this](const std::string& why) {
    log_warning("the daemon's next job: " + why);
    needed_looks_ = 1;
    not_before_s_ = now_s() + ask_again_s;
  };
  std::visit(Hears{[this](const SubmitAccepted& accepted) {
                     log_info(fmt::format("the daemon's next job is {}", accepted.job_id));
                     stage_ = Stage::there;
                   },
                 [this](const SubmitUnknown& unknown) {
                   log_warning("the daemon's next job: " + unknown.why);
                   needed_looks_ = looks_after_lost_answer;
                   not_before_s_ = now_s() + look_again_s;
                 },
                 [&](const SubmitRefused& refused) { ask_later(refused.why); },
                 [&](const SubmitDeferred& deferred) { ask_later(deferred.why); },
                 // No other event answers a submission.
                 [](const auto&) {}},
      answer);
}

void Successor::cancel() {
  // A submission under way has to end first: only a job that exists can be cancelled.
  if (command_) (void)command_->wait();
  (void)run_command({"scancel", "--me", "--name=" + name_}, within(look_limit_s));
}

}  // namespace shardsweep
