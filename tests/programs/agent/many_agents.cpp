// SPDX-License-Identifier: Apache-2.0
// The node agents of a large allocation in one process, in srun's place: `many_agents COUNT
// LEASE_S REPORT`. They beat, answer a launch at once with the files and the ends of an attempt
// that completed, and leave where their lead is silent for longer than the lease. The longest
// silence, in seconds, goes to REPORT.
#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

using namespace shardsweep;

namespace {

using Steady = std::chrono::steady_clock;

int count = 0;

double seconds_since(Steady::time_point then) {
  return std::chrono::duration<double>(Steady::now() - then).count();
}

void say(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else {
      pollfd polled{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&polled, 1, 1000);
    }
  }
}

/// The same of every node.
template <class Make>
void all_say(Make&& make) {
  std::string text;
  for (int node = 0; node < count; ++node)
    text += encode(FromNode{fmt::format("n{}", node), make(node)}) + "\n";
  say(text);
}

void run_attempt(const Launch& launch) {
  const AttemptPaths paths{launch.dir};
  const auto spec = decode_attempt_spec(read_file(paths.spec()).value_or(""));
  std::filesystem::create_directories(paths.recorder());
  for (int rank = 0; rank < count; ++rank) {
    std::ofstream(paths.rank_log(rank)) << std::string(1000, 'x');
    std::ofstream(paths.recorder() / fmt::format("rank.{}", rank)) << std::string(4096, 'x');
  }
  std::ofstream(paths.records()) << fmt::format(R"({{"type":"result","run_id":"{}"}})",
                                        spec ? spec->nonce : "")
                                 << '\n';
  all_say([&](int) { return FromNodeBody{NodeLaunched{launch.attempt}}; });
  all_say([&](int) {
    return FromNodeBody{
        NodeEnded{.attempt = launch.attempt, .ending = {.outcome = Outcome::completed}}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  count = std::atoi(argv[1]);
  const double lease_s = std::atof(argv[2]);
  ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  all_say([](int node) {
    return FromNodeBody{NodeReady{fmt::format("n{}", node), "host", 1, node}};
  });
  auto heard = Steady::now();
  auto beaten = heard;
  double longest_s = 0;
  std::string received;
  for (bool open = true; open;) {
    pollfd polled{STDIN_FILENO, POLLIN, 0};
    ::poll(&polled, 1, 100);
    std::array<char, 65536> buffer{};
    ssize_t got = 0;
    while ((got = ::read(STDIN_FILENO, buffer.data(), buffer.size())) > 0)
      received.append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0) break;
    longest_s = std::max(longest_s, seconds_since(heard));
    if (longest_s > lease_s) break;
    for (std::size_t end = 0; (end = received.find('\n')) != std::string::npos;) {
      const auto line = decode_to_node(received.substr(0, end));
      received.erase(0, end + 1);
      if (!line) continue;
      if (const auto* launch = std::get_if<Launch>(&*line)) run_attempt(*launch);
      heard = Steady::now();
      open = open && !std::holds_alternative<Quit>(*line);
    }
    if (seconds_since(beaten) < 1) continue;
    beaten = Steady::now();
    all_say([](int) { return FromNodeBody{NodeBeat{}}; });
  }
  std::ofstream(argv[3]) << longest_s << '\n';
}
