// SPDX-License-Identifier: Apache-2.0
#include "text/characters.hpp"
#include "unit/folder.hpp"

#include <shardsweep/requests.hpp>

#include <doctest/doctest.h>

#include <poll.h>
#include <unistd.h>

#include <fstream>

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
TEST_CASE("a request that is none is refused without what a terminal obeys") {
  const Asked asked;
  const std::string id = "00000000000000000001-h-1-1";
  for (const char* const text : {"\x1b[2J", "{\"verb\": \"\x7f\\u001bpause\"}"}) {
    CAPTURE(text);
    std::ofstream(asked.home.requests() / id) << text;
    const auto pending = pending_requests(asked.home);
    REQUIRE(pending);
    REQUIRE(pending->size() == 1);
    REQUIRE_FALSE(pending->front().request);
    CHECK_FALSE(has_control(pending->front().request.error().what));
  }
}

TEST_CASE("a request that another user has left is not obeyed") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: giving a file away needs root");
    return;
  }
  constexpr uid_t other = 65534;
  const Asked asked;
  asked.post();
  const auto pending = pending_requests(asked.home);
  REQUIRE(pending->size() == 1);
  CHECK(pending->front().request);
  const auto file = asked.home.requests() / pending->front().id;
  const auto refusal = [&] {
    const auto refused = pending_requests(asked.home);
    REQUIRE(refused->size() == 1);
    REQUIRE_FALSE(refused->front().request);
    CHECK(refused->front().request.error().kind == FaultKind::invalid_input);
    return refused->front().request.error().what;
  };
  REQUIRE(::chown(file.c_str(), other, other) == 0);
  CHECK(
      refusal().find(file.string() + "' belongs to another user (uid 65534)") != std::string::npos);
  std::filesystem::remove(file);
  std::filesystem::create_symlink("/etc/passwd", file);
  CHECK(refusal().find("is a link") != std::string::npos);
}

TEST_CASE("a home of another user is refused, one that others may write is closed to them") {
  const Folder folder;
  const Home home{folder.path() / "a.db"};
  REQUIRE(make_home(home));
  std::filesystem::permissions(home.dir(), std::filesystem::perms::all);
  REQUIRE(make_home(home));
  CHECK((std::filesystem::status(home.dir()).permissions() &
            std::filesystem::perms::others_write) == std::filesystem::perms::none);
  if (::geteuid() != 0) return;
  REQUIRE(::chown(home.dir().c_str(), 65534, 65534) == 0);
  const auto refused = make_home(home);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("belongs to another user (uid 65534)") != std::string::npos);
}

TEST_CASE("a database of another user is refused, whoever may write it") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: giving a file away needs root");
    return;
  }
  const Folder folder;
  const Home home{folder.path() / "a.db"};
  for (const char* const text : {"", "SQLite format 3"}) {
    CAPTURE(text);
    std::ofstream(home.database) << text;
    std::filesystem::permissions(home.database, std::filesystem::perms{0666});
    REQUIRE(::chown(home.database.c_str(), 65534, 65534) == 0);
    const auto refused = make_home(home);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == FaultKind::rejected);
    CHECK(refused.error().what.find("belongs to another user (uid 65534)") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(home.dir()));
  }
}

TEST_CASE("a database of two names is refused until it has one") {
  const Folder folder;
  const Home home{folder.path() / "a.db"};
  const auto other = folder.path() / "b.db";
  std::ofstream(home.database) << "SQLite format 3";
  std::filesystem::create_hard_link(home.database, other);
  const auto refused = make_home(home);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FaultKind::rejected);
  CHECK(refused.error().what.find("has 2 names (hard links)") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(home.dir()));
  std::filesystem::remove(other);
  CHECK(make_home(home));
}

}  // namespace shardsweep::test
