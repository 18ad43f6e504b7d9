// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.hpp"

#include <fmt/format.h>

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

/// The variable that decides about characters, as setlocale(3) looks for it.
std::string_view locale_name() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = ::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "C";
}

bool is_utf8_locale() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale != nullptr) {
    const bool utf8 = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
    ::freelocale(locale);
    return utf8;
  }
  // The locale is not installed here; its name still says what the terminal shows.
  const auto name = locale_name();
  return name.find("UTF-8") != std::string_view::npos ||
      name.find("utf8") != std::string_view::npos;
}

}  // namespace

Terminal terminal_of(int descriptor) {
  winsize size{};
  const bool sized = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return terminal_from({.is_terminal = ::isatty(descriptor) == 1,
      .reported_width = sized ? size.ws_col : std::size_t{0},
      .columns = ::getenv("COLUMNS"),
      .no_color = ::getenv("NO_COLOR"),
      .term = ::getenv("TERM"),
      .colorterm = ::getenv("COLORTERM"),
      .utf8 = is_utf8_locale()});
}

// ---- Ctrl-C ---------------------------------------------------------------------------------

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

// ---- lines that are drawn over and over
// ------------------------------------------------------

namespace {

constexpr std::size_t assumed_height = 24;
constexpr std::size_t assumed_width = 80;

std::size_t height_of(int descriptor) {
  winsize size{};
  const bool sized = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return sized ? size.ws_row : assumed_height;
}

void write_now(std::FILE* stream, const std::string& text) {
  ProgressLine::end();
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

bool can_redraw(std::FILE* stream) {
  const char* term = ::getenv("TERM");
  const bool obeys = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  return obeys && ::isatty(::fileno(stream)) == 1;
}

ViewSize view_size(std::FILE* stream) {
  const Terminal terminal = terminal_of(::fileno(stream));
  const std::size_t height = height_of(::fileno(stream));
  return {.width = terminal.width.value_or(assumed_width) - 1,
      .height = std::max<std::size_t>(height, 2) - 1,
      .utf8 = terminal.utf8};
}

/// Codes that take the block away, at the width that the terminal has now: a narrower one has
/// wrapped its lines meanwhile.
std::string LiveBlock::take_back(std::size_t width) {
  std::size_t rows = 0;
  for (const std::size_t line : drawn_)
    rows += line == 0 ? 1 : (line + width - 1) / width;
  drawn_.clear();
  last_.clear();
  if (rows == 0) return "";
  return fmt::format("\r\x1b[{}A\x1b[J", rows);
}

void LiveBlock::draw(const std::vector<StyledLine>& lines) {
  const Terminal terminal = terminal_of(::fileno(stream_));
  std::string text;
  for (const StyledLine& line : lines)
    text += painted(line, terminal.colour) + '\n';
  if (text == last_ && !drawn_.empty()) return;
  write_now(stream_, take_back(terminal.width.value_or(assumed_width)) + text);
  for (const StyledLine& line : lines)
    drawn_.push_back(width_of(line));
  last_ = std::move(text);
}

void LiveBlock::print(const std::vector<StyledLine>& lines) {
  const Terminal terminal = terminal_of(::fileno(stream_));
  std::string text = take_back(terminal.width.value_or(assumed_width));
  for (const StyledLine& line : lines)
    text += painted(line, terminal.colour) + '\n';
  if (!text.empty()) write_now(stream_, text);
}

// A thread draws the line, since what takes long computes and does not look at a clock.

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
