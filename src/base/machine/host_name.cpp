// SPDX-License-Identifier: Apache-2.0
#include "machine/host_name.hpp"

#include "machine/descriptor.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace shardsweep {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Result<int> free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof any;
  auto* address = reinterpret_cast<sockaddr*>(&any);  // bind's signature
  if (socket.get() < 0 || ::bind(socket.get(), address, size) != 0 ||
      ::getsockname(socket.get(), address, &size) != 0)
    return fault(FaultKind::unavailable, std::string("no free port: ") + std::strerror(errno));
  return ntohs(any.sin_port);
}

}  // namespace shardsweep
