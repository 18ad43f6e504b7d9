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

  /// True once the other side has closed its end and all its messages were received.
  [[nodiscard]] bool closed() const { return closed_; }
  /// True once the other side has stopped listening. Its last messages are still to be received.
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
