// SPDX-License-Identifier: Apache-2.0
#include "server/server.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace shardsweep::server;

constexpr std::string_view token = "0123abcd";

/// The status of a refusal; 200: it is admitted.
unsigned status_of(const Request& request) {
  const auto asked = admitted(request, token, "ask");
  return asked ? 200 : asked.error().status;
}

Request get(std::string_view target) {
  return {.method = "GET", .target = target, .host = "127.0.0.1:8642"};
}

TEST_CASE("a page and its values") {
  const auto asked = admitted(get("/0123abcd/trial?name=a%2Fb+c&file=%C3%A4"), token, "ask");
  REQUIRE(asked);
  CHECK(asked->page == "trial");
  CHECK(asked->values == Values{{"name", "a/b c"}, {"file", "\xc3\xa4"}});
  CHECK(admitted(get("/0123abcd/"), token, "ask")->page.empty());
}

TEST_CASE("what stands in a query is read as it was") {
  std::string all;
  for (int byte = 1; byte < 256; ++byte)
    all += static_cast<char>(byte);
  const auto target = "/0123abcd/log?name=" + in_query(all);
  CHECK(admitted(get(target), token, "ask")->values.at("name") == all);
}

TEST_CASE("without the token nothing") {
  for (const auto* target :
      {"/", "/0123abc/", "/0123abcde/", "/0123ABCD/", "//0123abcd/", "/?token=0123abcd"})
    CHECK(status_of(get(target)) == 403);
  CHECK(status_of(get("/0123abcd")) == 404);
  CHECK(status_of(get("0123abcd/")) == 400);
  CHECK(status_of(get("")) == 400);
}

TEST_CASE("no other host's name") {
  for (const auto* host :
      {"", "evil.example", "127.0.0.1.evil.example", "localhost.", "[::1]:8642"}) {
    auto request = get("/0123abcd/");
    request.host = host;
    CHECK(status_of(request) == 421);
  }
  auto request = get("/0123abcd/");
  request.host = "localhost:1";  // ssh -L 1:127.0.0.1:8642
  CHECK(status_of(request) == 200);
}

TEST_CASE("no page of another origin") {
  for (const auto* origin :
      {"null", "http://evil.example", "https://127.0.0.1:8642", "http://127.0.0.1:8643"}) {
    auto request = get("/0123abcd/");
    request.origin = origin;
    CHECK(status_of(request) == 403);
  }
  auto request = get("/0123abcd/");
  request.origin = "http://127.0.0.1:8642";
  CHECK(status_of(request) == 200);
  request.fetch_site = "cross-site";
  CHECK(status_of(request) == 403);
  // An address that was pressed in a chat.
  request.fetch_mode = "navigate";
  CHECK(status_of(request) == 200);
}

TEST_CASE("reading alone, of pages alone") {
  for (const auto* method : {"POST", "PUT", "DELETE", "OPTIONS", "get"}) {
    auto request = get("/0123abcd/report");
    request.method = method;
    CHECK(status_of(request) == 405);
  }
  auto request = get("/0123abcd/ask");
  request.method = "POST";
  CHECK(status_of(request) == 200);
  for (const auto* path : {"../", "a/b", "..%2f", "Report", "report.html"})
    CHECK(status_of(get("/0123abcd/" + std::string(path))) == 404);
  for (const auto* query : {"name=%00", "name=%", "name=%4", "name=%zz", "name=%+4", "a=1&a=2"})
    CHECK(status_of(get("/0123abcd/log?" + std::string(query))) == 400);
}

}  // namespace
