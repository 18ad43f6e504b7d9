// SPDX-License-Identifier: Apache-2.0
#include "agent/said_lines.hpp"

#include <utility>

namespace shardsweep::agent {
namespace {

constexpr double again_after_s = 1;
constexpr std::size_t most_unwritten = 10'000;

}  // namespace

void SaidLines::say(std::string line, bool durable, double now_s, const Log& log) {
  if (unwritten_.size() >= most_unwritten) return;
  unwritten_.push_back({std::move(line), durable});
  if (unwritten_.size() == 1) write(now_s, log);
}

void SaidLines::step(double now_s, const Log& log) {
  if (unwritten_.empty() || now_s < again_s_) return;
  if (auto file = LineWriter::open(path_)) file_ = std::move(*file);
  write(now_s, log);
}

void SaidLines::write(double now_s, const Log& log) {
  while (!unwritten_.empty()) {
    const Line& line = unwritten_.front();
    // A line that was only half written, or not synced, is written again as a whole: readers
    // skip the half, and a number that they know.
    const auto written = file_.append(line.text, line.durable);
    if (!written) {
      if (!std::exchange(told_, true)) log.line(written.error().what + ": tried again");
      again_s_ = now_s + again_after_s;
      return;
    }
    unwritten_.pop_front();
  }
  told_ = false;
}

}  // namespace shardsweep::agent
