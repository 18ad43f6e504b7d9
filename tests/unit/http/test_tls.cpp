// SPDX-License-Identifier: Apache-2.0
// What a server behind TLS has to show before it is asked anything; by libcurl and by curl.
#include "http/client.hpp"
#include "tools/lib/tls_server.hpp"

#include <doctest/doctest.h>

#include <poll.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

using namespace shardsweep;
using shardsweep::testing::Authority;
using shardsweep::testing::for_long;
using shardsweep::testing::TlsServer;
using shardsweep::testing::until_expired;

namespace {

Result<http::Response> answer_of(const TlsServer& server, const std::string& ca_file) {
  http::Client client(server.url(), ca_file);
  (void)client.start({.path = "/page"});
  while (true) {
    auto done = client.poll();
    if (!done.empty()) return std::move(done.front().second);
    ::poll(nullptr, 0, 2);
  }
}

}  // namespace

TEST_CASE("a server whose certificate does not hold is asked nothing" *
    doctest::skip(find_on_path("openssl").empty())) {
  Authority ours("Ours");
  Authority others("Others");
  std::ofstream(ours.file("page")) << "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
  const std::filesystem::path answers = std::filesystem::path(ours.file("page")).parent_path();
  const std::string good = ours.certify("127.0.0.1", for_long);
  struct Row {
    std::string certified;
    std::string ca_file;
    std::string why;  ///< a part of it; empty: it is accepted
  };
  const std::vector<Row> rows{
      {good, ours.certificate(), ""},
      {good, "", "unable to get local issuer certificate"},
      {others.certify("127.0.0.1", for_long), ours.certificate(),
          "unable to get local issuer certificate"},
      {ours.certify("127.0.0.1", until_expired), ours.certificate(), "certificate has expired"},
      {ours.certify("127.0.0.2", for_long), ours.certificate(), "127.0.0.1"},
      {good, ours.file("gone.pem"), "gone.pem"},
  };
  for (const Row& row : rows) {
    const TlsServer server(answers, row.certified);
    const auto answer = answer_of(server, row.ca_file);
    CAPTURE(row.why);
    if (row.why.empty()) {
      REQUIRE_MESSAGE(answer, answer.error().what);
      CHECK(answer->body == "hi");
      continue;
    }
    REQUIRE(!answer);
    CHECK_MESSAGE(answer.error().what.find(row.why) != std::string::npos, answer.error().what);
    CHECK(answer.error().kind == FaultKind::unavailable);  // nothing has reached it
  }
}
