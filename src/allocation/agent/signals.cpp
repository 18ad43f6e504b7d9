// SPDX-License-Identifier: Apache-2.0
#include "agent/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

namespace shardsweep::agent {
namespace {

sigset_t caught() {
  sigset_t set;
  ::sigfillset(&set);
  for (const int bug : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
    ::sigdelset(&set, bug);
  return set;
}

}  // namespace

void block_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = caught();
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
}

void restore_signals() {
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

SignalSource::SignalSource() {
  const sigset_t set = caught();
  descriptor_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::vector<int> SignalSource::take() {
  std::vector<int> numbers;
  signalfd_siginfo info{};
  while (::read(descriptor_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    numbers.push_back(static_cast<int>(info.ssi_signo));
  return numbers;
}

}  // namespace shardsweep::agent
