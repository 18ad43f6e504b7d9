// SPDX-License-Identifier: Apache-2.0
// A rank that behaves as its arguments say, for the tests of the agent: `agent_test_rank
// MODE…`, modes one after the other. The last one ends the process.
#include "tools/lib/wait_until.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

const std::string rank = variable("RANK");
const std::string nonce = variable("TEST_NONCE");

void record(const std::string& text) {
  const std::string name = rank == "0" ? "records.jsonl" : "records.jsonl." + rank;
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line = text + "\n";
  (void)!::write(file, line.data(), line.size());
  ::close(file);
}

void record_phase(const std::string& phase) {
  record(R"({"type":"phase","phase":")" + phase + R"(","run_id":")" + nonce + "\"}");
}

void record_error(const std::string& kind) {
  record(R"({"type":"error","class":")" + kind + R"(","message":"as told","run_id":")" + nonce +
      "\"}");
}

[[noreturn]] void hang() {
  while (true)
    ::pause();
}

/// A process of its own: new session, no parent, no reaction to SIGHUP and SIGTERM.
template <class Body>
void detach(Body body) {
  const pid_t between = ::fork();
  if (between != 0) {
    ::waitpid(between, nullptr, 0);
    return;
  }
  ::setsid();
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  if (::fork() != 0) ::_exit(0);
  body();
  ::_exit(0);
}

/// Never the same pid for longer than a moment.
[[noreturn]] void refork() {
  while (true) {
    if (::fork() > 0) ::_exit(0);
  }
}

/// Where it stands, for whom it is and what of the agent it could touch.
void tell_place() {
  int inherited = 0;
  for (int number = STDERR_FILENO + 1; number < 256; ++number)
    inherited += ::fcntl(number, F_GETFD) != -1 ? 1 : 0;
  const std::string line = "place " + rank + " " + variable("LOCAL_RANK") + " " +
      variable("CUDA_VISIBLE_DEVICES") + " " + variable("SHARDSWEEP_MARKER") + " " +
      std::to_string(inherited) + " " + (variable("SLURM_JOB_ID").empty() ? "free" : "slurm") +
      "\n";
  (void)!::write(STDOUT_FILENO, line.data(), line.size());
}

void behave(const std::string& mode) {
  if (mode == "steps") {
    record_phase("rendezvous");
    record_phase("train");
    record(R"({"type":"train_step","step":1,"run_id":")" + nonce + "\"}");
  } else if (mode.starts_with("step=")) {
    record(R"({"type":"train_step","step":1,"step_ms":)" + mode.substr(5) + R"(,"run_id":")" +
        nonce + "\"}");
  } else if (mode == "result") {
    if (rank == "0") record(R"({"type":"result","loss":1,"run_id":")" + nonce + "\"}");
  } else if (mode == "wild") {
    // More than is read at one look, and then a line of very many keys.
    std::string lines;
    for (int step = 0; step < 100'000; ++step)
      lines += R"({"type":"train_step","step":2,"step_ms":1,"run_id":")" + nonce + "\"}\n";
    lines.pop_back();
    record(lines);
    std::string keys;
    for (int key = 0; key < 20'000; ++key)
      keys += ",\"key" + std::to_string(key) + "\":" + std::to_string(key);
    record(R"({"type":"note","run_id":")" + nonce + '"' + keys + "}");
  } else if (mode == "foreign-result") {
    record(R"({"type":"result","run_id":"somebody else's"})");
  } else if (mode == "garbage") {
    record("{\"type\":\"train_st");
    record(std::string("\x00\xff\xfe garbage", 11));
    record(std::string(600'000, 'x'));
  } else if (mode.starts_with("error=")) {
    record_error(mode.substr(6));
  } else if (mode.starts_with("exit=")) {
    ::_exit(std::atoi(mode.c_str() + 5));
  } else if (mode.starts_with("signal=")) {
    ::kill(::getpid(), std::atoi(mode.c_str() + 7));
  } else if (mode.starts_with("kill-agent-of=")) {
    if (variable("SHARDSWEEP_MARKER").ends_with("/" + mode.substr(14)))
      ::kill(::getppid(), SIGKILL);
  } else if (mode == "tear") {
    const int file = ::open("records.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);
    (void)!::write(file, "{\"type\":\"tra", 13);
    ::close(file);
  } else if (mode == "stubborn") {
    ::signal(SIGTERM, SIG_IGN);
  } else if (mode == "leak") {
    detach([] { hang(); });
  } else if (mode == "refork") {
    detach([] { refork(); });
  } else if (mode.starts_with("shared=")) {
    const std::string file = "/dev/shm/" + mode.substr(7);
    const int shared = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    (void)!::ftruncate(shared, 4096);
    // As if it had been made long ago: who may not look at all processes waits for a minute.
    const timespec past[2] = {{1, 0}, {1, 0}};
    ::futimens(shared, past);
    ::close(shared);
  } else if (mode.starts_with("until=")) {
    const std::string file = mode.substr(6);
    (void)shardsweep::test::wait_until([&] { return ::access(file.c_str(), F_OK) == 0; });
  } else if (mode == "hang") {
    hang();
  } else if (mode == "place") {
    tell_place();
  } else if (mode.starts_with("nccl=")) {
    const std::string file = variable("NCCL_DEBUG_FILE");
    const int log =
        file.empty() ? -1 : ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const std::string origin = "host:1:2 [" + variable("LOCAL_RANK") + "] ";
    const std::string lines = origin + "NCCL INFO NCCL_DEBUG set to " + variable("NCCL_DEBUG") +
        "\n" + origin + mode.substr(5) + "\n";
    if (log >= 0) (void)!::write(log, lines.data(), lines.size());
    if (log >= 0) ::close(log);
  } else if (mode.starts_with("say=")) {
    const std::string line = mode.substr(4) + "\n";
    (void)!::write(STDOUT_FILENO, line.data(), line.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string mode = argv[i];
    // "1:crash" is for rank 1 alone.
    const std::size_t colon = mode.find(':');
    if (colon == std::string::npos) {
      behave(mode);
    } else if (mode.substr(0, colon) == rank) {
      behave(mode.substr(colon + 1));
    }
  }
  return 0;
}
