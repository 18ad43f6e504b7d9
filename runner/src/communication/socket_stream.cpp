// SPDX-License-Identifier: Apache-2.0
// Non-blocking sockets and poll(2); nothing waits without a deadline.
#include "communication/socket_stream.hpp"

#include "communication/host_addresses.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace shardbench {
namespace {

// Longer than any table of a few thousand ranks; shorter than what a stranger may make us
// allocate.
constexpr std::uint32_t longest_text = 1U << 20;
constexpr int backlog = 1024;

bool ready(int socket, short events, const Deadline& limit) {
  pollfd watched{socket, events, 0};
  while (!limit.passed()) {
    const int count = ::poll(&watched, 1, limit.left_ms());
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
  return false;
}

void make_ready(int socket) {
  const int on = 1;
  (void)::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool move_all(int socket, char* data, std::size_t bytes, bool sending, const Deadline& limit) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t moved = sending ? ::send(socket, data + done, bytes - done, MSG_NOSIGNAL)
                                  : ::recv(socket, data + done, bytes - done, 0);
    if (moved > 0) {
      done += static_cast<std::size_t>(moved);
      continue;
    }
    if (moved == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    if (!ready(socket, sending ? POLLOUT : POLLIN, limit)) return false;
  }
  return true;
}

int connect_one(const HostAddress& to, const Deadline& limit) {
  const int socket = ::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  make_ready(socket);
  int error = 0;
  if (::connect(socket, to.get(), to.size) < 0) {
    socklen_t size = sizeof error;
    error = errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      if (ready(socket, POLLOUT, limit))
        (void)::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == 0) return socket;
  ::close(socket);
  return -1;
}

}  // namespace

std::optional<Address> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  const int port = std::atoi(digits.c_str());
  if (port > 65535) return std::nullopt;
  return Address{text.substr(0, colon), port};
}

int listen_on(const std::string& host, int port) {
  for (const HostAddress& address : addresses_of(host, port)) {
    const int socket = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    const int on = 1;
    (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    make_ready(socket);
    if (::bind(socket, address.get(), address.size) == 0 && ::listen(socket, backlog) == 0)
      return socket;
    ::close(socket);
  }
  return -1;
}

int bound_port(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

int connect_to(const Address& address, const Deadline& limit) {
  for (const HostAddress& at : addresses_of(address.host, address.port)) {
    const int socket = connect_one(at, limit);
    if (socket >= 0) return socket;
  }
  return -1;
}

int accept_from(int listener, const Deadline& limit) {
  while (ready(listener, POLLIN, limit)) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) {
      make_ready(socket);
      return socket;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return -1;
  }
  return -1;
}

bool send_text(int socket, const std::string& text, const Deadline& limit) {
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string frame(sizeof length, '\0');
  std::memcpy(frame.data(), &length, sizeof length);
  frame += text;
  return move_all(socket, frame.data(), frame.size(), true, limit);
}

std::optional<std::string> receive_text(int socket, const Deadline& limit) {
  std::array<char, sizeof(std::uint32_t)> head{};
  if (!move_all(socket, head.data(), head.size(), false, limit)) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, head.data(), head.size());
  if (length > longest_text) return std::nullopt;
  std::string text(length, '\0');
  if (!move_all(socket, text.data(), length, false, limit)) return std::nullopt;
  return text;
}

}  // namespace shardbench
