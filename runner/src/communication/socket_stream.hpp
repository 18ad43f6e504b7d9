// SPDX-License-Identifier: Apache-2.0
// TCP sockets with deadlines, for the short talk before the mesh stands.
#pragma once

#include "base/clock.hpp"

#include <optional>
#include <string>

namespace shardbench {

struct Address {
  std::string host;
  int port = 0;
};

/// "HOST:PORT"; nothing when it is not one.
std::optional<Address> parse_address(const std::string& text);

/// A listening socket on `port` (0: any) of all interfaces, or of `host` when given; -1 with
/// errno.
int listen_on(const std::string& host, int port);
int bound_port(int socket);
/// -1 when nobody answers before the deadline, or at once when the connection is refused.
int connect_to(const Address& address, const Deadline& limit);
/// -1 when nobody came before the deadline.
int accept_from(int listener, const Deadline& limit);

/// One text message, length first; false when the peer left or the deadline passed.
bool send_text(int socket, const std::string& text, const Deadline& limit);
std::optional<std::string> receive_text(int socket, const Deadline& limit);

}  // namespace shardbench
