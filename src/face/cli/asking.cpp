// SPDX-License-Identifier: Apache-2.0
// Asking the daemon for a change: a request file, and a daemon if none runs. Only the
// daemon writes the database, so every verb goes this way. The request is on disk before a
// daemon is looked for: if the command dies, or the daemon it has started, whoever comes
// next serves it. A daemon is not asked whether it is ready; it is ready when it answers.
#include "cli/daemon_job.hpp"
#include "cli/ongoing.hpp"
#include "cli/session.hpp"
#include "cli/version.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/copied.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/trouble.hpp>

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>

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

}  // namespace shardsweep
