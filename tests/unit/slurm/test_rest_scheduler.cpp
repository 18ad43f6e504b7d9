// SPDX-License-Identifier: Apache-2.0
// The scheduler over slurmrestd beside a socket whose answers a test writes: what no real Slurm
// does on demand.
#include <shardsweep/backends.hpp>

#include <doctest/doctest.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace std::chrono_literals;

namespace {

/// Answers requests on a unix socket by what stands behind their first line.
class Slurmrestd {
 public:
  Slurmrestd() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "shardsweep-rest-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listening_, 8) == 0);
  }
  Slurmrestd(const Slurmrestd&) = delete;
  Slurmrestd& operator=(const Slurmrestd&) = delete;
  ~Slurmrestd() {
    for (const auto& [connection, text] : open_)
      ::close(connection);
    ::close(listening_);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return (folder_ / "s").string(); }

  std::map<std::string, std::string> answers;  ///< by method and path
  std::vector<std::string> asked;              ///< the same, in the order in which they came

  /// Until nothing has come for a while.
  void serve(Scheduler& scheduler) {
    auto quiet_since = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - quiet_since < 200ms) {
      (void)scheduler.poll();
      if (step()) quiet_since = std::chrono::steady_clock::now();
    }
  }

 private:
  bool step() {
    std::vector<pollfd> waiting{{listening_, POLLIN, 0}};
    for (const auto& [connection, text] : open_)
      waiting.push_back({connection, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), 2) <= 0) return false;
    for (const pollfd& one : waiting) {
      if (one.revents == 0) continue;
      if (one.fd == listening_) {
        open_[::accept(listening_, nullptr, nullptr)];
      } else {
        read(one.fd);
      }
    }
    return true;
  }
  void read(int connection) {
    char bytes[4096];
    const ssize_t got = ::read(connection, bytes, sizeof bytes);
    std::string& text = open_[connection];
    if (got > 0) text.append(bytes, static_cast<std::size_t>(got));
    const bool whole = text.find("\r\n\r\n") != std::string::npos;
    if (got > 0 && !whole) return;
    if (whole) answer(connection, text.substr(0, text.find(" HTTP/")));
    ::close(connection);
    open_.erase(connection);
  }
  void answer(int connection, const std::string& request) {
    asked.push_back(request);
    const auto found = answers.find(request);
    const std::string body = found == answers.end() ? "{}" : found->second;
    const std::string text =
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\nConnection: close\r\n\r\n" + body;
    REQUIRE(::write(connection, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  std::filesystem::path folder_;
  int listening_ = -1;
  std::map<int, std::string> open_;
};

struct Rest {
  Slurmrestd server;
  SystemClock clock;
  std::unique_ptr<Scheduler> scheduler;

  Rest() {
    server.answers["GET /openapi/v3"] =
        R"({"paths":{"/slurm/v0.0.40/jobs/":{},"/slurm/v0.0.40/job/submit":{}}})";
    server.answers["GET /slurm/v0.0.40/jobs"] = R"({"jobs":[]})";
    scheduler = make_slurm_rest_scheduler({.url = "unix:" + server.path()}, {}, clock);
    scheduler->look({});
    server.serve(*scheduler);
    REQUIRE(std::find(server.asked.begin(), server.asked.end(), "GET /slurm/v0.0.40/jobs") !=
            server.asked.end());
  }
  void job_7_is(const std::string& name, const std::string& state) {
    server.answers["GET /slurm/v0.0.40/job/7"] =
        R"({"jobs":[{"job_id":7,"name":")" + name + R"(","job_state":[")" + state + R"("]}]})";
  }
  /// Whether Slurm was told to end job 7.
  bool cancels(bool waits) {
    scheduler->cancel({.token = "3f", .job_name = "s-n1_3f", .job_id = "7", .waits = waits});
    server.serve(*scheduler);
    return std::find(server.asked.begin(), server.asked.end(), "DELETE /slurm/v0.0.40/job/7") !=
           server.asked.end();
  }
};

}  // namespace

TEST_CASE("a job of ours is cancelled over REST, whether it runs or waits") {
  Rest rest;
  rest.job_7_is("s-n1_3f", "RUNNING");
  CHECK(rest.cancels(false));
}

TEST_CASE("what is cancelled as long as it waits is not cancelled when it runs") {
  Rest rest;
  rest.job_7_is("s-n1_3f", "RUNNING");
  CHECK_FALSE(rest.cancels(true));
  rest.job_7_is("s-n1_3f", "PENDING");
  CHECK(rest.cancels(true));
}

TEST_CASE("somebody else's job that has our job's id is not cancelled") {
  Rest rest;
  rest.job_7_is("theirs", "RUNNING");
  CHECK_FALSE(rest.cancels(false));
  CHECK_FALSE(rest.cancels(true));
}
