// SPDX-License-Identifier: Apache-2.0
// A line on the terminal of whoever waits: for how long a command has been at work, and how far
// it is if that is known. It appears after two seconds, is never part of what is printed, and
// is not written to files and pipes.
#pragma once

#include <shardsweep/clock.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace shardsweep {

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
