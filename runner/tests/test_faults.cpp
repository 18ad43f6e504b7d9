// SPDX-License-Identifier: Apache-2.0
// Misbehaviour on request, what an operator asks of a rank that hangs, and the ways in which
// ranks are told who they are and where they meet.
#include "communication/socket_stream.hpp"
#include "launch.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

using namespace shardbench;

namespace {

using Codes = std::vector<int>;

/// The last complete line of a records file.
std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t before = text.rfind('\n', end);
  return text.substr(before == std::string::npos ? 0 : before + 1, end - before);
}

/// Processes whose command line names `folder`.
std::vector<pid_t> processes_of(const ScratchFolder& folder) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    if (read_file(entry.path() / "cmdline").find(folder.path()) != std::string::npos)
      found.push_back(pid);
  }
  return found;
}

}  // namespace

TEST_CASE("SIGQUIT writes where a hanging rank stands and leaves it running") {
  const ScratchFolder folder;
  const std::string errors = folder.file("stderr");
  Launch run(
      SHARDBENCH_PROGRAM, 1, flags_in(folder, {"--fault", "hang@train"}), {.errors = errors});
  REQUIRE(wait_for_text(folder.file("records"), "\"phase\":\"train\"", patience_s));
  // The record comes before the hang: asked again until the hang itself is on the stack.
  while (!wait_for_text(errors, "shardbench4hang", 0.1))
    run.signal(0, SIGQUIT);
  CHECK(read_file(errors).find("backtrace (SIGQUIT)") != std::string::npos);
  CHECK(run.wait(0) == Codes{Launch::still_running});
}

TEST_CASE("garbage among the records leaves the result whole on its own line") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2, flags_in(folder, {"--dp", "2", "--fault", "garbage@train:0"}));
  CHECK(run.wait(patience_s) == Codes{0, 0});
  const std::string text = read_file(folder.file("records"));
  CHECK(text.find("somebody-else") != std::string::npos);
  const std::string result = last_line(text);
  CHECK(result.rfind("{\"type\":\"result\",\"run_id\":\"test\"", 0) == 0);
  CHECK(result.back() == '}');
}

TEST_CASE("a child that outlives its rank holds up neither the run nor the news of a death") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2,
      flags_in(folder, {"--dp", "2", "--fault", "fork@init:1", "--steps", "1000000"}));
  REQUIRE(wait_for_text(folder.file("records"), "\"phase\":\"train\"", patience_s));
  run.signal(1, SIGKILL);
  // The orphan lives and has no part of the connection: the peer sees its end at once.
  CHECK(run.wait(patience_s) == Codes{14, -SIGKILL});
  const std::vector<pid_t> left = processes_of(folder);
  CHECK(left.size() == 1);
  for (const pid_t pid : left)
    (void)::kill(pid, SIGKILL);
}

TEST_CASE("a slow rank slows every train step and the run succeeds") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2, flags_in(folder, {"--dp", "2", "--fault", "slow@train:1"}));
  REQUIRE(run.wait(patience_s) == Codes{0, 0});
  const std::string text = read_file(folder.file("records"));
  const std::string key = "\"train_step_ms\":";
  const std::size_t at = text.find(key);
  REQUIRE(at != std::string::npos);
  CHECK(std::atof(text.c_str() + at + key.size()) >= 50);
  // The other one waits for it, which is no work of its own.
  const std::string own = "\"busy_ms_by_rank\":[";
  const std::size_t times = text.find(own);
  REQUIRE(times != std::string::npos);
  char* end = nullptr;
  const double first = std::strtod(text.c_str() + times + own.size(), &end);
  const double second = std::strtod(end + 1, nullptr);
  CHECK(first > 0);
  CHECK(second >= 50);
  CHECK(first < second / 2);
}

TEST_CASE("a rank that crashes is a lost peer") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2, flags_in(folder, {"--dp", "2", "--fault", "crash@train:1"}));
  CHECK(run.wait(patience_s) == Codes{14, -SIGABRT});
}

TEST_CASE("rank 0 meets its peers on a socket that its parent bound") {
  const ScratchFolder folder;
  const int listener = listen_on("127.0.0.1", 0);
  REQUIRE(listener >= 0);
  (void)::fcntl(listener, F_SETFD, 0);
  const auto rank = [&](const char* self, const std::string& where) {
    return flags_in(
        folder, {"--dp", "2", "--world-size", "2", "--rank", self, "--rendezvous", where});
  };
  Launch first(SHARDBENCH_PROGRAM, 1, rank("0", "fd:" + std::to_string(listener)));
  Launch second(
      SHARDBENCH_PROGRAM, 1, rank("1", "tcp://127.0.0.1:" + std::to_string(bound_port(listener))));
  ::close(listener);
  CHECK(first.wait(patience_s) == Codes{0});
  CHECK(second.wait(patience_s) == Codes{0});
}

TEST_CASE("ranks started by srun know themselves from Slurm's variables") {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2, flags_in(folder, {"--dp", "2"}), {.identity = Identity::slurm});
  CHECK(run.wait(patience_s) == Codes{0, 0});
  const std::string text = read_file(folder.file("records"));
  CHECK(text.find("\"world_size\":2") != std::string::npos);
  CHECK(last_line(text).rfind("{\"type\":\"result\"", 0) == 0);
}
