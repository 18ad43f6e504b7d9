// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/command.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>

namespace shardsweep {
namespace {

// A handler of a signal may use nothing that allocates or locks.
std::array<char, 400> overtime_words{};
std::size_t overtime_length = 0;
int overtime_code = 1;

void end_overtime(int) {
  // A failed write can't be reported to anybody.
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, overtime_words.data(), overtime_length);
  ::_exit(overtime_code);
}

}  // namespace

Overtime::Overtime(std::chrono::seconds limit, const std::string& words, int exit_code) {
  overtime_length = std::min(words.size(), overtime_words.size() - 1);
  std::copy_n(words.begin(), overtime_length, overtime_words.begin());
  overtime_words.at(overtime_length++) = '\n';
  overtime_code = exit_code;
  ::signal(SIGALRM, end_overtime);
  ::alarm(static_cast<unsigned>(std::max<std::chrono::seconds::rep>(limit.count(), 1)));
}

Overtime::~Overtime() {
  ::alarm(0);
  ::signal(SIGALRM, SIG_DFL);
}

}  // namespace shardsweep
