// SPDX-License-Identifier: Apache-2.0
// Lines over two descriptors, never waiting: the channel between lead and node agent, on
// either side. A line that never ends and a peer that never reads are bounded.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::agent {

class Channel {
 public:
  /// Both become non-blocking; whoever made them closes them.
  Channel(int in, int out);

  /// Whole lines that have arrived since the last call.
  [[nodiscard]] std::vector<std::string> receive();
  /// Adds the newline. What the peer does not take now is kept for flush().
  void send(std::string_view line);
  void flush();

  /// True once everything that the other side said was received and it has closed its end.
  [[nodiscard]] bool closed() const { return closed_; }
  /// The other side does not listen any more. What it has said is still to be received.
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] pollfd readable() const { return {in_, POLLIN, 0}; }
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  [[nodiscard]] pollfd writable() const { return {out_, POLLOUT, 0}; }

 private:
  int in_;
  int out_;
  bool closed_ = false;
  bool broken_ = false;
  bool overlong_ = false;
  std::string received_;
  std::string unsent_;
};

}  // namespace shardsweep::agent
