// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_ranks.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <limits>
#include <utility>

namespace shardsweep::testing {
namespace {

constexpr double for_ever = std::numeric_limits<double>::infinity();
// Two ranks of a node show all that eight do.
constexpr int most_ranks = 2;
constexpr int train_steps = 4;

}  // namespace

void PlayedProcesses::pass(double now_s) {
  for (PlayedProcess& process : all)
    process.gone = process.gone || now_s >= process.ends_at_s;
}

void PlayedProcesses::signal(int number) {
  if (number == SIGCONT) return;
  for (PlayedProcess& process : all) {
    if (process.gone || (process.ignores_term && number != SIGKILL)) continue;
    if (--process.lives > 0) continue;
    process.gone = true;
    process.end.by_signal = true;
    process.end.status = number;
    process.end.not_started.reset();
  }
}

void PlayedProcesses::kill() {
  signal(SIGKILL);
}

bool PlayedProcesses::any_lives() const {
  return std::any_of(all.begin(), all.end(), [](const auto& one) { return !one.gone; });
}

PlayedRanks::PlayedRanks(
    AttemptSpec spec, std::string dir, std::string node, int index, RankFate fate, Around around)
    : spec_(std::move(spec)),
      dir_(std::move(dir)),
      node_(std::move(node)),
      index_(index),
      fate_(std::move(fate)),
      around_(std::move(around)) {}

RankExit PlayedRanks::end_of_ranks() const {
  const auto code = [](RunnerExit exit) { return static_cast<int>(exit); };
  RankExit end;
  if (fate_.not_started) {
    end.status = 127;
    end.not_started = StartFailure{ENOENT, "cannot start /x: No such file or directory"};
    return end;
  }
  switch (fate_.outcome) {
    case Outcome::oom:
      end.status = code(RunnerExit::oom);
      break;
    case Outcome::rejected:
      end.status = code(RunnerExit::invalid_layout);
      break;
    case Outcome::comm_error:
      end.status = code(RunnerExit::comm_error);
      break;
    case Outcome::crashed:
      end.by_signal = true;
      end.status = SIGSEGV;
      break;
    default:
      break;
  }
  return end;
}

std::optional<Evidence> PlayedRanks::start(std::vector<Evidence>&) {
  const auto against = [&](Outcome outcome, const char* why) {
    return Evidence{now().at, {outcome, why, SaidBy::agent}};
  };
  started_s_ = now().s;
  if (fate_.other_programs) {
    Evidence changed = against(Outcome::rejected, "the programs have changed");
    changed.ending.found_code = "another";
    return changed;
  }
  if (fate_.outcome == Outcome::node_failure)
    return against(Outcome::node_failure, "rank 0: fork: Resource temporarily unavailable");
  if (fate_.outcome == Outcome::lost && !fate_.not_started)
    return against(Outcome::lost, "the tool of a side run is not there");
  started_ = true;
  const int first = index_ * spec_.ranks_per_node;
  const int count = std::clamp(spec_.world - first, 0, std::min(spec_.ranks_per_node, most_ranks));
  const bool ends =
      fate_.outcome != Outcome::hung && fate_.outcome != Outcome::timeout && !fate_.waits;
  for (int rank = first; rank < first + count; ++rank) {
    PlayedProcess process{.rank = rank,
        .ends_at_s = ends ? now().s + fate_.seconds : for_ever,
        .end = end_of_ranks(),
        .ignores_term = fate_.ignores_term};
    process.end.rank = rank;
    around_.processes.all.push_back(std::move(process));
  }
  if (fate_.leaks)
    around_.processes.all.push_back(
        {.ends_at_s = for_ever, .ignores_term = fate_.ignores_term, .lives = 3});
  return std::nullopt;
}

// ---- looking

/// start, phases, train steps at equal times, then the result or what went wrong.
void PlayedRanks::write_until(double now_s) {
  if (!started_ || index_ != 0 || fate_.not_started) return;
  const auto& all = around_.processes.all;
  const auto rank_zero =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return one.rank == 0; });
  const bool killed = rank_zero == all.end() || (rank_zero->gone && now_s < rank_zero->ends_at_s);
  if (killed) return;
  const double share = (now_s - started_s_) / fate_.seconds;
  constexpr int stages = train_steps + 3;
  const bool stands = fate_.outcome == Outcome::hung;
  const int last = stands ? 4 : stages;
  for (; written_ < last && share * stages >= written_; ++written_) {
    if (written_ == 0) write({.type = RecordType::start});
    if (written_ == 1) write({.type = RecordType::phase, .phase = "train"});
    if (written_ >= 2 && written_ < 2 + train_steps)
      write({.type = RecordType::train_step, .step = written_ - 1, .step_ms = 1});
  }
  const bool through = written_ == stages && rank_zero->gone;
  if (!through) return;
  ++written_;
  if (fate_.outcome == Outcome::completed && !fate_.exits_early) {
    around_.attempts.write_result(spec_.nonce, dir_, fate_.speed);
    write({.type = RecordType::result});
  } else if (fate_.outcome == Outcome::oom) {
    write({.type = RecordType::error, .error_class = "oom", .message = "played"});
  }
}

void PlayedRanks::write(Record record) {
  record.nonce = spec_.nonce;
  record.t = now().at;
  unread_.push_back(std::move(record));
}

std::vector<RankRecord> PlayedRanks::records(bool asked) {
  write_until(now().s);
  std::vector<RankRecord> read;
  if (!asked && around_.is_late()) return read;
  for (Record& record : std::exchange(unread_, {}))
    read.emplace_back(0, std::move(record));
  return read;
}

/// A hung attempt moves until half of its time.
bool PlayedRanks::recorders_have_moved() {
  if (!started_ || living().empty()) return false;
  return fate_.outcome != Outcome::hung || now().s - started_s_ <= fate_.seconds / 2;
}

std::vector<RankExit> PlayedRanks::exits() {
  std::vector<RankExit> exits;
  for (PlayedProcess& process : around_.processes.all) {
    if (process.rank < 0 || !process.gone || process.noted) continue;
    process.noted = true;
    exits.push_back(process.end);
  }
  return exits;
}

std::optional<Evidence> PlayedRanks::failure_of(const RankExit& exit, bool told, bool) {
  const Timestamp at = now().at;
  if (exit.not_started)
    return evidence_of_no_start(exit.rank, exit.not_started->error, exit.not_started->what, at);
  return exit.by_signal ? evidence_of_signal(exit.rank, exit.status, at, told)
                        : evidence_of_exit(exit.rank, exit.status, at, "");
}

bool PlayedRanks::all_gone() const {
  const auto& all = around_.processes.all;
  return std::all_of(
      all.begin(), all.end(), [](const auto& one) { return one.rank < 0 || one.noted; });
}

std::vector<int> PlayedRanks::living() const {
  std::vector<int> ranks;
  for (const PlayedProcess& process : around_.processes.all) {
    if (process.rank >= 0 && !process.noted) ranks.push_back(process.rank);
  }
  return ranks;
}

// ---- orders

void PlayedRanks::terminate() {
  around_.processes.signal(SIGTERM);
}

void PlayedRanks::kill() {
  for (PlayedProcess& process : around_.processes.all) {
    if (process.rank < 0 || process.gone) continue;
    process.gone = true;
    process.end = {.rank = process.rank, .by_signal = true, .status = SIGKILL};
  }
}

std::vector<std::string> PlayedRanks::leftovers() {
  std::vector<std::string> cmdlines;
  for (const PlayedProcess& process : around_.processes.all) {
    if (!process.gone) cmdlines.emplace_back("played leftover");
  }
  return cmdlines;
}

bool PlayedRanks::reap_once() {
  around_.processes.kill();
  if (around_.processes.any_lives()) return false;
  around_.processes.all.clear();
  return true;
}

Result<void> PlayedRanks::write_result(const std::string& line) {
  SHARDSWEEP_ASSIGN(LineWriter writer, LineWriter::open(AttemptPaths{dir_}.records()));
  return writer.append(line, false);
}

void PlayedRanks::read_logs(std::vector<Evidence>& evidence, Beside&, bool) {
  for (Evidence& one : evidence) {
    if (one.ending.outcome == Outcome::oom) one.ending.fragmented = fate_.fragmented;
  }
}

}  // namespace shardsweep::testing
