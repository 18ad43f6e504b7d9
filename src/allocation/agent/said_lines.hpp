// SPDX-License-Identifier: Apache-2.0
// The lead's lines for the daemon. What can't be written now (the disk is full) is kept and
// written later, in the same order: without its line a result would have no end, and an
// allocation no lead.
#pragma once

#include "agent/log.hpp"

#include <shardsweep/allocation_files.hpp>

#include <cstddef>
#include <deque>
#include <filesystem>
#include <string>

namespace shardsweep::agent {

class SaidLines {
 public:
  SaidLines(std::filesystem::path path, LineWriter file)
      : path_(std::move(path)), file_(std::move(file)) {}

  void say(std::string line, bool durable, double now_s, const Log& log);
  /// Tries again what is left, once a second, in the file as it is then: to one that was open
  /// a restarted file server may answer with ESTALE for ever.
  void step(double now_s, const Log& log);
  [[nodiscard]] bool all_written() const { return unwritten_.empty(); }

 private:
  struct Line {
    std::string text;
    bool durable = false;
  };
  void write(double now_s, const Log& log);

  std::filesystem::path path_;
  LineWriter file_;
  std::deque<Line> unwritten_;  ///< oldest first
  double again_s_ = 0;
  bool told_ = false;  ///< an unwritten line has been reported
};

}  // namespace shardsweep::agent
