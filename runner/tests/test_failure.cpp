// SPDX-License-Identifier: Apache-2.0
// What happens to a run when one of its ranks fails, hangs or never comes. Those that die or
// stand still are in test_deaths.cpp.
#include "communication/rendezvous.hpp"
#include "communication/socket_stream.hpp"
#include "launch.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

using namespace shardbench;

namespace {

using Codes = std::vector<int>;

bool says(const ScratchFolder& folder, int rank, const std::string& text) {
  const std::string name = rank == 0 ? "records" : "records." + std::to_string(rank);
  return read_file(folder.file(name)).find(text) != std::string::npos;
}

/// Waits for a connection that is not accepted yet.
void wait_for_connection(int listener) {
  pollfd watched{listener, POLLIN, 0};
  REQUIRE(::poll(&watched, 1, static_cast<int>(patience_s * 1000)) == 1);
}

}  // namespace

TEST_CASE("four ranks find each other and leave one result") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 4, flags_in(folder, {"--dp", "2", "--tp", "2"}));
  CHECK(run.wait(patience_s) == Codes{0, 0, 0, 0});
  CHECK(says(folder, 0, "\"type\":\"result\""));
  CHECK(guilty_ranks(folder).empty());
}

TEST_CASE("the correctness column knows the loss that every layout must reach") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 4,
      {"--model", "tiny", "--dtype", "fp64", "--dp", "2", "--pp", "2", "--grad-accum", "2",
          "--zero", "1", "--records", folder.file("records")});
  REQUIRE(run.wait(patience_s) == Codes{0, 0, 0, 0});
  const std::string text = read_file(folder.file("records"));
  const std::size_t at = text.find("\"loss_error\":");
  REQUIRE(at != std::string::npos);
  CHECK(std::atof(text.c_str() + at + 13) < 1e-12);
}

TEST_CASE("a rank out of memory names class and bytes and its peers end as peer_lost") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 4, flags_in(folder, {"--dp", "4", "--fault", "oom@train:2"}));
  CHECK(run.wait(patience_s) == Codes{14, 14, 11, 14});
  CHECK(says(folder, 2, "\"memory_class\":\"communication\""));
  CHECK(says(folder, 0, "\"class\":\"peer_lost\""));
  CHECK(says(folder, 0, "rank 2: oom"));
  CHECK(guilty_ranks(folder) == std::vector<i64>{2});
}

TEST_CASE("a loss that is no number ends a rank as nan, and each other one as that or told of it") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2, flags_in(folder, {"--dp", "2", "--fault", "nan@warmup:1"}));
  // All ranks have the same sum, and one may tell the others before they look at theirs.
  const Codes codes = run.wait(patience_s);
  CAPTURE(codes[0]);
  CAPTURE(codes[1]);
  CHECK(std::count(codes.begin(), codes.end(), 15) >= 1);
  for (const int rank : {0, 1}) {
    if (codes[static_cast<std::size_t>(rank)] == 15) continue;
    CHECK(codes[static_cast<std::size_t>(rank)] == 14);
    CHECK(says(folder, rank, "rank " + std::to_string(1 - rank) + ": nan"));
  }
}

TEST_CASE("a rank that leaves with 0 and no result is a lost peer") {
  for (const char* phase : {"init", "train", "teardown"}) {
    CAPTURE(phase);
    const ScratchFolder folder;
    Launch run(SHARDBENCH_PROGRAM, 2,
        flags_in(folder, {"--dp", "2", "--fault", std::string("exit0@") + phase + ":1"}));
    const Codes codes = run.wait(patience_s);
    CHECK(codes[1] == 0);
    // Teardown has nothing left to wait for.
    CHECK(codes[0] == (std::string(phase) == "teardown" ? 0 : 14));
  }
}

TEST_CASE("a rank that hangs is named by the recorder and its peers end as timeout") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 4,
      flags_in(folder, {"--dp", "2", "--tp", "2", "--fault", "hang@train:1"}));
  REQUIRE(wait_for_text(folder.file("records"), "\"phase\":\"train\"", patience_s));
  // Named while the others wait for it, before they give up. One look counts: until all of
  // them wait, and between their ends, a later look may find another rank behind.
  CHECK(wait_for_guilty(folder, {1}, patience_s));
  const Codes codes = run.wait(patience_s, 1);
  CHECK(codes[1] == Launch::still_running);
  CHECK(std::count(codes.begin(), codes.end(), 13) >= 1);
  CHECK(
      std::count(codes.begin(), codes.end(), 13) + std::count(codes.begin(), codes.end(), 14) == 3);
  CHECK(guilty_ranks(folder) == std::vector<i64>{1});
}

TEST_CASE("a rank that stops amid a schedule's messages is named by the recorder") {
  for (const std::vector<std::string>& schedule :
      {std::vector<std::string>{"--vpp", "2", "--schedule", "1f1b"},
          std::vector<std::string>{"--schedule", "zb-h1"},
          std::vector<std::string>{"--vpp", "2", "--schedule", "zb-v"},
          std::vector<std::string>{"--pp", "2", "--cp", "2"}}) {
    CAPTURE(schedule.back());
    const ScratchFolder folder;
    std::vector<std::string> flags{
        "--pp", "4", "--layers", "8", "--grad-accum", "8", "--steps", "1000000"};
    flags.insert(flags.end(), schedule.begin(), schedule.end());
    Launch run(SHARDBENCH_PROGRAM, 4, flags_in(folder, flags));
    REQUIRE(wait_for_text(folder.file("records"), "\"timed\":true", patience_s));
    run.signal(2, SIGSTOP);
    const Codes codes = run.wait(patience_s, 2);
    CHECK(codes[2] == Launch::still_running);
    CHECK(std::count(codes.begin(), codes.end(), 13) >= 1);
    // While messages are still on their way, their senders look guilty too.
    CHECK(guilty_ranks(folder) == std::vector<i64>{2});
  }
}

TEST_CASE("a phase without progress ends by its deadline") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 1,
      flags_in(folder, {"--fault", "hang@train", "--deadline", deadline("train", 0.5)}));
  CHECK(run.wait(patience_s) == Codes{13});
  CHECK(says(folder, 0, "no progress in phase train"));
}

TEST_CASE("a missing rank is named after the deadline") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2,
      flags_in(
          folder, {"--dp", "3", "--world-size", "3", "--deadline", deadline("rendezvous", 3)}));
  const Codes codes = run.wait(patience_s);
  CHECK(codes[0] == 13);
  CHECK(says(folder, 0, "no message from rank 2 within"));
  CHECK(guilty_ranks(folder) == std::vector<i64>{2});
}

TEST_CASE("a stale rendezvous file is read again until the right one comes") {
  const ScratchFolder folder;
  // Port 1 has no listener; the file looks like one of ours.
  std::ofstream(folder.file("rendezvous.test")) << host_name() << ":1 test\n";
  Launch run(SHARDBENCH_PROGRAM, 2, flags_in(folder, {"--dp", "2"}));
  CHECK(run.wait(patience_s) == Codes{0, 0});
}

TEST_CASE("a stranger with another nonce is sent away and the run goes on") {
  // The port stays this test's own: strangers are at it before rank 0 is.
  const ScratchFolder folder;
  const int listener = listen_on("127.0.0.1", 0);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(bound_port(listener));
  const std::string errors = folder.file("strangers");
  Launch stranger(SHARDBENCH_PROGRAM, 2,
      {"--model", "tiny", "--dp", "2", "--run-id", "stranger", "--rank", "1", "--deadline",
          deadline("rendezvous", 2), "--rendezvous", address},
      {.errors = errors});
  wait_for_connection(listener);
  (void)::fcntl(listener, F_SETFD, 0);
  const auto rank = [&](const char* self, const std::string& where) {
    return flags_in(
        folder, {"--dp", "2", "--world-size", "2", "--rank", self, "--rendezvous", where});
  };
  Launch first(SHARDBENCH_PROGRAM, 1, rank("0", "fd:" + std::to_string(listener)));
  Launch second(SHARDBENCH_PROGRAM, 1, rank("1", address));
  ::close(listener);
  CHECK(first.wait(patience_s) == Codes{0});
  CHECK(second.wait(patience_s) == Codes{0});
  CHECK(stranger.wait(patience_s) == Codes{13, 13});
}

TEST_CASE("ranks with other flags are refused by name") {
  const ScratchFolder folder;
  const auto flags = flags_in(folder, {"--dp", "2"});
  auto others = flags;
  others.insert(others.end(), {"--seed", "99", "--rank", "1"});
  auto mine = flags;
  mine.insert(mine.end(), {"--rank", "0"});
  Launch second(SHARDBENCH_PROGRAM, 2, others);
  Launch first(SHARDBENCH_PROGRAM, 1, [&] {
    mine.insert(mine.end(), {"--world-size", "2"});
    return mine;
  }());
  CHECK(first.wait(patience_s) == Codes{12});
}

TEST_CASE("a refused layout and a wrong flag have their exit codes") {
  const ScratchFolder folder;
  Launch layout(SHARDBENCH_PROGRAM, 1, flags_in(folder, {"--zero", "1"}));
  CHECK(layout.wait(patience_s) == Codes{10});
  CHECK(says(folder, 0, "\"class\":\"invalid_layout\""));
  Launch flag(SHARDBENCH_PROGRAM, 1, {"--no-such-flag"});
  CHECK(flag.wait(patience_s) == Codes{2});
}

int main(int argc, char** argv) {
  use_hand_clock(SHARDBENCH_HAND_CLOCK);
  return doctest::Context(argc, argv).run();
}
