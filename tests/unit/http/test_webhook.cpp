// SPDX-License-Identifier: Apache-2.0
// Notices to a real HTTP server on this machine.
#include <shardsweep/notifier.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>

using namespace shardsweep;
using namespace std::chrono_literals;

namespace {

/// Moves as the test says.
struct ManualClock final : Clock {
  std::chrono::steady_clock::time_point at{};
  [[nodiscard]] Timestamp now() const override { return 5; }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override { return at; }
};

/// One connection at a time; answers with the status that the test wants.
class Server {
 public:
  Server() : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    socklen_t length = sizeof address;
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    REQUIRE(::listen(listening_, 8) == 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() { ::close(listening_); }

  [[nodiscard]] std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  /// A request as it came, answered with `status`; empty where none came while `notifier` was
  /// polled for two seconds.
  std::string serve(Notifier& notifier, int status, std::vector<std::string>& said) {
    const auto deadline = std::chrono::steady_clock::now() + 2s;
    int connection = -1;
    std::string request;
    while (std::chrono::steady_clock::now() < deadline) {
      for (auto& line : notifier.poll())
        said.push_back(std::move(line));
      pollfd waiting{connection < 0 ? listening_ : connection, POLLIN, 0};
      if (::poll(&waiting, 1, 5) != 1) continue;
      if (connection < 0) {
        connection = ::accept(listening_, nullptr, nullptr);
        continue;
      }
      char bytes[4096];
      const ssize_t got = ::read(connection, bytes, sizeof bytes);
      if (got > 0) request.append(bytes, static_cast<std::size_t>(got));
      if (!is_whole(request)) continue;
      const std::string answer = "HTTP/1.1 " + std::to_string(status) +
          " X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      REQUIRE(::write(connection, answer.data(), answer.size()) > 0);
      break;
    }
    if (connection >= 0) ::close(connection);
    return request;
  }

 private:
  static bool is_whole(const std::string& request) {
    const auto head = request.find("\r\n\r\n");
    const auto length = request.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) return false;
    return request.size() >= head + 4 + std::stoul(request.substr(length + 16));
  }
  int listening_;
  int port_ = 0;
};

/// A file of one line, mode 0600 unless said otherwise; gone with the test.
class SecretFile {
 public:
  explicit SecretFile(const std::string& line, mode_t mode = 0600) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "shardsweep-secret-XXXXXX").string();
    ::close(::mkstemp(pattern.data()));
    path = pattern;
    std::ofstream(path) << line << '\n';
    ::chmod(path.c_str(), mode);
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  ~SecretFile() { std::filesystem::remove(path); }
  std::string path;
};

/// Polls until nothing is on its way, or two seconds have passed.
void settle(Notifier& notifier, std::vector<std::string>& said) {
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  while (notifier.busy() && std::chrono::steady_clock::now() < deadline) {
    for (auto& line : notifier.poll())
      said.push_back(std::move(line));
    ::poll(nullptr, 0, 2);
  }
}

const Notice notice{NotifyEvent::sweep_ended, "demo", "sweep 'demo' has ended \xff", 7};

}  // namespace

TEST_CASE("a notice is one POST of JSON with Slack's text and the header of the file") {
  Server server;
  const SecretFile address(server.url("/services/T0/secret?x=1"));
  const SecretFile header("Authorization: Bearer hidden");
  const ManualClock clock;
  const auto notifier = make_webhook({.url_file = address.path, .header_file = header.path}, clock);
  notifier->send(notice);
  CHECK(notifier->busy());
  std::vector<std::string> said;
  const std::string request = server.serve(*notifier, 200, said);
  CHECK(request.rfind("POST /services/T0/secret?x=1 HTTP/1.1\r\n", 0) == 0);
  CHECK(request.find("\r\nAuthorization: Bearer hidden\r\n") != std::string::npos);
  CHECK(request.find("\r\nContent-Type: application/json\r\n") != std::string::npos);
  const auto body = nlohmann::json::parse(request.substr(request.find("\r\n\r\n") + 4));
  CHECK(body.at("text") == "shardsweep: sweep 'demo' has ended \xef\xbf\xbd");
  CHECK(body.at("event") == "sweep_ended");
  CHECK(body.at("sweep") == "demo");
  CHECK(body.at("at") == 7);
  settle(*notifier, said);
  CHECK_FALSE(notifier->busy());
  CHECK(said.empty());
}

TEST_CASE("what fails is tried again a few times and then dropped without the secret") {
  Server server;
  const SecretFile address(server.url("/secret"));
  ManualClock clock;
  const auto notifier = make_webhook({.url_file = address.path}, clock);
  notifier->send(notice);
  std::vector<std::string> said;
  for (int tries = 1; tries <= 5; ++tries) {
    CHECK_FALSE(server.serve(*notifier, 503, said).empty());
    const auto deadline = std::chrono::steady_clock::now() + 2s;
    while (said.size() < (tries == 5 ? 2U : 1U) && std::chrono::steady_clock::now() < deadline)
      for (auto& line : notifier->poll())
        said.push_back(std::move(line));
    for (int i = 0; i < 50; ++i) {
      (void)notifier->poll();
      ::poll(nullptr, 0, 1);
    }
    clock.at += 10min;
  }
  CHECK_FALSE(notifier->busy());
  REQUIRE(said.size() == 2);
  CHECK(said[0] == "notify: " + server.url("") + " answered 503; the notice will be sent again");
  CHECK(said[1].find("gave up after 5 tries") != std::string::npos);
  for (const auto& line : said)
    CHECK(line.find("secret") == std::string::npos);
}

TEST_CASE("nothing is sent where the secret can be read by others or nobody listens") {
  std::string url;
  {
    const Server gone;
    url = gone.url("/hidden");
  }
  const ManualClock clock;
  const SecretFile open_to_all("https://hooks.example/x", 0644);
  std::vector<std::string> said;
  const auto careless = make_webhook({.url_file = open_to_all.path}, clock);
  careless->send(notice);
  said = careless->poll();
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("can be read by others: chmod 600 it") != std::string::npos);
  const auto unheard = make_webhook({.url = url}, clock);
  unheard->send(notice);
  said.clear();
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  while (said.empty() && std::chrono::steady_clock::now() < deadline)
    said = unheard->poll();
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("will be sent again") != std::string::npos);
  CHECK(said[0].find("hidden") == std::string::npos);
  CHECK(unheard->busy());
}

TEST_CASE("of a storm of notices the first hundred are kept") {
  const ManualClock clock;
  const auto notifier = make_webhook({.url = "http://127.0.0.1:9/"}, clock);
  for (int i = 0; i < 100'000; ++i)
    notifier->send(notice);
  CHECK(notifier->busy());
}
