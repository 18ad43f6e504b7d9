// SPDX-License-Identifier: Apache-2.0
#include "agent/channel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace shardsweep::agent {
namespace {

constexpr std::size_t longest_line = std::size_t{64} * 1024;  // foreign output; ours are max_line
constexpr std::size_t most_unsent = 1 << 20;  // a beat a second is 25 bytes a second

void make_non_blocking(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

}  // namespace

Channel::Channel(int in, int out) : in_(in), out_(out) {
  make_non_blocking(in);
  make_non_blocking(out);
}

std::vector<std::string> Channel::receive() {
  std::vector<std::string> lines;
  std::array<char, 16384> buffer{};
  while (!closed_) {
    const ssize_t got = ::read(in_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      closed_ = true;
      break;
    }
    received_.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = received_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      if (!overlong_) lines.push_back(received_.substr(begin, end - begin));
      overlong_ = false;
    }
    received_.erase(0, begin);
    if (received_.size() > longest_line) {
      received_.clear();
      overlong_ = true;
    }
  }
  return lines;
}

void Channel::send(std::string_view line) {
  // A peer that has been stopped for so long is past every lease: the rest would be stale.
  if (broken_ || unsent_.size() > most_unsent) return;
  unsent_.append(line).append("\n");
  flush();
}

void Channel::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::write(out_, unsent_.data(), unsent_.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (errno != EAGAIN) {
        broken_ = true;
        unsent_.clear();
      }
      return;
    }
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

}  // namespace shardsweep::agent
