// SPDX-License-Identifier: Apache-2.0
#include "agent/evidence.hpp"

#include "agent/spawn.hpp"
#include "machine/descriptor.hpp"
#include "machine/processes.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <system_error>

namespace shardsweep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t tail_bytes = 4096;
constexpr std::size_t shown_line = 200;
constexpr std::size_t most_others = 64;
constexpr std::size_t largest_recorder = std::size_t{64} * 1024;

std::uintmax_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

}  // namespace

EvidenceTaking::EvidenceTaking(AttemptPaths paths, NodeEvidence seen, std::vector<Rank> ranks,
    double limit_s, double gdb_s, double now_s)
    : paths_(std::move(paths)),
      seen_(std::move(seen)),
      ranks_(std::move(ranks)),
      deadline_s_(now_s + limit_s),
      gdb_s_(gdb_s) {
  std::set<pid_t> known;
  for (const Rank& rank : ranks_) {
    copy_recorder(rank.number);
    seen_.ranks.push_back({rank.number, "", inspect(rank.pid)});
    known.insert(rank.pid);
  }
  for (const pid_t pid : descendants_of(::getpid())) {
    if (seen_.others.size() == most_others) break;
    if (!known.contains(pid)) seen_.others.push_back(inspect(pid));
  }
  // Ask last: a backtrace disturbs what was to be looked at.
  for (const Rank& rank : ranks_)
    ask_for_backtrace(rank);
}

/// Copies the recorder now: ranks write to it once more while they are ended.
void EvidenceTaking::copy_recorder(int rank) {
  const std::string name = "rank." + std::to_string(rank);
  const auto recorder = read_own_file(paths_.recorder() / name, largest_recorder);
  if (!recorder) return;
  std::error_code error;
  fs::create_directories(paths_.evidence() / "recorder", error);
  (void)write_own_file(paths_.evidence() / "recorder" / name, *recorder);
}

void EvidenceTaking::ask_for_backtrace(const Rank& rank) {
  const auto seen = std::find_if(seen_.ranks.begin(), seen_.ranks.end(),
      [&](const auto& one) { return one.rank == rank.number; });
  // SIGQUIT ends a process without a handler, and a stopped one can't answer.
  if (!seen->state.catches_quit || seen->state.state == 'T' || seen->state.state == 'Z') return;
  const std::uintmax_t size = size_of(paths_.rank_log(rank.number));
  asked_[rank.number] = {size, size};
  ::kill(rank.pid, SIGQUIT);
}

/// A backtrace is there when the output has grown and grows no more.
bool EvidenceTaking::answered() {
  bool all = true;
  for (auto& [rank, output] : asked_) {
    const std::uintmax_t size = size_of(paths_.rank_log(rank));
    all = all && size > output.before && size == output.at_last_look;
    output.at_last_look = size;
  }
  return all;
}

bool EvidenceTaking::step(double now_s) {
  if (!gdb_deadline_s_) {
    if (!answered() && now_s < deadline_s_) return false;
    write();
    ask_gdb(now_s);
  }
  if (!gdb_.is_over() && now_s < *gdb_deadline_s_) return false;
  gdb_.end();
  return true;
}

/// Last of all: it stops the ranks while it looks, and may take long.
void EvidenceTaking::ask_gdb(double now_s) {
  gdb_deadline_s_ = now_s + gdb_s_;
  if (gdb_s_ <= 0) return;
  std::vector<GdbLook::Rank> ranks;
  for (const Rank& rank : ranks_)
    ranks.push_back({rank.number, rank.pid});
  gdb_.start(paths_, ranks, current_environment());
}

void EvidenceTaking::write() {
  for (auto& rank : seen_.ranks)
    rank.last_line = last_line_of(paths_.rank_log(rank.rank));
  std::error_code error;
  fs::create_directories(paths_.evidence(), error);
  (void)write_own_file(paths_.evidence() / (seen_.node + ".json"), encode(seen_));
}

std::string last_line_of(const fs::path& log) {
  const Descriptor file(::open(log.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return "";
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  std::string tail(tail_bytes, '\0');
  const auto from = std::max<off_t>(0, size - static_cast<off_t>(tail.size()));
  const ssize_t got = ::pread(file.get(), tail.data(), tail.size(), from);
  tail.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!tail.empty() && static_cast<unsigned char>(tail.back()) <= ' ')
    tail.pop_back();
  const std::size_t begin = tail.rfind('\n');
  return tail.substr(begin == std::string::npos ? 0 : begin + 1).substr(0, shown_line);
}

namespace {

// Each reads the symbols of everything its rank has loaded: gigabytes for a trainer.
constexpr std::size_t most_at_once = 8;

std::vector<std::string> command(const std::string& gdb, pid_t pid) {
  // Options: no .gdbinit, and a limit for a stack that runs in circles.
  return {gdb, "-nx", "-batch", "-ex", "set pagination off", "-p", std::to_string(pid), "-ex",
      "thread apply all backtrace 64"};
}

/// Symbols are not fetched from servers: a node may not reach any, and waits for them.
Environment offline(Environment own) {
  std::erase_if(
      own, [](const std::string& entry) { return entry.starts_with("DEBUGINFOD_URLS="); });
  return own;
}

}  // namespace

void GdbLook::start(
    const AttemptPaths& attempt, const std::vector<Rank>& ranks, const Environment& own) {
  const auto gdb = find_program("gdb", own);
  if (!gdb) return;
  std::error_code error;
  std::filesystem::create_directories(attempt.evidence(), error);
  for (const Rank& rank : ranks) {
    if (looking_.size() == most_at_once) return;
    const auto output = attempt.evidence() / fmt::format("gdb.rank.{}.txt", rank.number);
    const auto child =
        start_rank({command(*gdb, rank.pid), offline(own), attempt.evidence(), output, 0});
    if (child) looking_.push_back(*child);
  }
}

bool GdbLook::is_over() {
  // Another waitpid of this process may have reaped it first: ECHILD.
  std::erase_if(looking_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  return looking_.empty();
}

void GdbLook::end() {
  if (is_over()) return;
  for (const pid_t pid : looking_) {
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  looking_.clear();
}

}  // namespace shardsweep::agent
