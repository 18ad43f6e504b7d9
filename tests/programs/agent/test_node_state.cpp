// SPDX-License-Identifier: Apache-2.0
// What a node must be rid of before an attempt, and who else is on it: shared memory, processes
// of ended jobs, GPU memory and processes (with the driver of tests/tools/fakes: no GPU was met
// here).
#include "machine/processes.hpp"
#include "programs/agent/allocation.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <ostream>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

/// A segment as NCCL makes it; gone with the test.
struct Segment {
  explicit Segment(const std::string& name, mode_t mode = 0600) : path("/dev/shm/" + name) {
    descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    REQUIRE(descriptor >= 0);
    ::fchmod(descriptor, mode);
    REQUIRE(::ftruncate(descriptor, 4096) == 0);
    // Where not all processes may be looked at, those made within a minute are left alone.
    const timespec past[2] = {{1, 0}, {1, 0}};
    REQUIRE(::futimens(descriptor, past) == 0);
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() {
    if (memory != nullptr) ::munmap(memory, 4096);
    close();
    ::unlink(path.c_str());
  }
  void map() {
    memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    REQUIRE(memory != MAP_FAILED);
  }
  void close() {
    if (descriptor >= 0) ::close(descriptor);
    descriptor = -1;
  }
  [[nodiscard]] bool there() const { return std::filesystem::exists(path); }

  std::filesystem::path path;
  int descriptor = -1;
  void* memory = nullptr;
};

std::string unique(const std::string& name) {
  return name + std::to_string(::getpid());
}

/// A process in an environment of its own, named as env(1) takes it.
struct Bystander {
  explicit Bystander(const std::string& variable) : pid(start(variable)) {
    REQUIRE(wait_until([this] { return process_cmdline(pid).starts_with("tail"); }));
  }
  static pid_t start(const std::string& variable) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::setsid();
    ::execl("/usr/bin/env", "env", "-i", variable.c_str(), "tail", "-f", "/dev/null", nullptr);
    ::_exit(126);
  }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;
  ~Bystander() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  [[nodiscard]] bool lives() const {
    const auto stat = process_stat(pid);
    return stat && stat->state != 'Z';
  }
  pid_t pid;
};

struct GpuNode : Allocation {
  GpuNode() {
    environment["LD_LIBRARY_PATH"] = SHARDSWEEP_FAKES_DIR "/new";
    environment["FAKE_NVML"] = (folder().path() / "gpus").string();
    environment["CUDA_VISIBLE_DEVICES"] = "0";
    every.limits.gpu_release_s = no_limit_s;
    every.limits.gpu_slack_bytes = 1000;
  }
  void gpu(std::int64_t used_bytes, const std::string& more = "") {
    const auto next = folder().path() / "gpus.next";
    std::ofstream(next) << "device|NVIDIA H100 80GB HBM3|GPU-aa|" << used_bytes
                        << "|80000000000|0|0\n"
                        << more;
    std::filesystem::rename(next, folder().path() / "gpus");
  }
};

}  // namespace

// Agents of other tests on this machine may be first to remove them.
TEST_CASE("segments that lost their processes are removed and nobody else's") {
  Segment left(unique("nccl-left"));
  left.close();
  Segment mapped(unique("nccl-mapped"));
  mapped.map();
  mapped.close();
  const Segment opened(unique("nccl-open"));
  Segment readable(unique("nccl-readable"), 0644);
  readable.close();
  Segment other(unique("dataset-"));
  other.close();
  const std::string of_rank = unique("nccl-rank");

  Allocation allocation;
  allocation.assign({"shared=" + of_rank, "result"}, 1);
  allocation.start();
  CHECK(allocation.wait_ended(1).ending.outcome == Outcome::completed);
  CHECK(!left.there());
  CHECK(!std::filesystem::exists("/dev/shm/" + of_rank));
  CHECK(mapped.there());
  CHECK(opened.there());
  CHECK(readable.there());
  CHECK(other.there());
}

TEST_CASE("what a job of ours that has ended left without a marker is ended") {
  const Bystander left("SLURM_JOB_ID=987654321");
  const Bystander of_another_job("SLURM_JOB_ID=987654322");
  const Bystander in_none("HOME=/");
  Allocation allocation;
  allocation.write_ended_jobs("98765432\n987654321\n");
  allocation.assign({"result"}, 1);
  allocation.start();
  CHECK(allocation.wait_ended(1).ending.outcome == Outcome::completed);
  CHECK(!left.lives());
  CHECK(of_another_job.lives());
  CHECK(in_none.lives());
  CHECK(allocation.log().find("process " + std::to_string(left.pid) +
            " is left over from job 987654321, which has ended") != std::string::npos);
}

TEST_CASE("an attempt waits for GPU memory that is on its way back") {
  GpuNode node;
  node.gpu(9000);
  node.assign({"result"}, 1);
  node.start();
  CHECK(wait_until([&] { return node.lines().size() > 3; }));
  CHECK(!node.ended(1));
  node.gpu(500);
  CHECK(node.wait_ended(1).ending.outcome == Outcome::completed);
}

TEST_CASE("a node whose GPU memory does not come back takes no attempt") {
  GpuNode node;
  node.gpu(9000, "process|0|4000000|8000\n");
  node.every.limits.gpu_release_s = at_once_s;
  node.assign({"result"}, 1);
  node.assign({"result"}, 1);
  node.start();
  const Ended ended = node.wait_ended(1);
  CHECK(ended.ending.outcome == Outcome::node_failure);
  CHECK(
      ended.ending.cause.find("not started: GPU memory was not freed within") != std::string::npos);
  CHECK(ended.ending.cause.find("by processes that cannot be inspected here: 4000000") !=
      std::string::npos);
  CHECK(node.wait_exit() == 0);
  CHECK(node.revoked() == std::vector<AttemptId>{2});
  const auto findings = node.findings();
  CHECK(std::any_of(findings.begin(), findings.end(),
      [](const FoundOnNode& one) { return one.kind == EvidenceKind::dirty; }));
}

TEST_CASE("a measurement beside somebody else on the GPU is contaminated") {
  const Bystander other("HOME=/");
  GpuNode node;
  node.gpu(90'000'000, "process|0|" + std::to_string(other.pid) + "|89999500\n");
  node.assign({"result"}, 1);
  node.start();
  const Ended ended = node.wait_ended(1);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.mark == Mark::contaminated);
  CHECK(ended.ending.also ==
      "process " + std::to_string(other.pid) + " holds 85 MiB of GPU 0: 'tail -f /dev/null'");
  CHECK(other.lives());
}

TEST_CASE("nobody looks at GPUs where the policy says so") {
  GpuNode node;
  node.gpu(9000);
  node.every.limits.gpu_release_s = 0;
  node.assign({"result"}, 1);
  node.start();
  CHECK(node.wait_ended(1).ending.outcome == Outcome::completed);
}
