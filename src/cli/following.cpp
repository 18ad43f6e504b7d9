// SPDX-License-Identifier: Apache-2.0
// Progress: one live line on a terminal, plain lines into a file.
#include "cli/session.hpp"

#include <shardsweep/requests.hpp>
#include <shardsweep/trouble.hpp>

#include <fmt/format.h>

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 300ms;
constexpr auto plain_line_every = 5s;

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) {
  interrupted = 1;
}

/// Ctrl-C ends the following, not the sweep.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = note_interrupt;
    ::sigaction(SIGINT, &action, &before_);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

std::int64_t count_of(const std::map<std::string, std::int64_t>& counts, std::string_view key) {
  const auto found = counts.find(std::string(key));
  return found == counts.end() ? 0 : found->second;
}

std::string duration_text(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

/// "quickstart 12/36: 10 completed, 1 oom, 1 skipped; running …; about 20 s left"
std::string progress_line(const SweepStatus& status) {
  const std::int64_t ended = count_of(status.by_state, name(State::ended));
  std::string line = fmt::format("{} {}/{}", status.name, ended, status.trials);
  const char* separator = ": ";
  for (const OutcomeInfo& row : outcome_table) {
    if (const std::int64_t count = count_of(status.by_outcome, row.name); count > 0) {
      line += fmt::format("{}{} {}", separator, count, row.name);
      separator = ", ";
    }
  }
  if (!status.running.empty()) {
    line += "; running " + status.running;
  } else if (!status.waiting.empty()) {
    line += "; " + status.waiting;
  } else if (ended == status.trials && status.last_controls > 0) {
    line += "; the last control runs";
  }
  if (status.state != "active") line += "; " + status.state;
  if (ended < status.trials) {
    line += fmt::format("; about {} left", duration_text(status.remaining_s));
  }
  return line;
}

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

class Progress {
 public:
  explicit Progress(const Clock& clock) : clock_(clock), live_(::isatty(STDERR_FILENO) == 1) {}

  void show(const std::string& line) {
    if (live_) {
      fmt::print(stderr, "\r\x1b[2K{}", line.substr(0, terminal_width() - 1));
      std::fflush(stderr);
      return;
    }
    const auto now = clock_.steady();
    if (line == last_ || (now - shown_at_ < plain_line_every && !last_.empty())) return;
    say(line);
    last_ = line;
    shown_at_ = now;
  }

  void end(const std::string& line) {
    if (live_) {
      fmt::print(stderr, "\r\x1b[2K{}\n", line);
    } else if (line != last_) {
      say(line);
    }
  }

 private:
  const Clock& clock_;
  bool live_;
  std::string last_;
  std::chrono::steady_clock::time_point shown_at_;
};

bool over(const SweepStatus& status) {
  return count_of(status.by_state, name(State::ended)) == status.trials &&
         status.last_controls == 0;
}

ExitCode verdict(const std::vector<SweepStatus>& statuses) {
  const bool undecided =
      std::any_of(statuses.begin(), statuses.end(),
                  [](const SweepStatus& s) { return s.undecided > 0 || !over(s); });
  return undecided ? ExitCode::undecided : ExitCode::done;
}

std::string joined(const std::vector<SweepStatus>& statuses) {
  std::string line;
  for (const SweepStatus& status : statuses) {
    if (!line.empty()) line += " | ";
    line += progress_line(status);
  }
  return line;
}

/// Says each trouble once, when it begins, and again when it is over.
class TroubleTelling {
 public:
  void tell(std::vector<Trouble> now) {
    for (const Trouble& one : now) {
      if (!known(told_, one)) say(text(one));
    }
    for (const Trouble& one : told_) {
      if (!known(now, one)) say(fmt::format("Over: {} ({}).", name(one.kind), one.where));
    }
    told_ = std::move(now);
  }

 private:
  static bool known(const std::vector<Trouble>& all, const Trouble& trouble) {
    return std::any_of(all.begin(), all.end(), [&](const Trouble& one) {
      return one.kind == trouble.kind && one.where == trouble.where;
    });
  }
  std::vector<Trouble> told_;
};

/// What the user has to know when nothing moves: the sweep is not over and nobody works on it.
Result<bool> nobody_works(const Session& session, const std::vector<SweepStatus>& statuses) {
  const bool paused = std::all_of(statuses.begin(), statuses.end(), [](const SweepStatus& s) {
    return over(s) || (s.state != "active" && count_of(s.by_state, name(State::running)) == 0 &&
                       count_of(s.by_state, name(State::queued)) == 0);
  });
  return paused || !daemon_runs(session);
}

ExitCode left_alone(const std::vector<SweepStatus>& statuses, Progress& progress) {
  progress.end(joined(statuses));
  for (const SweepStatus& status : statuses) {
    if (!status.waiting.empty()) say(status.name + " " + status.waiting);
  }
  say("nobody works on it: 'shardsweep resume' goes on");
  return ExitCode::undecided;
}

}  // namespace

Result<ExitCode> follow_sweeps(const Session& session, const std::vector<std::string>& sweeps) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const InterruptGuard guard;
  Progress progress(session.clock);
  TroubleTelling telling;
  for (;;) {
    SHARDSWEEP_ASSIGN(const auto statuses, reader->status(sweeps));
    const std::string line = joined(statuses);
    if (std::all_of(statuses.begin(), statuses.end(), over)) {
      progress.end(line);
      return verdict(statuses);
    }
    progress.show(line);
    telling.tell(troubles(session.home));
    if (interrupted != 0) {
      progress.end(line);
      say("stopped following; the sweep goes on. 'shardsweep follow' follows it again, "
          "'shardsweep pause' stops it");
      return ExitCode::interrupted;
    }
    SHARDSWEEP_ASSIGN(const bool idle, nobody_works(session, statuses));
    if (idle) {
      // The daemon may have ended between the two looks because everything is over.
      SHARDSWEEP_ASSIGN(const auto again, reader->status(sweeps));
      if (!std::all_of(again.begin(), again.end(), over)) return left_alone(again, progress);
    }
    std::this_thread::sleep_for(look_every);
  }
}

}  // namespace shardsweep
