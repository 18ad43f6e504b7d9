// SPDX-License-Identifier: Apache-2.0
#include "agent/meeting_place.hpp"

#include "machine/descriptor.hpp"
#include "machine/host_name.hpp"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace shardsweep::agent {

Result<std::string> meeting_place_of(const AttemptSpec& spec) {
  if (!spec.trainer && !spec.container) return std::string();
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof any;
  auto* address = reinterpret_cast<sockaddr*>(&any);  // bind's signature
  if (socket.get() < 0 || ::bind(socket.get(), address, size) != 0 ||
      ::getsockname(socket.get(), address, &size) != 0)
    return fault(FaultKind::unavailable,
                 fmt::format("no free port for MASTER_PORT: {}", std::strerror(errno)));
  const bool alone = spec.world <= spec.ranks_per_node;
  return fmt::format("{}:{}", alone ? "127.0.0.1" : host_name(), ntohs(any.sin_port));
}

}  // namespace shardsweep::agent
