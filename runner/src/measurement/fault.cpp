// SPDX-License-Identifier: Apache-2.0
#include "measurement/fault.hpp"

#include "base/clock.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <utility>
#include <vector>

namespace shardbench {
namespace {

constexpr int most_descriptors = 1024;

/// The whole of text[from, to) as a count.
bool read_number(const std::string& text, std::size_t from, std::size_t to, i64& number) {
  const char* end = text.data() + to;
  const auto parsed = std::from_chars(text.data() + from, end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end && number >= 0;
}

}  // namespace

std::optional<Fault> parse_fault(const std::string& text, i64 world) {
  Fault fault;
  if (text.empty()) return fault;
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return std::nullopt;
  constexpr std::array<std::pair<const char*, FaultKind>, 11> kinds{
      {{"hang", FaultKind::hang}, {"stop", FaultKind::stop}, {"crash", FaultKind::crash},
          {"exit0", FaultKind::exit0}, {"nan", FaultKind::nan}, {"slow", FaultKind::slow},
          {"oom", FaultKind::oom}, {"garbage", FaultKind::garbage}, {"fork", FaultKind::fork},
          {"hold", FaultKind::hold}, {"kill", FaultKind::kill}}};
  for (const auto& [name, kind] : kinds)
    if (text.substr(0, at) == name) fault.kind = kind;
  const std::size_t colon = std::min(text.find(':', at), text.size());
  const std::size_t plus = std::min(text.find('+', at), colon);
  fault.phase = text.substr(at + 1, plus - at - 1);
  constexpr std::array<const char*, 6> phases{
      "start", "rendezvous", "init", "warmup", "train", "teardown"};
  bool known = false;
  for (const char* phase : phases)
    known = known || fault.phase == phase;
  fault.rank = world - 1;
  if (plus < colon && !read_number(text, plus + 1, colon, fault.step)) return std::nullopt;
  if (colon < text.size() && !read_number(text, colon + 1, text.size(), fault.rank))
    return std::nullopt;
  if (!known || fault.kind == FaultKind::none) return std::nullopt;
  return fault;
}

void hang() {
  while (true)
    sleep_ms(60000);
}

void stop() {
  (void)::raise(SIGSTOP);
}

void leave_orphan(int seconds, i64 bytes) {
  const pid_t child = ::fork();
  if (child > 0) (void)::waitpid(child, nullptr, 0);
  if (child != 0) return;
  (void)::setsid();
  // Close the sockets, as exec would: their end tells the peers of a death.
  for (int fd = 3; fd < most_descriptors; ++fd)
    (void)::close(fd);
  if (::fork() == 0) {
    const std::vector<char> held(static_cast<std::size_t>(bytes), 1);
    sleep_ms(seconds * 1000);
  }
  _exit(0);
}

}  // namespace shardbench
