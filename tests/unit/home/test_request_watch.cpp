// SPDX-License-Identifier: Apache-2.0
#include "unit/folder.hpp"

#include <shardsweep/requests.hpp>

#include <doctest/doctest.h>

#include <poll.h>

namespace shardsweep::test {
namespace {

bool heard(const RequestWatch& watch, int limit_ms) {
  pollfd one{watch.descriptor(), POLLIN, 0};
  return ::poll(&one, 1, limit_ms) == 1;
}

struct Asked {
  Folder folder;
  Home home{folder.path() / "a.db"};
  Asked() {
    std::filesystem::create_directories(home.requests());
    std::filesystem::create_directories(home.answers());
  }
  void post() const { REQUIRE(post_request(home, {.verb = Verb::pause}, 1'000'000)); }
};

}  // namespace

TEST_CASE("a request is heard when it is complete, and once") {
  const Asked asked;
  RequestWatch watch(asked.home);
  CHECK_FALSE(heard(watch, 0));
  asked.post();
  REQUIRE(heard(watch, 10'000));
  CHECK(pending_requests(asked.home)->size() == 1);
  watch.clear();
  CHECK_FALSE(heard(watch, 0));
}

TEST_CASE("what the daemon does in the folder itself wakes nobody") {
  const Asked asked;
  asked.post();
  RequestWatch watch(asked.home);
  const auto pending = pending_requests(asked.home);
  REQUIRE(pending);
  for (const PendingRequest& request : *pending)
    REQUIRE(answer_request(asked.home, Answer{.id = request.id}));
  CHECK_FALSE(heard(watch, 0));
}

TEST_CASE("without a folder nothing is heard, and poll() ignores it") {
  const Folder folder;
  RequestWatch watch(Home{folder.path() / "none.db"});
  CHECK(watch.descriptor() == -1);
  watch.clear();
  CHECK_FALSE(heard(watch, 0));
}

}  // namespace shardsweep::test
