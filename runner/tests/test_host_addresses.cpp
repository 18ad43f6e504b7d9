// SPDX-License-Identifier: Apache-2.0
#include "communication/host_addresses.hpp"

#include <doctest/doctest.h>

#include <netinet/in.h>

using namespace shardbench;

TEST_CASE("an address in numbers needs nobody to look it up") {
  const auto four = addresses_of("10.1.2.3", 4711);
  REQUIRE(four.size() == 1);
  CHECK(four[0].family() == AF_INET);
  CHECK(reinterpret_cast<const sockaddr_in*>(four[0].get())->sin_port == htons(4711));
  const auto six = addresses_of("::1", 4711);
  REQUIRE(six.size() == 1);
  CHECK(six[0].family() == AF_INET6);
  CHECK(numeric_address("node17", 1).empty());
  CHECK(numeric_address("10.1.2", 1).empty());
}

TEST_CASE("the address of a name in /etc/hosts, and all of what getent prints") {
  const std::string hosts =
      "# nodes\n127.0.0.1 localhost\n10.0.0.1\tnode1.cluster node1 # first\n10.0.0.2 node10\n"
      "fd00::1 node1\n10.0.0.1 node1\n\nnode1\n";
  CHECK(addresses_in(hosts, "node1") == std::vector<std::string>{"10.0.0.1", "fd00::1"});
  CHECK(addresses_in(hosts, "node1.cluster") == std::vector<std::string>{"10.0.0.1"});
  CHECK(addresses_in(hosts, "node").empty());
  CHECK(addresses_in(hosts, "first").empty());
  const std::string getent =
      "10.0.0.7        STREAM node7\n10.0.0.7        DGRAM  \n10.0.0.7        RAW    \n";
  CHECK(addresses_in(getent, "") == std::vector<std::string>{"10.0.0.7"});
}

TEST_CASE("the name localhost is this machine") {
  CHECK_FALSE(addresses_of("localhost", 1).empty());
  CHECK(addresses_of("no such name", 1).empty());
}
