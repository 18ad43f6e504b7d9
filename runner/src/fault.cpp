// SPDX-License-Identifier: Apache-2.0
#include "fault.hpp"

#include "clock.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <utility>

namespace shardbench {
namespace {

constexpr int most_descriptors = 1024;

}  // namespace

std::optional<Fault> parse_fault(const std::string& text, i64 world) {
  Fault fault;
  if (text.empty()) return fault;
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return std::nullopt;
  constexpr std::array<std::pair<const char*, FaultKind>, 8> kinds{
      {{"hang", FaultKind::hang},
       {"crash", FaultKind::crash},
       {"exit0", FaultKind::exit0},
       {"nan", FaultKind::nan},
       {"slow", FaultKind::slow},
       {"oom", FaultKind::oom},
       {"garbage", FaultKind::garbage},
       {"fork", FaultKind::fork}}};
  for (const auto& [name, kind] : kinds)
    if (text.substr(0, at) == name) fault.kind = kind;
  const std::size_t colon = text.find(':', at);
  fault.phase = text.substr(at + 1, colon == std::string::npos ? colon : colon - at - 1);
  constexpr std::array<const char*, 6> phases{"start",  "rendezvous", "init",
                                              "warmup", "train",      "teardown"};
  bool known = false;
  for (const char* phase : phases)
    known = known || fault.phase == phase;
  fault.rank = world - 1;
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, fault.rank);
    if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  }
  if (!known || fault.kind == FaultKind::none) return std::nullopt;
  return fault;
}

void hang() {
  while (true)
    sleep_ms(60000);
}

void leave_orphan(int seconds) {
  const pid_t child = ::fork();
  if (child > 0) (void)::waitpid(child, nullptr, 0);
  if (child != 0) return;
  (void)::setsid();
  // As a program started by exec: without the sockets, whose end tells the peers of a death.
  for (int fd = 3; fd < most_descriptors; ++fd)
    (void)::close(fd);
  if (::fork() == 0) sleep_ms(seconds * 1000);
  _exit(0);
}

}  // namespace shardbench
