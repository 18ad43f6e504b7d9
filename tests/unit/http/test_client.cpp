// SPDX-License-Identifier: Apache-2.0
// The client against a real HTTP server on this machine: the one by libcurl, and the one of
// static programs, which calls the program curl.
#include "http/client.hpp"

#include <shardsweep/clock.hpp>

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <ostream>
#include <string>

using namespace shardsweep;

namespace {

/// Answers one request with as many bytes, all of them the same letter, and closes.
class OneAnswer {
 public:
  OneAnswer(std::size_t bytes, int status)
      : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(listening_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    REQUIRE(::listen(listening_, 1) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    served_ = std::async(std::launch::async, [this, bytes, status] { serve(bytes, status); });
  }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;
  ~OneAnswer() {
    served_.wait();
    ::close(listening_);
  }
  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  void serve(std::size_t bytes, int status) const {
    const int connection = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    char asked[4096];
    if (::read(connection, asked, sizeof asked) > 0) {
      std::string answer = "HTTP/1.1 " + std::to_string(status) +
          " X\r\nConnection: close\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" +
          std::string(bytes, 'x');
      for (std::size_t done = 0; done < answer.size();) {
        // Who has heard enough hangs up.
        const ssize_t put =
            ::send(connection, answer.data() + done, answer.size() - done, MSG_NOSIGNAL);
        if (put <= 0) break;
        done += static_cast<std::size_t>(put);
      }
    }
    ::close(connection);
  }

  int listening_;
  std::string url_;
  std::future<void> served_;
};

Result<http::Response> answer_to(const std::string& server, http::Request request) {
  http::Client client(server);
  client.start(std::move(request));
  for (;;) {
    auto done = client.poll();
    if (!done.empty()) return std::move(done.front().second);
    auto descriptors = client.descriptors();
    ::poll(descriptors.data(), descriptors.size(), 10);
  }
}

constexpr std::size_t mib = 1 << 20;

}  // namespace

TEST_CASE("an answer comes with its status and its body as it was sent") {
  const OneAnswer server(3 * mib + 1, 404);
  const auto answer = answer_to(server.url(), {.path = "/jobs"});
  REQUIRE(answer);
  CHECK(answer->status == 404);
  CHECK(answer->body == std::string(3 * mib + 1, 'x'));
}

TEST_CASE("what is kept of an answer counts against its limit and not what came") {
  const OneAnswer server(8 * mib, 200);
  std::size_t came = 0;
  const auto keep = [&came](std::string_view piece) -> Result<std::string> {
    const bool first = came == 0;
    came += piece.size();
    return std::string(first ? "kept" : "");
  };
  const auto answer = answer_to(server.url(), {.path = "/jobs", .most_bytes = mib, .keep = keep});
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(answer->body == "kept");
  CHECK(came == 8 * mib);
}

TEST_CASE("an answer above the limit is refused and may have been carried out") {
  const OneAnswer server(2 * mib, 200);
  const auto answer = answer_to(server.url(), {.path = "/jobs", .most_bytes = mib});
  REQUIRE_FALSE(answer);
  CHECK(answer.error().kind == FaultKind::timed_out);
  CHECK(answer.error().what.find("the answer to /jobs is larger than 1 MiB") != std::string::npos);
}

TEST_CASE("a reader that refuses a piece ends the request with its reason") {
  const OneAnswer server(8 * mib, 200);
  const auto keep = [](std::string_view) -> Result<std::string> {
    return fault(FaultKind::rejected, "not a list of jobs");
  };
  const auto answer = answer_to(server.url(), {.path = "/jobs", .keep = keep});
  REQUIRE_FALSE(answer);
  CHECK(answer.error().what == "not a list of jobs");
}
