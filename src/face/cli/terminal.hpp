// SPDX-License-Identifier: Apache-2.0
// The terminal: what it is, Ctrl-C from it, and lines at its end that are drawn over and over,
// with what stays above them.
#pragma once

#include "show/live_view.hpp"
#include "show/styled_text.hpp"

#include <shardsweep/clock.hpp>

#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace shardsweep {

/// Terminal of an open file descriptor, by its device, the environment and the locale's character
/// set.
[[nodiscard]] Terminal terminal_of(int descriptor);

/// Ctrl-C ends what is shown, not the sweep. While it lives, SIGINT is noted instead of ending
/// the program.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  /// Tells if Ctrl-C was pressed since the guard was made.
  [[nodiscard]] static bool seen();

 private:
  struct sigaction before_ = {};
};

/// A terminal that obeys codes: TERM is set, and not `dumb`.
[[nodiscard]] bool can_redraw(std::FILE* stream);
/// Size of a view. A terminal's has one column less, since a full line would move the cursor on.
[[nodiscard]] ViewSize view_size(std::FILE* stream);

class LiveBlock {
 public:
  explicit LiveBlock(std::FILE* stream) : stream_(stream) {}

  /// Draws the lines in place of those that were drawn last.
  void draw(const std::vector<StyledLine>& lines);
  /// Lines that stay, above the block; it is drawn again by the next draw().
  void print(const std::vector<StyledLine>& lines);
  /// Takes the block away.
  void clear() { print({}); }

 private:
  [[nodiscard]] std::string take_back(std::size_t width);

  std::FILE* stream_;
  std::vector<std::size_t> drawn_;  ///< widths of the lines on the terminal
  std::string last_;                ///< text that was drawn last
};

// A line on the terminal of whoever waits: for how long a command has been at work, and how far
// it is if that is known. It appears after two seconds, is never part of what is printed, and
// is not written to files and pipes.

/// Line on a terminal that says how far a command is; one at a time. Output takes its place: say()
/// and note_how_far() keep it. Other output ends it, since the command then shows by itself how far
/// it is.
class ProgressLine {
 public:
  ProgressLine(std::string command, const Clock& clock);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  /// Tells if the line would be shown at all: asking how far it is costs something.
  [[nodiscard]] static bool is_shown();
  /// "60,000 of 100,000 trials stored"; empty: not known.
  static void note_how_far(std::string words);
  /// Takes the line away before other words; it comes again.
  static void step_aside();
  /// Takes the line away for good.
  static void end();

 private:
  void run();
  void erase();

  std::string command_;
  const Clock& clock_;
  std::string how_far_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  bool drawn_ = false;
  std::thread thread_;
};

}  // namespace shardsweep
