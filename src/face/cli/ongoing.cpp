// SPDX-License-Identifier: Apache-2.0
// A thread draws the line, since what takes long computes and does not look at a clock.
#include "cli/ongoing.hpp"

#include "cli/terminal.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using namespace std::chrono_literals;

constexpr auto silent_for = 2s;
constexpr auto drawn_every = 1s;

ProgressLine* current = nullptr;

void to_terminal(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

ProgressLine::ProgressLine(std::string command, const Clock& clock)
    : command_(std::move(command)), clock_(clock) {
  if (!can_redraw(stderr)) return;
  // Signals are for the thread that waits for them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  current = this;
}

ProgressLine::~ProgressLine() {
  if (current != this) return;
  end();
  thread_.join();
  current = nullptr;
}

void ProgressLine::run() {
  const auto begin = clock_.steady();
  std::unique_lock lock(mutex_);
  auto next = begin + silent_for;
  while (!ended_) {
    if (wake_.wait_until(lock, next) != std::cv_status::timeout) continue;
    next += drawn_every;
    const auto passed = clock_.steady() - begin;
    std::string line = fmt::format("{}: {} s{}{}", command_,
        std::chrono::duration_cast<std::chrono::seconds>(passed).count(),
        how_far_.empty() ? "" : ", ", how_far_);
    erase();
    line.resize(std::min(line.size(), view_size(stderr).width));
    to_terminal(line);
    drawn_ = true;
  }
}

void ProgressLine::erase() {
  if (std::exchange(drawn_, false)) to_terminal("\r\x1b[J");
}

bool ProgressLine::is_shown() {
  return current != nullptr;
}

void ProgressLine::note_how_far(std::string words) {
  if (current == nullptr) return;
  const std::lock_guard lock(current->mutex_);
  current->how_far_ = std::move(words);
}

void ProgressLine::step_aside() {
  if (current == nullptr) return;
  const std::lock_guard lock(current->mutex_);
  current->erase();
}

void ProgressLine::end() {
  if (current == nullptr) return;
  {
    const std::lock_guard lock(current->mutex_);
    current->erase();
    current->ended_ = true;
  }
  current->wake_.notify_all();
}

}  // namespace shardsweep
