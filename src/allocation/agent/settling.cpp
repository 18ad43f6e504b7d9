// SPDX-License-Identifier: Apache-2.0
// Decision: A thread reads, judges and packs an ended attempt. Over NFS that may take longer
// than the limit after which a silent lead is given up, and the lead's loop must go on beating.
#include "agent/settling.hpp"

#include "agent/spawn.hpp"
#include "node/recorder_file.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/record.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <utility>

namespace shardsweep::agent {
namespace {

std::optional<RecorderReading> recorders_of(const AttemptPaths& paths, const Log& log) {
  auto reading = read_recorders(paths);
  if (reading) return *std::move(reading);
  log.line(reading.error().what);
  return std::nullopt;
}

Settlement settle(const EndedAttempt& attempt, const Log& log) {
  fail_point("lead.settle");
  const AttemptPaths paths{attempt.assign.dir};
  const auto records = read_attempt_records(paths);
  if (!records) log.line(records.error().what);
  Settlement settled =
      judge_ended(attempt, records && has_result(records->text, attempt.assign.nonce),
          [&] { return recorders_of(paths, log); });
  const auto packed = pack_attempt(paths, attempt.spec.limits.keep_log_bytes);
  if (!packed) log.line(packed.error().what);
  settled.packed = packed.has_value();
  return settled;
}

}  // namespace

Settling::Settling(EndedAttempt attempt, const Log& log)
    : done_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this, attempt = std::move(attempt), &log] {
        settled_ = settle(attempt, log);
        const std::uint64_t one = 1;
        (void)!::write(done_.get(), &one, sizeof one);
      }) {}

Settling::~Settling() {
  if (thread_.joinable()) thread_.join();
}

std::optional<Settlement> Settling::take() {
  std::uint64_t count = 0;
  if (::read(done_.get(), &count, sizeof count) != sizeof count) return std::nullopt;
  thread_.join();
  return std::move(settled_);
}

namespace {

namespace fs = std::filesystem;

constexpr auto limit = std::chrono::seconds(30);  // a thread waits; the lead beats
constexpr std::size_t longest_answer = 16 << 20;
constexpr const char* reader = "shardbench-cpu";

/// Reads until the child closes its stdout; false if that takes too long or the text is too long.
bool read_to_end(int descriptor, std::string& text) {
  using std::chrono::milliseconds;
  const SystemClock clock;
  const auto deadline = clock.steady() + limit;
  std::array<char, 16384> buffer{};
  while (text.size() < longest_answer) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock.steady()).count();
    pollfd polled{descriptor, POLLIN, 0};
    if (left <= 0 || ::poll(&polled, 1, static_cast<int>(left)) == 0) return false;
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return false;
}

Result<std::string> output_of(const std::vector<std::string>& argv) {
  SHARDSWEEP_ASSIGN(PipedChild child, start_piped(argv, current_environment()));
  child.to.reset();
  std::string text;
  const bool whole = read_to_end(child.from.get(), text);
  // Kill it: all of its answer is there, or it is given up.
  ::kill(child.pid, SIGKILL);
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!whole) return fault(FaultKind::timed_out, argv[0] + " did not answer");
  return text;
}

}  // namespace

Result<RecorderReading> read_recorders(const AttemptPaths& attempt) {
  std::error_code error;
  const fs::path copies = attempt.evidence() / "recorder";
  const fs::path folder = fs::exists(copies, error) ? copies : attempt.recorder();
  if (!fs::exists(folder, error))
    return fault(FaultKind::unavailable, "no flight recorders were kept");
  SHARDSWEEP_ASSIGN(const std::string own, own_program());
  const fs::path program = fs::path(own).parent_path() / reader;
  SHARDSWEEP_ASSIGN(const std::string text, output_of({program, "--read-recorder", folder}));
  SHARDSWEEP_ASSIGN(RecorderReading reading, decode_recorder_reading(text));
  fs::create_directories(attempt.evidence(), error);
  (void)write_own_file(attempt.evidence() / "recorder.json", text);
  return reading;
}

}  // namespace shardsweep::agent
