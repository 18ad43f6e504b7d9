// SPDX-License-Identifier: Apache-2.0
#include "outcome.hpp"

#include "base/error.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace shardbench {

std::string outcome_of(const std::function<void()>& what) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const auto say = [&](const std::string& text) {
      (void)!::write(ends[1], text.data(), text.size());
    };
    install_failure_handler([&](const Error& error) {
      say(std::string(error_class_name(error.kind)) + ": " + error.message);
    });
    what();
    say("ok");
    _exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return text;
}

int exit_status_of(const std::function<void()>& what) {
  const pid_t child = ::fork();
  if (child == 0) {
    what();
    _exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace shardbench
