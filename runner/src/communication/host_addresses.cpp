// SPDX-License-Identifier: Apache-2.0
// A static program must not ask glibc for a name: glibc would load the host's own libraries,
// which fit another glibc. It asks the host's program `getent`, and reads /etc/hosts where
// there is none.
#include "communication/host_addresses.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace shardbench {
namespace {

HostAddress ipv4(in_addr address, int port) {
  sockaddr_in filled{};
  filled.sin_family = AF_INET;
  filled.sin_port = htons(static_cast<std::uint16_t>(port));
  filled.sin_addr = address;
  HostAddress made;
  std::memcpy(&made.storage, &filled, sizeof filled);
  made.size = sizeof filled;
  return made;
}

HostAddress ipv6(const in6_addr& address, int port) {
  sockaddr_in6 filled{};
  filled.sin6_family = AF_INET6;
  filled.sin6_port = htons(static_cast<std::uint16_t>(port));
  filled.sin6_addr = address;
  HostAddress made;
  std::memcpy(&made.storage, &filled, sizeof filled);
  made.size = sizeof filled;
  return made;
}

#ifdef SHARDBENCH_STATIC

bool is_host_name(const std::string& text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
        c == '-' || c == '_';
  };
  return !text.empty() && text.size() < 256 && text.front() != '-' &&
      std::all_of(text.begin(), text.end(), fits);
}

std::string output_of_getent(const std::string& name) {
  std::string output;
  std::FILE* pipe = ::popen(("getent ahosts " + name + " 2>/dev/null").c_str(), "re");
  if (pipe == nullptr) return output;
  std::array<char, 4096> part{};
  for (std::size_t got = 0; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    output.append(part.data(), got);
  ::pclose(pipe);
  return output;
}

std::vector<HostAddress> by_name(const std::string& host, int port) {
  if (!is_host_name(host)) return {};
  std::vector<std::string> texts = addresses_in(output_of_getent(host), "");
  if (texts.empty()) {
    std::ostringstream hosts;
    hosts << std::ifstream("/etc/hosts").rdbuf();
    texts = addresses_in(hosts.str(), host);
  }
  std::vector<HostAddress> found;
  for (const std::string& text : texts) {
    for (const HostAddress& address : numeric_address(text, port))
      found.push_back(address);
  }
  return found;
}

#else

std::vector<HostAddress> by_name(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string service = std::to_string(port);
  if (::getaddrinfo(host.c_str(), service.c_str(), &hints, &list) != 0) return {};
  std::vector<HostAddress> found;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    HostAddress address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
    found.push_back(address);
  }
  ::freeaddrinfo(list);
  return found;
}

#endif

}  // namespace

std::vector<HostAddress> numeric_address(const std::string& text, int port) {
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return {ipv4(four, port)};
  in6_addr six{};
  if (::inet_pton(AF_INET6, text.c_str(), &six) == 1) return {ipv6(six, port)};
  return {};
}

std::vector<std::string> addresses_in(const std::string& hosts, const std::string& name) {
  std::vector<std::string> found;
  std::istringstream lines(hosts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string address;
    if (!(words >> address)) continue;
    bool named = name.empty();
    for (std::string word; !named && words >> word;)
      named = word == name;
    if (named && std::find(found.begin(), found.end(), address) == found.end())
      found.push_back(address);
  }
  return found;
}

std::vector<HostAddress> addresses_of(const std::string& host, int port) {
  if (host.empty()) return {ipv4({htonl(INADDR_ANY)}, port)};
  auto numbers = numeric_address(host, port);
  return numbers.empty() ? by_name(host, port) : numbers;
}

}  // namespace shardbench
