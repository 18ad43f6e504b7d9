// SPDX-License-Identifier: Apache-2.0
// Asking the daemon for a change: a request file, and a daemon if none runs. Only the
// daemon writes the database, so every verb goes this way. The request is on disk before a
// daemon is looked for: if the command dies, or the daemon it has started, whoever comes
// next serves it. A daemon is not asked whether it is ready; it is ready when it answers.

#include "cli/daemon_job.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "daemon/loop.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/copied.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/log.hpp>
#include <shardsweep/notifier.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/results.hpp>
#include <shardsweep/storage.hpp>
#include <shardsweep/trouble.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

using namespace std::chrono_literals;

constexpr auto first_pause = 5ms;
constexpr auto longest_pause = 200ms;
constexpr auto silence_limit = 60s;  // a daemon that renews its lease every 5 s is long gone
constexpr auto patience = 3s;        // then it is said what keeps the daemon from answering
constexpr int most_starts = 3;

std::string who_asks() {
  const LeaseHolder self = this_process();
  return fmt::format("{}@{} pid {}", user_name().empty() ? "?" : user_name(), self.host, self.pid);
}

std::string end_of_log(const Home& home) {
  const auto text = read_own_file(home.log());
  if (!text) return "";
  const std::size_t length = std::min<std::size_t>(text->size(), 600);
  return text->substr(text->size() - length);
}

void say_troubles(const Session& session) {
  for (const Trouble& one : troubles(session.home))
    say(text(one));
}

/// A daemon that this command has started, or none.
class Starter {
 public:
  explicit Starter(const Session& session) : session_(session) {}

  Result<void> start_if_none() {
    if (daemon_runs(session_)) return {};
    if (waits_for_job()) return {};
    if (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) == 0) return {};  // still on its way
    if (++starts_ > most_starts) {
      say_troubles(session_);
      return fault(FaultKind::unavailable,
          "the daemon ends whenever it is started; the last lines of {}:\n{}",
          session_.home.log().string(), end_of_log(session_.home));
    }
    SHARDSWEEP_ASSIGN(child_,
        spawn_detached({session_.installation.shardsweep.string(), "daemon", "--until-idle", "--db",
                           session_.home.database.string()},
            session_.home.log()));
    fail_point("command.started");
    say("started a daemon: pid {} on {}, log {}; it ends when nothing is left to do", child_,
        this_process().host, session_.home.log().string());
    return {};
  }

 private:
  /// Tells if one of the daemon's own jobs is queued, or about to hand over to the next.
  bool waits_for_job() {
    constexpr std::chrono::seconds again{10};
    const auto now = session_.clock.steady();
    if (now < ask_for_job_) return job_;
    ask_for_job_ = now + again;
    const auto job = daemon_job(session_);
    if (job && !job_) say("the daemon runs as job {}; waiting for it to start", *job);
    job_ = job.has_value();
    return job_;
  }

  const Session& session_;
  std::chrono::steady_clock::time_point ask_for_job_;
  bool job_ = false;
  pid_t child_ = 0;
  int starts_ = 0;
};

/// Holder of the lease; none if nobody holds it or the database can't be read.
std::optional<LeaseHolder> holder_of(const Session& session) {
  const auto holder = Reader::holder_in(session.home.database);
  return holder && *holder && (*holder)->pid != 0 ? *holder : std::nullopt;
}

bool fresh(const Session& session, const LeaseHolder& holder) {
  const double silent_s = to_seconds(session.clock.now() - holder.renewed);
  return silent_s < Policy{}.lease_ttl_s;
}

Result<Answer> give_up(const Session& session, const std::string& id) {
  SHARDSWEEP_TRY(withdraw_request(session.home, id));
  const auto holder = holder_of(session);
  const std::string who =
      holder ? fmt::format("the daemon (pid {} on {})", holder->pid, holder->host) : "the daemon";
  return fault(FaultKind::timed_out,
      "{} has not answered for {} s; the request is withdrawn. If it is stopped, 'shardsweep "
      "daemon --take-over' replaces it",
      who, silence_limit.count());
}

}  // namespace

bool daemon_runs(const Session& session) {
  if (lock_holder(session.home.lock())) return true;
  // A lock that another host holds may not be visible here, so a fresh lease counts, too.
  const auto holder = holder_of(session);
  return holder && holder->host != this_process().host && fresh(session, *holder);
}

namespace {

/// A daemon of another database format may not know what it is asked for. It knows how to stop.
Result<void> refuse_other_format(const Session& session, Verb verb) {
  if (verb == Verb::stop || !lock_holder(session.home.lock())) return {};
  const auto reader = Reader::open(session.home.database);
  if (reader || reader.error().kind != FaultKind::rejected) return {};
  return tl::unexpected<Fault>(reader.error());
}

/// Warns if the running daemon is of another version: after an upgrade it keeps its own until it
/// ends.
void say_other_version(const Session& session) {
  if (!lock_holder(session.home.lock())) return;
  const std::string other = other_version_of_holder(session.home.lock());
  if (other.empty()) return;
  say("The running daemon has version {}, this command has {}. It goes on with its own version "
      "until it ends; 'shardsweep daemon --take-over' replaces it now.",
      other, version);
}

}  // namespace

std::optional<std::string> copy_of_another(const Session& session) {
  const auto reader = Reader::open(session.home.database);
  if (!reader) return std::nullopt;
  const auto folders = (*reader)->texts(Listing::live_jobs);
  if (!folders) return std::nullopt;
  return copy_text(session.home, {folders->begin(), folders->end()});
}

Result<std::string> post_to_daemon(const Session& session, Request request) {
  const auto folder = session.home.database.parent_path();
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(folder, ignored);
  SHARDSWEEP_TRY(make_home(session.home));
  if (const auto copy = copy_of_another(session)) return fault(FaultKind::rejected, *copy);
  // A mistyped --db shows here.
  if (is_new) say("made the folder {} for the database", folder.string());
  say_other_version(session);
  request.from = who_asks();
  const std::string inbox = request.inbox;
  auto posted = refuse_other_format(session, request.verb).and_then([&] {
    return post_request(session.home, std::move(request), session.clock.now());
  });
  // An inbox that was not posted is known to nobody else.
  if (!posted && !inbox.empty()) remove_inbox(inbox);
  return posted;
}

Result<Answer> ask_daemon(const Session& session, Request request, const RequestExtent& expected) {
  SHARDSWEEP_ASSIGN(const std::string id, post_to_daemon(session, std::move(request)));
  return await_answer(session, id, expected);
}

namespace {

/// Count of a sweep's trials, shown on the terminal once a second while a request is served.
class HowFar {
 public:
  HowFar(const Session& session, const RequestExtent& expected)
      : session_(session), expected_(expected) {}

  void look() {
    const auto now = session_.clock.steady();
    if (expected_.trials == 0 || !ProgressLine::is_shown() || now < next_) return;
    next_ = now + 1s;
    const auto reader = Reader::open(session_.home.database);
    if (!reader) return;
    const auto count = (*reader)->count({.names = {expected_.sweep}, .hidden = true});
    if (!count) return;
    ProgressLine::note_how_far(fmt::format("{} of {} trials {}", grouped(*count),
        grouped(expected_.trials), expected_.go ? "left" : "stored"));
  }

 private:
  const Session& session_;
  const RequestExtent& expected_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace

Result<Answer> await_answer(
    const Session& session, const std::string& id, const RequestExtent& expected) {
  Starter starter(session);
  HowFar how_far(session, expected);
  auto heard = session.clock.steady();
  auto say_why_at = heard + patience;
  std::chrono::milliseconds pause = first_pause;
  for (;;) {
    if (session.clock.steady() - heard > silence_limit) {
      // A daemon that works on a long request shows it by renewing its lease.
      const auto holder = holder_of(session);
      if (!holder || !fresh(session, *holder)) return give_up(session, id);
      heard = session.clock.steady();
    }
    SHARDSWEEP_ASSIGN(const auto answer, take_answer(session.home, id));
    if (answer) {
      if (answer->fault) return tl::unexpected<Fault>(*answer->fault);
      return *answer;
    }
    SHARDSWEEP_TRY(starter.start_if_none());
    if (session.clock.steady() >= say_why_at) {
      say_troubles(session);
      say_why_at += silence_limit;
    }
    how_far.look();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

// A short job of one node, for `doctor` and `init`.

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

// This process as the daemon: `daemon`, `tick`, and a command that writes the database by
// itself. An import, `next` and `record` need a writer for a moment. To start a daemon for it
// would also run what waits in the database, which nobody has asked for; so the command takes
// the lock, serves its own request, and gives the lock back.

namespace {

namespace fs = std::filesystem;

/// Opening a database to write undoes an unfinished transaction. Over a network that may be one
/// which a daemon on another host is about to finish: its lease is read first, without writing.
Result<void> refuse_foreign_writer(const Session& session, const Policy& policy) {
  std::error_code error;
  const fs::path& file = session.home.database;
  if (is_local_file_system(file) || !fs::exists(file, error)) return {};
  const auto found = Reader::holder_in(file);
  if (!found && found.error().kind == FaultKind::busy) return tl::unexpected<Fault>(found.error());
  if (!found) return {};  // no daemon is at it; what it is is told by who opens it
  const auto& holder = *found;
  if (!holder || holder->host == this_process().host) return {};
  const double silent_s = to_seconds(session.clock.now() - holder->renewed);
  if (silent_s > policy.lease_ttl_s) return {};
  return fault(FaultKind::busy, "another daemon has this database: " + describe(*holder));
}

/// The same, tried again for as long as `life` has patience.
Result<void> await_foreign_writer(
    const Session& session, const LifeOptions& life, const Policy& policy) {
  constexpr int pause_ms = 500;
  const auto until = session.clock.steady() + std::chrono::duration<double>(life.patience_s);
  while (!life.take_over) {
    auto free = refuse_foreign_writer(session, policy);
    const bool wait = !free && free.error().kind == FaultKind::busy;
    if (!wait || session.clock.steady() >= until) return free;
    ::poll(nullptr, 0, pause_ms);
  }
  return {};
}

}  // namespace

Result<bool> be_daemon(const Session& session, const LifeOptions& life, const Policy& policy) {
  SHARDSWEEP_TRY(make_home(session.home));
  SHARDSWEEP_TRY(await_foreign_writer(session, life, policy));
  SHARDSWEEP_ASSIGN(const auto store, Store::open(session.home.database));
  const auto make_scheduler = [&](Backend backend, const SiteSpec& site) {
    if (backend == Backend::local) return make_local_scheduler(session.installation.agent);
    return site.rest.url.empty() ? make_slurm_cli_scheduler(policy, session.clock)
                                 : make_slurm_rest_scheduler(site.rest, policy, session.clock);
  };
  return run_daemon(
      {.home = session.home,
          .installation = session.installation,
          .store = *store,
          .clock = session.clock,
          .make_scheduler = make_scheduler,
          .make_notifier =
              [&session](
                  const NotifySettings& settings) { return make_webhook(settings, session.clock); },
          .take_tree = [&session](const SweepSpec& sweep,
                           const std::string& known) { return tree_of_now(session, sweep, known); },
          .random_hex = random_hex,
          .policy = policy},
      life);
}

Result<Answer> ask_writer(const Session& session, Request request) {
  // A point is asked for, and told, many times.
  const bool says = request.verb != Verb::next && request.verb != Verb::record;
  if (daemon_runs(session)) return ask_daemon(session, std::move(request));
  SHARDSWEEP_ASSIGN(const std::string id, post_to_daemon(session, std::move(request)));
  log_warnings_alone();
  const auto written = be_daemon(session, {.serve_only = true}, {});
  // A daemon that has started meanwhile (`busy`) answers the request.
  if (!written && written.error().kind != FaultKind::busy) {
    SHARDSWEEP_TRY(withdraw_request(session.home, id));
    return tl::unexpected<Fault>(written.error());
  }
  if (written && says)
    say("No daemon runs: this command has written the database, and started none.");
  return await_answer(session, id);
}

}  // namespace shardsweep
