// SPDX-License-Identifier: Apache-2.0
// logs: what the ranks of an attempt have printed. Its files lie in the attempt's folder
// while it runs and in a tar file afterwards; AttemptFileReader reads both, so that nothing
// here knows which it is. A log is foreign: a terminal gets its control characters made
// visible, a pipe gets the bytes.
#include "cli/command.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "show/log_text.hpp"
#include "show/table_view.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"
#include "text/secrets.hpp"

#include <shardsweep/attempt_files.hpp>
#include <shardsweep/copied.hpp>
#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

struct LogOptions {
  std::string rank;         ///< a number, or all
  std::int64_t lines = -1;  ///< the last ones; -1: all
  bool follow = false;
  bool list = false;
};

using namespace std::chrono_literals;

constexpr auto log_look_every = 200ms;
constexpr auto ask_every = 1s;  // pause between looks for the attempt's end and new files
constexpr std::size_t log_piece = 65536;

std::string name_of(const AttemptPlace& attempt) {
  return fmt::format("{}.{}", attempt.trial, attempt.number);
}

/// The attempt that a name means, or none if its trial has not been tried yet.
Result<std::optional<AttemptPlace>> find_attempt(Reader& reader, const std::string& name) {
  SHARDSWEEP_ASSIGN(auto named, reader.attempts(name));
  if (named.is_sweep) {
    return fault(FaultKind::invalid_input,
        "'{}' is a sweep. Name one of its trials: `shardsweep results {}` lists them.", name, name);
  }
  if (named.trials.size() > 1) {
    return fault(FaultKind::invalid_input,
        "'{}' is the name of several trials: {}. Name one as SWEEP/TRIAL.", name,
        fmt::join(named.trials, ", "));
  }
  if (named.attempts.empty()) return std::optional<AttemptPlace>();
  return std::optional(named.attempts.back());
}

Result<std::vector<AttemptFile>> files_of(const Session& session, const AttemptPlace& attempt) {
  return list_attempt_files({folder_here(session.home, attempt.dir)});
}

/// Ranks whose log is meant, or a file.
struct LogChoice {
  bool all = false;
  std::optional<int> rank;
  std::string file;  ///< a file by its name
};

Result<LogChoice> choice_of(const Options& options) {
  LogChoice choice;
  const auto& own = options.of<LogOptions>();
  choice.file = options.file;
  if (own.rank.empty()) return choice;
  choice.all = own.rank == "all";
  const auto rank = number_from<int>(own.rank);
  const bool number = rank && *rank >= 0;
  if (number) choice.rank = *rank;
  if (!number && !choice.all) {
    return fault(
        FaultKind::invalid_input, "--rank {}: not a rank. Give a number from 0, or all.", own.rank);
  }
  if (!choice.file.empty())
    return fault(FaultKind::invalid_input, "Give --rank or --file, not both.");
  return choice;
}

std::vector<AttemptFile> logs_of(const std::vector<AttemptFile>& files) {
  std::vector<AttemptFile> logs;
  std::copy_if(files.begin(), files.end(), std::back_inserter(logs),
      [](const AttemptFile& file) { return rank_of_log(file.name).has_value(); });
  return logs;
}

/// Log that is shown without --rank: rank 0's, or the first one with text if that is empty.
std::vector<AttemptFile> usual_log(const std::vector<AttemptFile>& logs) {
  const auto spoke =
      std::find_if(logs.begin(), logs.end(), [](const AttemptFile& file) { return file.size > 0; });
  if (logs.empty()) return {};
  return {spoke == logs.end() ? logs.front() : *spoke};
}

std::vector<AttemptFile> chosen_files(
    const std::vector<AttemptFile>& files, const LogChoice& choice) {
  auto logs = logs_of(files);
  if (choice.all) return logs;
  if (choice.file.empty() && !choice.rank) return usual_log(logs);
  std::vector<AttemptFile> found;
  std::copy_if(files.begin(), files.end(), std::back_inserter(found), [&](const AttemptFile& file) {
    return choice.rank ? rank_of_log(file.name) == choice.rank : file.name == choice.file;
  });
  return found;
}

/// Why there is nothing to print.
Fault nothing_found(
    const AttemptPlace& attempt, const std::vector<AttemptFile>& files, const LogChoice& choice) {
  if (files.empty() && attempt.state == State::ended) {
    return {FaultKind::unavailable,
        fmt::format("The files of {} are gone: {}.tar was removed, for example by `shardsweep gc "
                    "--remove`. `shardsweep show {}` prints its row of the database.",
            name_of(attempt), attempt.dir, attempt.trial)};
  }
  const auto logs = logs_of(files);
  if (attempt.state != State::ended && logs.empty()) {
    return {FaultKind::unavailable,
        fmt::format("{} is {} and has no log yet. --follow waits for it.", name_of(attempt),
            name(attempt.state))};
  }
  if (!choice.file.empty()) {
    return {FaultKind::invalid_input,
        fmt::format("{} has no file '{}'; --list shows its files.", name_of(attempt), choice.file)};
  }
  if (choice.rank && !logs.empty()) {
    return {FaultKind::invalid_input,
        fmt::format("{} has no log of rank {}: it has {}, from 0 to {}.", name_of(attempt),
            *choice.rank, counted(std::ssize(logs), "rank"),
            rank_of_log(logs.back().name).value_or(0))};
  }
  return {FaultKind::unavailable,
      fmt::format("No rank of {} was started, so there is no log. --list shows its other files.",
          name_of(attempt))};
}

/// One file on its way to stdout.
class LogStream {
 public:
  static Result<LogStream> open(const AttemptFile& file, std::string prefix, bool visible,
      std::int64_t lines, const Secrets& secrets) {
    SHARDSWEEP_ASSIGN(auto reader, AttemptFileReader::open(file));
    std::uint64_t begin = 0;
    if (lines >= 0)
      SHARDSWEEP_SET(begin, begin_of_last_lines(reader, static_cast<std::uint64_t>(lines)));
    return LogStream(std::move(reader), LogText(std::move(prefix), visible), begin, secrets);
  }
  /// Prints what there is by now.
  Result<void> print() {
    for (;;) {
      SHARDSWEEP_ASSIGN(const std::string bytes, reader_.read(at_, log_piece));
      if (bytes.empty()) return {};
      at_ += bytes.size();
      SHARDSWEEP_TRY(print_result(text_.take(masked_.take(bytes))));
    }
  }
  Result<void> end() {
    const std::string last = text_.take(masked_.rest());
    return print_result(last + text_.rest());
  }

 private:
  LogStream(AttemptFileReader reader, LogText text, std::uint64_t begin, const Secrets& secrets)
      : reader_(std::move(reader)), masked_(secrets), text_(std::move(text)), at_(begin) {}
  AttemptFileReader reader_;
  MaskedPieces masked_;  ///< when an attempt has ended, its files are masked themselves
  LogText text_;
  std::uint64_t at_;
};

std::string prefix_of(const AttemptFile& file, const LogChoice& choice) {
  return choice.all ? fmt::format("[rank {}] ", rank_of_log(file.name).value_or(0)) : "";
}

/// Says which of several logs this is, and how to see the others.
void tell_others(const AttemptPlace& attempt, const std::vector<AttemptFile>& files,
    const std::vector<AttemptFile>& chosen, const LogChoice& choice) {
  const auto logs = logs_of(files);
  if (choice.all || choice.rank || !choice.file.empty() || logs.size() < 2) return;
  say("{}: rank {} of {}. --rank N or --rank all prints the others.", name_of(attempt),
      rank_of_log(chosen.front().name).value_or(0), logs.size());
}

Result<ExitCode> list_files(const std::vector<AttemptFile>& files, Format format) {
  Table table;
  table.columns = {"file", "size_bytes"};
  for (const AttemptFile& file : files)
    table.rows.push_back({file.name, static_cast<std::int64_t>(file.size)});
  return deliver(table_text(table, format));
}

/// Prints what the attempt writes until it has ended.
class LogFollower {
 public:
  LogFollower(const Session& session, Reader& reader, LogChoice choice)
      : session_(session),
        reader_(reader),
        choice_(std::move(choice)),
        visible_(::isatty(STDOUT_FILENO) == 1) {}

  Result<ExitCode> follow(const std::string& name) {
    const InterruptGuard interrupts;
    while (!InterruptGuard::seen()) {
      if (is_due()) SHARDSWEEP_TRY(look(name));
      for (auto& [file, stream] : streams_)
        SHARDSWEEP_TRY(stream.print());
      // The attempt's state was read before its lines, so all lines of an ended attempt are
      // printed.
      if (attempt_ && attempt_->state == State::ended) return end();
      std::this_thread::sleep_for(log_look_every);
    }
    return ExitCode::interrupted;
  }

 private:
  /// Every `ask_every`, the first time at once.
  bool is_due() {
    const auto now = session_.clock.steady();
    if (asked_ && now - *asked_ < ask_every) return false;
    asked_ = now;
    return true;
  }

  /// Finds out if the attempt has begun or ended, and which files it has by now.
  Result<void> look(const std::string& name) {
    if (!attempt_) {
      SHARDSWEEP_ASSIGN(attempt_, find_attempt(reader_, name));
      if (!attempt_) return tell_waiting(name);
    } else {
      SHARDSWEEP_TRY(look_again());
    }
    SHARDSWEEP_ASSIGN(const auto files, files_of(session_, *attempt_));
    // The rank to print is settled when the first one has a file.
    if (streams_.empty())
      SHARDSWEEP_SET(secrets_, read_secrets(session_.home.secrets_of(attempt_->sweep)));
    const auto chosen =
        streams_.empty() || choice_.all ? chosen_files(files, choice_) : std::vector<AttemptFile>();
    for (const AttemptFile& file : chosen) {
      if (streams_.contains(file.name)) continue;
      if (streams_.empty()) tell_others(*attempt_, files, chosen, choice_);
      auto stream = LogStream::open(file, prefix_of(file, choice_), visible_,
          session_.options.of<LogOptions>().lines, secrets_);
      // Packed between the list and the look: the next look finds it there.
      if (stream) streams_.emplace(file.name, *std::move(stream));
    }
    if (attempt_->state == State::ended && streams_.empty())
      return tl::unexpected<Fault>(nothing_found(*attempt_, files, choice_));
    return {};
  }

  /// The same attempt, also when its trial is tried once more.
  Result<void> look_again() {
    const std::string trial = fmt::format("{}/{}", attempt_->sweep, attempt_->trial);
    SHARDSWEEP_ASSIGN(const NamedAttempts named, reader_.attempts(trial));
    for (const AttemptPlace& one : named.attempts) {
      if (one.number == attempt_->number) attempt_ = AttemptPlace(one);
    }
    return {};
  }

  Result<void> tell_waiting(const std::string& name) {
    if (!std::exchange(told_, true)) say("Waiting for the first attempt of {} to begin.", name);
    return {};
  }

  Result<ExitCode> end() {
    for (auto& [file, stream] : streams_)
      SHARDSWEEP_TRY(stream.end());
    say("{} ended: {}", name_of(*attempt_),
        attempt_->outcome ? name(*attempt_->outcome) : "taken back");
    return ExitCode::done;
  }

  const Session& session_;
  Reader& reader_;
  LogChoice choice_;
  bool visible_;
  bool told_ = false;
  std::optional<std::chrono::steady_clock::time_point> asked_;  ///< time of the last look
  std::optional<AttemptPlace> attempt_;
  Secrets secrets_;  ///< secrets of the attempt's sweep
  std::map<std::string, LogStream> streams_;
};

Result<ExitCode> print_logs(
    const Session& session, const AttemptPlace& attempt, const LogChoice& choice) {
  SHARDSWEEP_ASSIGN(const auto files, files_of(session, attempt));
  if (session.options.of<LogOptions>().list && !files.empty())
    return list_files(files, session.options.format);
  const auto chosen = chosen_files(files, choice);
  if (chosen.empty()) return tl::unexpected<Fault>(nothing_found(attempt, files, choice));
  tell_others(attempt, files, chosen, choice);
  const bool visible = ::isatty(STDOUT_FILENO) == 1;
  SHARDSWEEP_ASSIGN(const Secrets secrets, read_secrets(session.home.secrets_of(attempt.sweep)));
  std::uint64_t bytes = 0;
  for (const AttemptFile& file : chosen) {
    SHARDSWEEP_ASSIGN(auto stream,
        LogStream::open(file, prefix_of(file, choice), visible,
            session.options.of<LogOptions>().lines, secrets));
    SHARDSWEEP_TRY(stream.print());
    SHARDSWEEP_TRY(stream.end());
    bytes += file.size;
  }
  if (bytes == 0) {
    say("{}: {} empty.", name_of(attempt),
        chosen.size() == 1 ? chosen.front().name + " is" : "the logs are");
  }
  return ExitCode::done;
}

/// The last lines, whole secrets hidden, though the first line may be cut.
Result<std::string> end_of_log(const AttemptFile& file, const Secrets& secrets) {
  constexpr std::uint64_t lines = 2000;
  constexpr std::uint64_t most_bytes = 256 << 10;
  constexpr std::uint64_t longest_secret = 64 << 10;
  SHARDSWEEP_ASSIGN(const auto reader, AttemptFileReader::open(file));
  SHARDSWEEP_ASSIGN(const auto begin, begin_of_last_lines(reader, lines));
  SHARDSWEEP_ASSIGN(const auto size, reader.size());
  const auto from = std::max(begin, size > most_bytes ? size - most_bytes : 0);
  const auto before = std::min(from, longest_secret);
  SHARDSWEEP_ASSIGN(const auto bytes, reader.read(from - before, before + most_bytes));
  LogText text("", true);
  const auto shown = masked(bytes, secrets).substr(std::min<std::size_t>(before, bytes.size()));
  const auto whole = text.take(shown);
  return whole + text.rest();
}

}  // namespace

Result<LogPart> log_part(const Session& session, const std::string& file) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const auto& name = session.options.names.at(0);
  SHARDSWEEP_ASSIGN(const auto attempt, find_attempt(*reader, name));
  if (!attempt) return LogPart{.why = fmt::format("{} has no attempt yet.", name)};
  SHARDSWEEP_ASSIGN(const auto files, files_of(session, *attempt));
  const LogChoice choice{.file = file};
  LogPart part{.ended = attempt->state == State::ended};
  for (const AttemptFile& one : files)
    part.files.push_back(one.name);
  const auto chosen = chosen_files(files, choice);
  if (chosen.empty()) {
    part.why = nothing_found(*attempt, files, choice).what;
    return part;
  }
  part.file = chosen.front().name;
  SHARDSWEEP_ASSIGN(const Secrets secrets, read_secrets(session.home.secrets_of(attempt->sweep)));
  SHARDSWEEP_ASSIGN(part.text, end_of_log(chosen.front(), secrets));
  return part;
}

namespace {

Result<ExitCode> run_logs(const Session& session) {
  SHARDSWEEP_ASSIGN(const LogChoice choice, choice_of(session.options));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const std::string& name = session.options.names.at(0);
  if (session.options.of<LogOptions>().follow)
    return LogFollower(session, *reader, choice).follow(name);
  SHARDSWEEP_ASSIGN(const auto attempt, find_attempt(*reader, name));
  if (!attempt) {
    return fault(FaultKind::unavailable,
        "{} has no attempt, so there is no log. `shardsweep show {}` says why; --follow waits for "
        "its first attempt.",
        name, name);
  }
  return print_logs(session, *attempt, choice);
}

}  // namespace

extern const Command command_logs{.name = "logs",
    .heading = Heading::daily,
    .help = "Print what the ranks of an attempt have printed.",
    .examples =
        "shardsweep logs m-tiny-tp2 --lines 50\n"
        "shardsweep logs m-tiny-tp2.1 --rank all --follow",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          auto& own = grammar.own<LogOptions>();
          grammar
              .option("name", options.names, "TRIAL",
                  "Trial or attempt (SLUG.2). A trial means its last attempt. A terminal gets "
                  "control characters as \\xNN, a pipe or a file the raw bytes.")
              .required()
              .times(1, 1);
          grammar.option("--rank", own.rank, "N",
              "Rank to print, or all with a prefix. Default: 0, or the first rank that has printed "
              "anything.");
          grammar.option("--lines", own.lines, "N", "Only the last N lines of each log.")
              .whole_number(0, 1'000'000'000);
          grammar.flag("--follow", own.follow, "Print new lines until the attempt ends.");
          grammar.flag("--list", own.list, "List the attempt's files instead.");
          grammar.option(
              "--file", options.file, "FILE", "Print this file of the attempt instead of a log.");
          grammar.format();
        },
    .run = run_logs};

}  // namespace shardsweep
