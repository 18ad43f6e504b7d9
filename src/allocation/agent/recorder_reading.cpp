// SPDX-License-Identifier: Apache-2.0
#include "agent/recorder_reading.hpp"

#include "agent/spawn.hpp"
#include "node/recorder_file.hpp"

#include <shardsweep/clock.hpp>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

namespace shardsweep::agent {
namespace {

namespace fs = std::filesystem;

constexpr auto limit = std::chrono::seconds(30);  // a thread waits; the lead beats
constexpr std::size_t longest_answer = 16 << 20;
constexpr const char* reader = "shardbench-cpu";

/// Until it has closed its stdout; false where it takes too long or says too much.
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
  // It has nothing more to say, or nothing that we wait for.
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
