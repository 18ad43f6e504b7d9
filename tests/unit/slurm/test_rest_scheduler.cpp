// SPDX-License-Identifier: Apache-2.0
// The scheduler over slurmrestd beside a socket whose answers a test writes: what no real Slurm
// does on demand.
#include <shardsweep/backends.hpp>

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

using namespace shardsweep;
using namespace std::chrono_literals;

namespace {

enum class Listens { on_a_socket, on_a_port };

/// Answers requests by what stands behind their first line.
class Slurmrestd {
 public:
  explicit Slurmrestd(Listens where = Listens::on_a_socket) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "shardsweep-rest-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    if (where == Listens::on_a_port) {
      listen_on_a_port();
      return;
    }
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

  [[nodiscard]] const std::string& url() const { return url_; }

  std::map<std::string, std::string> answers;  ///< by method and path
  std::string token{};                         ///< that is asked for; empty: none
  std::map<std::string, std::string> heads{};  ///< in place of "200 OK"
  std::vector<std::string> tokens{};           ///< that were sent
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
  void listen_on_a_port() {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(listening_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    REQUIRE(::listen(listening_, 8) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
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
    if (text.find("\r\n\r\n") == std::string::npos) return;
    constexpr std::string_view header = "X-SLURM-USER-TOKEN: ";
    std::string sent;
    if (const auto at = text.find(header); at != std::string::npos)
      sent = text.substr(at + header.size(), text.find("\r\n", at) - at - header.size());
    tokens.push_back(sent);
    answer(connection, text.substr(0, text.find(" HTTP/")), sent);
  }
  /// As much as the client has room for: it reads in the same thread.
  void write(int connection) {
    Exchange& exchange = open_[connection];
    const std::string_view left = std::string_view(exchange.answer).substr(exchange.sent);
    const ssize_t sent = ::send(connection, left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return close(connection);
    exchange.sent += static_cast<std::size_t>(sent);
    if (exchange.sent == exchange.answer.size()) close(connection);
  }
  void close(int connection) {
    ::close(connection);
    open_.erase(connection);
  }
  void answer(int connection, const std::string& request, const std::string& sent) {
    asked.push_back(request);
    const auto found = answers.find(request);
    std::string body = found == answers.end() ? "{}" : found->second;
    const auto given = heads.find(request);
    std::string head = given == heads.end() ? "200 OK" : given->second;
    if (sent != token) {
      head = "401 UNAUTHORIZED";
      body = "Authentication failure";  // slurmrestd's own words are no JSON
    }
    open_[connection].answer = "HTTP/1.1 " + head +
        "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
        body;
  }

  std::filesystem::path folder_;
  std::string url_{};
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
  const auto seen = std::find_if(events.begin(), events.end(),
      [](const SchedulerEvent& event) { return std::holds_alternative<JobSeen>(event); });
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
  CHECK(std::get<LookFailed>(events[0]).why == "slurmrestd's list holds a job of more than 8 MiB");
}

// ---- who we are, and who answers

namespace {

/// Over a port, with a token that stands in a file.
struct ByToken {
  Slurmrestd server{Listens::on_a_port};
  SystemClock clock;
  std::unique_ptr<Scheduler> scheduler;
  std::string file = server.path() + ".token";
  std::string script = server.path() + ".sh";
  std::vector<SchedulerEvent> events;

  explicit ByToken(const std::string& url = "") {
    server.answers["GET /openapi/v3"] =
        R"({"paths":{"/slurm/v0.0.40/jobs/":{},"/slurm/v0.0.40/job/submit":{}}})";
    server.answers["GET /slurm/v0.0.40/jobs"] = R"({"jobs":[]})";
    server.token = "right";
    put_token("right");
    std::ofstream(script) << "#!/bin/sh\n#SBATCH --nodes=1\ntrue\n";
    ::chmod(script.c_str(), 0600);
    scheduler = make_slurm_rest_scheduler(
        {.url = url.empty() ? server.url() : url, .token_file = file}, {}, clock);
  }
  void put_token(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(file) << text << "\n";
    ::chmod(file.c_str(), mode);
  }
  void look(const std::vector<AllocationHandle>& handles = {}) {
    scheduler->look(handles);
    server.serve(*scheduler, &events);
  }
  void submit() {
    scheduler->submit({.token = "3f", .job_name = "s-n1_3f", .script = script});
    server.serve(*scheduler, &events);
  }
  template <class Event>
  [[nodiscard]] const Event* last() const {
    const Event* found = nullptr;
    for (const SchedulerEvent& event : events) {
      if (const auto* one = std::get_if<Event>(&event)) found = one;
    }
    return found;
  }
  [[nodiscard]] bool was_asked(const std::string& what) const {
    return std::count(server.asked.begin(), server.asked.end(), what) > 0;
  }
};
const std::string submission = "POST /slurm/v0.0.40/job/submit";

}  // namespace

TEST_CASE("a token that was never right fails the look, and submits nothing") {
  ByToken rest;
  rest.put_token("wrong");
  rest.look();
  REQUIRE(rest.last<LookFailed>() != nullptr);
  CHECK(rest.last<LookFailed>()->why.find("401") != std::string::npos);
  rest.submit();
  REQUIRE(rest.last<SubmitDeferred>() == nullptr);  // it waits: nothing is asked for a while
  CHECK(!rest.was_asked(submission));
  for (const SchedulerEvent& event : rest.events)
    CHECK(!std::holds_alternative<JobMissed>(event));
}

TEST_CASE("a token that has expired loses no job, and a new one is taken from its file") {
  ByToken rest;
  const AllocationHandle job{.token = "3f", .job_name = "s-n1_3f", .job_id = "7"};
  rest.server.answers["GET /slurm/v0.0.40/jobs"] =
      R"({"jobs":[{"job_id":7,"name":"s-n1_3f","job_state":["RUNNING"]}]})";
  rest.look({job});
  REQUIRE(rest.last<JobSeen>() != nullptr);
  rest.events.clear();
  rest.server.token = "renewed";
  rest.look({job});
  REQUIRE(rest.last<LookFailed>() != nullptr);
  CHECK(rest.last<JobSeen>() == nullptr);
  CHECK(rest.last<JobNotSeen>() == nullptr);
  CHECK(rest.last<JobMissed>() == nullptr);
  // Neither is a submission lost: nobody has looked at it.
  rest.submit();
  REQUIRE(rest.last<SubmitDeferred>() != nullptr);
  CHECK(rest.last<SubmitDeferred>()->token == "3f");
  CHECK(rest.last<SubmitDeferred>()->why == "HTTP 401");
  rest.put_token("renewed");
  rest.events.clear();
  rest.look({job});
  REQUIRE(rest.last<JobSeen>() != nullptr);
}

TEST_CASE("a token that others can read is never sent") {
  ByToken rest;
  rest.put_token("right", 0644);
  rest.look();
  REQUIRE(rest.last<LookFailed>() != nullptr);
  CHECK(rest.last<LookFailed>()->why.find("can be read by others") != std::string::npos);
  CHECK(rest.server.asked.empty());
}

TEST_CASE("a server that sends us elsewhere does not get the token there") {
  Slurmrestd elsewhere(Listens::on_a_port);
  ByToken rest;
  rest.server.heads["GET /openapi/v3"] =
      "302 Found\r\nLocation: " + elsewhere.url() + "/openapi/v3";
  rest.look();
  REQUIRE(rest.last<LookFailed>() != nullptr);
  elsewhere.serve(*rest.scheduler);
  CHECK(elsewhere.asked.empty());
}

TEST_CASE("a server without a known certificate is told nothing") {
  // No TLS at all stands behind the port: the handshake fails as with a foreign certificate.
  ByToken rest("https://" + Slurmrestd(Listens::on_a_port).url().substr(7));
  Slurmrestd plain(Listens::on_a_port);
  rest.scheduler = make_slurm_rest_scheduler(
      {.url = "https://" + plain.url().substr(7), .token_file = rest.file}, {}, rest.clock);
  rest.scheduler->look({});
  rest.scheduler->submit({.token = "3f", .job_name = "s-n1_3f", .script = rest.script});
  while (rest.last<LookFailed>() == nullptr) {
    plain.serve(*rest.scheduler, &rest.events);
  }
  for (const std::string& sent : plain.tokens)
    CHECK(sent.empty());
  // Nothing has reached it, so nothing has to be looked for.
  CHECK(rest.last<SubmitUnknown>() == nullptr);
  CHECK(rest.last<SubmitAccepted>() == nullptr);
}

TEST_CASE("what a lying server says of a submission is never a job of ours by itself") {
  struct Lie {
    const char* body;
    const char* head;
    bool unknown;  ///< else it is refused or put off
  };
  for (const Lie& lie :
      {Lie{R"({"job_id":0})", "200 OK", true}, Lie{R"({"job_id":-7})", "200 OK", true},
          Lie{R"({"job_id":"seven"})", "200 OK", true}, Lie{R"({"job_id":[7]})", "200 OK", true},
          Lie{"<html>7</html>", "200 OK", true}, Lie{"", "200 OK", true},
          Lie{R"({"job_id":)", "200 OK", true}, Lie{"<html>busy</html>", "502 Bad Gateway", true},
          Lie{"<html>who?</html>", "403 Forbidden", false},
          Lie{"slow down", "429 Too Many Requests", false}}) {
    ByToken rest;
    rest.look();
    rest.server.answers[submission] = lie.body;
    rest.server.heads[submission] = lie.head;
    rest.submit();
    CAPTURE(lie.body);
    CAPTURE(lie.head);
    REQUIRE(rest.was_asked(submission));
    CHECK(rest.last<SubmitAccepted>() == nullptr);
    CHECK((rest.last<SubmitUnknown>() != nullptr) == lie.unknown);
    CHECK((rest.last<SubmitDeferred>() != nullptr) == !lie.unknown);
  }
}

TEST_CASE("a list of jobs that lies is a look that failed or says nothing of our job") {
  for (const char* const text : {"{}", "[]", R"({"jobs":{}})", R"({"jobs":"none"})",
           "<html></html>", R"({"jobs":[{"job_id":8,"name":"s-n1_3f )", ""}) {
    const std::string body(text);
    ByToken rest;
    rest.look();
    rest.events.clear();
    rest.server.answers["GET /slurm/v0.0.40/jobs"] = body;
    rest.look({{.token = "3f", .job_name = "s-n1_3f", .job_id = "7"}});
    CAPTURE(body);
    CHECK(rest.last<LookFailed>() != nullptr);
    CHECK(rest.last<JobSeen>() == nullptr);
    CHECK(rest.last<JobMissed>() == nullptr);
  }
}
