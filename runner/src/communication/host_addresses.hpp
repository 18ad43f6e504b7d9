// SPDX-License-Identifier: Apache-2.0
// The addresses of a host by its name or as numbers.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

namespace shardbench {

struct HostAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] int family() const { return storage.ss_family; }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// Empty if the name is not known. No host: all addresses of this machine, to listen on;
/// IPv4 alone, since the published address is looked up by name, and every cluster has IPv4.
[[nodiscard]] std::vector<HostAddress> addresses_of(const std::string& host, int port);

/// The address that is written in numbers; none is empty.
[[nodiscard]] std::vector<HostAddress> numeric_address(const std::string& text, int port);

/// The addresses of `name` in lines like those of /etc/hosts, each once; of all lines if
/// `name` is empty.
[[nodiscard]] std::vector<std::string> addresses_in(
    const std::string& hosts, const std::string& name);

}  // namespace shardbench
