// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.hpp"

#include <signal.h>

namespace shardsweep {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) {
  interrupted = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  ::sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &before_, nullptr);
}

bool InterruptGuard::seen() {
  return interrupted != 0;
}

}  // namespace shardsweep
