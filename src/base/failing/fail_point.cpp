// SPDX-License-Identifier: Apache-2.0
// The plan is read once, at the first point that is passed. A mistake in it ends the program: a
// test that waits for a point which does not exist would pass for the wrong reason. Of all
// processes that inherit the plan the one that makes the point's file acts.
#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace shardsweep {
namespace {

constexpr int exit_code = 70;  // EX_SOFTWARE of sysexits.h: no program of ours ends so by itself
constexpr int usage_code = 2;

enum class Action { exit, kill, stop, enospc, eio, broken, wait_for_file };
struct ActionWord {
  std::string_view word;
  Action action;
};
constexpr auto action_words = std::to_array<ActionWord>({{"exit", Action::exit},
    {"kill", Action::kill}, {"stop", Action::stop}, {"enospc", Action::enospc},
    {"eio", Action::eio}, {"break", Action::broken}, {"wait-for-file", Action::wait_for_file}});

struct ArmedPoint {
  std::string_view name;
  int at = 1;
  Action action = Action::exit;
  std::atomic<int> passed = 0;
};

struct Plan {
  std::string folder;
  std::vector<std::unique_ptr<ArmedPoint>> points;
};

/// A test that names a point wrongly would pass for the wrong reason.
[[noreturn]] void refuse(std::string_view what, std::string_view text) {
  std::fprintf(stderr, "SHARDSWEEP_FAIL_AT: %.*s: '%.*s'\n", static_cast<int>(what.size()),
      what.data(), static_cast<int>(text.size()), text.data());
  ::_exit(usage_code);
}

std::unique_ptr<ArmedPoint> read_point(std::string_view text) {
  auto armed = std::make_unique<ArmedPoint>();
  const auto name_end = text.find(':');
  const auto action_begin = text.rfind(':');
  if (name_end == text.npos) refuse("not NAME[:n]:ACTION", text);
  const std::string_view name = text.substr(0, name_end);
  const auto* known = std::find_if(fail_points.begin(), fail_points.end(),
      [&](const FailPointWindow& point) { return point.name == name; });
  if (known == fail_points.end()) refuse("no such point", name);
  armed->name = known->name;
  if (action_begin > name_end) {
    const char* begin = text.data() + name_end + 1;
    const char* end = text.data() + action_begin;
    const auto [rest, error] = std::from_chars(begin, end, armed->at);
    if (error != std::errc() || rest != end || armed->at < 1) refuse("not a count", text);
  }
  const std::string_view word = text.substr(action_begin + 1);
  const auto* action = std::find_if(action_words.begin(), action_words.end(),
      [&](const ActionWord& other) { return other.word == word; });
  if (action == action_words.end()) refuse("no such action", word);
  armed->action = action->action;
  return armed;
}

Plan read_plan() {
  Plan plan;
  const char* wanted = std::getenv("SHARDSWEEP_FAIL_AT");
  if (wanted == nullptr || *wanted == '\0') return plan;
  const char* folder = std::getenv("SHARDSWEEP_FAIL_DIR");
  if (folder == nullptr || *folder == '\0') refuse("SHARDSWEEP_FAIL_DIR is not set", wanted);
  plan.folder = folder;
  std::string_view rest = wanted;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(','), rest.size());
    plan.points.push_back(read_point(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return plan;
}

const Plan& plan() {
  static const Plan read = read_plan();
  return read;
}

/// True for the one process that makes the file.
bool is_first(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return false;
  const std::string pid = std::to_string(::getpid()) + "\n";
  const bool written =
      ::write(descriptor, pid.data(), pid.size()) == static_cast<ssize_t>(pid.size());
  ::close(descriptor);
  return written;
}

void wait_for(const std::string& file) {
  while (::access(file.c_str(), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

int act(const ArmedPoint& armed) {
  const std::string file = plan().folder + "/" + std::string(armed.name);
  if (!is_first(file)) return 0;
  switch (armed.action) {
    case Action::exit:
      ::_exit(exit_code);
    case Action::kill:
      ::kill(::getpid(), SIGKILL);
      return 0;
    case Action::stop:
      ::kill(::getpid(), SIGSTOP);
      return 0;
    case Action::enospc:
      return ENOSPC;
    case Action::eio:
      return EIO;
    case Action::broken:
      INVARIANT(
          armed.action != Action::broken, "a test has not asked for this", armed.name, armed.at);
      return 0;
    case Action::wait_for_file:
      wait_for(file + ".go");
      return 0;
  }
  return 0;
}

}  // namespace

int fail_point_error(FailPoint here) {
  for (const auto& armed : plan().points) {
    if (armed->name == here.name() && ++armed->passed == armed->at) return act(*armed);
  }
  return 0;
}

void fail_point(FailPoint here) {
  (void)fail_point_error(here);
}

}  // namespace shardsweep
