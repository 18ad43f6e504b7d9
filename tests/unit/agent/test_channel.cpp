// SPDX-License-Identifier: Apache-2.0
#include "agent/channel.hpp"
#include "machine/descriptor.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>

using namespace shardsweep;
using namespace shardsweep::agent;

namespace {

struct Pipe {
  Descriptor read;
  Descriptor write;
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
  }
  void put(const std::string& text) const {
    REQUIRE(::write(write.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a channel hands out whole lines and passes over one without an end") {
  Pipe in;
  const Pipe out;
  Channel channel(in.read.get(), out.write.get());
  CHECK(channel.receive().empty());
  in.put("one\ntw");
  CHECK(channel.receive() == Lines{"one"});
  in.put("o\n\n");
  CHECK(channel.receive() == Lines{"two", ""});
  for (int i = 0; i < 20; ++i) {
    in.put(std::string(10'000, 'x'));
    CHECK(channel.receive().empty());
  }
  in.put("\nnext\n");
  CHECK(channel.receive() == Lines{"next"});
  CHECK(!channel.closed());
  in.write.reset();
  CHECK(channel.receive().empty());
  CHECK(channel.closed());
}

TEST_CASE("what the other side said before it stopped listening is still received") {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe in;
  Pipe out;
  Channel channel(in.read.get(), out.write.get());
  in.put("the last word\n");
  in.write.reset();
  out.read.reset();
  channel.send("beat");
  CHECK(channel.broken());
  CHECK(!channel.closed());
  CHECK(channel.receive() == Lines{"the last word"});
  CHECK(channel.closed());
}

TEST_CASE("a side that does not read holds nobody up and costs bounded memory") {
  const Pipe in;
  const Pipe out;
  Channel channel(in.read.get(), out.write.get());
  const std::string line(999, 'x');
  for (int i = 0; i < 5'000; ++i)
    channel.send(line);
  CHECK(channel.has_unsent());
  std::string received;
  std::array<char, 65536> buffer{};
  while (channel.has_unsent()) {
    const ssize_t got = ::read(out.read.get(), buffer.data(), buffer.size());
    REQUIRE(got > 0);
    received.append(buffer.data(), static_cast<std::size_t>(got));
    channel.flush();
  }
  CHECK(received.size() < 2'000'000);
}
