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
#include <string_view>
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
    for (const auto& [connection, exchange] : open_)
      ::close(connection);
    ::close(listening_);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return (folder_ / "s").string(); }

  std::map<std::string, std::string> answers;  ///< by method and path
  std::vector<std::string> asked;              ///< the same, in the order in which they came

  /// Until nothing has come for a while.
  void serve(Scheduler& scheduler, std::vector<SchedulerEvent>* events = nullptr) {
    auto quiet_since = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - quiet_since < 200ms) {
      for (SchedulerEvent& event : scheduler.poll()) {
        if (events != nullptr) events->push_back(std::move(event));
      }
      if (step()) quiet_since = std::chrono::steady_clock::now();
    }
  }

 private:
  bool step() {
    std::vector<pollfd> waiting{{listening_, POLLIN, 0}};
    for (const auto& [connection, exchange] : open_) {
      const bool answering = !exchange.answer.empty();
      waiting.push_back({connection, static_cast<short>(answering ? POLLOUT : POLLIN), 0});
    }
    if (::poll(waiting.data(), waiting.size(), 2) <= 0) return false;
    for (const pollfd& one : waiting) {
      if (one.revents == 0) continue;
      if (one.fd == listening_) {
        open_[::accept(listening_, nullptr, nullptr)];
      } else if (open_[one.fd].answer.empty()) {
        read(one.fd);
      } else {
        write(one.fd);
      }
    }
    return true;
  }
  void read(int connection) {
    char bytes[4096];
    const ssize_t got = ::read(connection, bytes, sizeof bytes);
    std::string& text = open_[connection].request;
    if (got <= 0) return close(connection);
    text.append(bytes, static_cast<std::size_t>(got));
    if (text.find("\r\n\r\n") != std::string::npos)
      answer(connection, text.substr(0, text.find(" HTTP/")));
  }
  /// As much as the client has room for: it reads in the same thread.
  void write(int connection) {
    Exchange& exchange = open_[connection];
    const std::string_view left = std::string_view(exchange.answer).substr(exchange.sent);
    const ssize_t sent =
        ::send(connection, left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return close(connection);
    exchange.sent += static_cast<std::size_t>(sent);
    if (exchange.sent == exchange.answer.size()) close(connection);
  }
  void close(int connection) {
    ::close(connection);
    open_.erase(connection);
  }
  void answer(int connection, const std::string& request) {
    asked.push_back(request);
    const auto found = answers.find(request);
    const std::string body = found == answers.end() ? "{}" : found->second;
    open_[connection].answer =
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\nConnection: close\r\n\r\n" + body;
  }

  std::filesystem::path folder_;
  int listening_ = -1;
  struct Exchange {
    std::string request;
    std::string answer;
    std::size_t sent = 0;  ///< bytes of the answer
  };
  std::map<int, Exchange> open_;
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

TEST_CASE("a job of ours is found in a list of more than 64 MiB") {
  Rest rest;
  std::string list = R"({"jobs":[)";
  const std::string other =
      R"({"job_id":1,"name":"other","comment":")" + std::string(1 << 20, 'x') + R"("},)";
  for (int jobs = 0; jobs < 66; ++jobs)
    list += other;
  list += R"({"job_id":7,"name":"s-n1_3f","job_state":["RUNNING"]}],"errors":[]})";
  rest.server.answers["GET /slurm/v0.0.40/jobs"] = list;
  rest.scheduler->look({{.token = "3f", .job_name = "s-n1_3f", .job_id = "7"}});
  std::vector<SchedulerEvent> events;
  rest.server.serve(*rest.scheduler, &events);
  const auto seen = std::find_if(events.begin(), events.end(), [](const SchedulerEvent& event) {
    return std::holds_alternative<JobSeen>(event);
  });
  REQUIRE(seen != events.end());
  CHECK(std::get<JobSeen>(*seen).job_id == "7");
}

TEST_CASE("a list with a job that has no end is a look that failed") {
  Rest rest;
  rest.server.answers["GET /slurm/v0.0.40/jobs"] =
      R"({"jobs":[{"name":")" + std::string(9 << 20, 'x') + R"("}]})";
  rest.scheduler->look({{.token = "3f", .job_name = "s-n1_3f", .job_id = "7"}});
  std::vector<SchedulerEvent> events;
  rest.server.serve(*rest.scheduler, &events);
  REQUIRE(events.size() == 1);
  CHECK(std::get<LookFailed>(events[0]).why ==
        "slurmrestd's list holds a job of more than 8 MiB");
}
