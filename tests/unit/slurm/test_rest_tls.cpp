// SPDX-License-Identifier: Apache-2.0
// slurmrestd behind TLS: a certificate that does not hold is refused, its true reason is said,
// and nothing is sent.
#include "tools/lib/tls_server.hpp"

#include <shardsweep/backends.hpp>

#include <doctest/doctest.h>

#include <poll.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

using namespace shardsweep;
using shardsweep::testing::Authority;
using shardsweep::testing::for_long;
using shardsweep::testing::TlsServer;
using shardsweep::testing::until_expired;

namespace {

const AllocationHandle our_job{.token = "3f", .job_name = "s-n1_3f", .job_id = "7"};

/// A site whose slurmrestd knows our job, and what a scheduler over it has seen.
struct BehindTls {
  Authority site{"Site"};
  SystemClock clock;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<SchedulerEvent> events;

  BehindTls() {
    put("openapi/v3", R"({"paths":{"/slurm/v0.0.40/jobs/":{},"/slurm/v0.0.40/job/submit":{}}})");
    put("slurm/v0.0.40/jobs",
        R"({"jobs":[{"job_id":7,"name":"s-n1_3f","job_state":["RUNNING"]}]})");
    std::ofstream(site.file("token")) << "secret\n";
    std::ofstream(site.file("script")) << "#!/bin/sh\n#SBATCH --nodes=1\ntrue\n";
    ::chmod(site.file("token").c_str(), 0600);
    ::chmod(site.file("script").c_str(), 0600);
  }
  void put(const std::string& path, const std::string& body) const {
    const auto file = answers() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "HTTP/1.1 200 OK\r\nContent-Length: " << body.size()
                        << "\r\nConnection: close\r\n\r\n"
                        << body;
  }
  [[nodiscard]] std::filesystem::path answers() const { return site.file("answers"); }
  void reach(const TlsServer& server, const std::string& ca_file) {
    scheduler = make_slurm_rest_scheduler(
        {.url = server.url(), .token_file = site.file("token"), .ca_file = ca_file}, {}, clock);
  }
  template <class Event>
  [[nodiscard]] const Event* seen() const {
    for (const SchedulerEvent& event : events) {
      if (const auto* one = std::get_if<Event>(&event)) return one;
    }
    return nullptr;
  }
  void wait() {
    ::poll(nullptr, 0, 2);
    for (SchedulerEvent& event : scheduler->poll())
      events.push_back(std::move(event));
  }
  /// Why a look at our job has failed; empty: it has not.
  std::string look() {
    events.clear();
    scheduler->look({our_job});
    while (true) {
      wait();
      if (const auto* failed = seen<LookFailed>()) return failed->why;
      if (seen<JobSeen>() != nullptr) return "";
    }
  }
};

}  // namespace

TEST_CASE("a certificate that does not hold is refused with its true reason" *
    doctest::skip(find_on_path("openssl").empty())) {
  BehindTls rest;
  Authority others("Others");
  const std::string ours = rest.site.certificate();
  struct Row {
    std::string certified;
    std::string ca_file;
    std::string why;  ///< a part of it; empty: it is accepted
  };
  const std::string good = rest.site.certify("127.0.0.1", for_long);
  const std::vector<Row> rows{
      {good, ours, ""},
      {good, "", "unable to get local issuer certificate"},
      {others.certify("127.0.0.1", for_long), ours, "unable to get local issuer certificate"},
      {rest.site.certify("127.0.0.1", until_expired), ours, "certificate has expired"},
      {rest.site.certify("127.0.0.2", for_long), ours, "127.0.0.1"},
      {good, rest.site.file("gone.pem"), "gone.pem"},
  };
  for (const Row& row : rows) {
    const TlsServer server(rest.answers(), row.certified);
    rest.reach(server, row.ca_file);
    const std::string why = rest.look();
    CAPTURE(row.why);
    CAPTURE(why);
    CHECK((row.why.empty() ? why.empty() : why.find(row.why) != std::string::npos));
    CHECK((rest.seen<JobSeen>() != nullptr) == row.why.empty());
    CHECK(rest.seen<JobNotSeen>() == nullptr);
    CHECK(rest.seen<JobMissed>() == nullptr);
  }
}

TEST_CASE("a certificate that expires puts submissions off and loses no job" *
    doctest::skip(find_on_path("openssl").empty())) {
  BehindTls rest;
  std::string port;
  {
    const TlsServer server(rest.answers(), rest.site.certify("127.0.0.1", for_long));
    port = server.port();
    rest.reach(server, rest.site.certificate());
    REQUIRE(rest.look().empty());
  }
  const TlsServer server(rest.answers(), rest.site.certify("127.0.0.1", until_expired), port);
  rest.scheduler->submit(
      {.token = "40", .job_name = "s-n1_40", .script = rest.site.file("script")});
  const std::string why = rest.look();
  CAPTURE(why);
  CHECK(why.find("certificate has expired") != std::string::npos);
  while (rest.seen<SubmitDeferred>() == nullptr) {
    REQUIRE(rest.seen<SubmitUnknown>() == nullptr);
    REQUIRE(rest.seen<SubmitRefused>() == nullptr);
    rest.wait();
  }
  REQUIRE(rest.seen<SubmitDeferred>() != nullptr);
  CHECK(rest.seen<SubmitDeferred>()->why.find("certificate has expired") != std::string::npos);
  CHECK(rest.seen<JobNotSeen>() == nullptr);
  CHECK(rest.seen<JobMissed>() == nullptr);
}
