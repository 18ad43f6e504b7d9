// SPDX-License-Identifier: Apache-2.0
// What is not the trial's fault: a program that is not there, a disk that takes nothing, a
// folder that was deleted. With a real lead, node agent and ranks.
#include "programs/agent/allocation.hpp"
#include "tools/lib/small_disk.hpp"

#include <shardsweep/attempt_files.hpp>

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

using namespace shardsweep;
using test::Allocation;

namespace {

/// An attempt whose program is `argv`.
Assign assign_program(Allocation& allocation, const std::vector<std::string>& argv) {
  const Assign assign = allocation.assign({"result"}, 1);
  AttemptSpec spec =
      decode_attempt_spec(read_file(AttemptPaths{assign.dir}.spec()).value()).value();
  spec.argv = argv;
  REQUIRE(write_file_durably(AttemptPaths{assign.dir}.spec(), encode(spec)));
  return assign;
}

bool has_ended(Allocation& allocation, AttemptId attempt) {
  for (const FromLead& line : allocation.lines()) {
    const auto* ended = std::get_if<Ended>(&line.body);
    if (ended != nullptr && ended->attempt == attempt) return true;
  }
  return false;
}

/// Makes what is constructed meanwhile lie on the small disk.
class On {
 public:
  explicit On(const test::SmallDisk& disk) {
    const char* before = std::getenv("TMPDIR");
    before_ = before == nullptr ? "/tmp" : before;
    ::setenv("TMPDIR", disk.path().c_str(), 1);
  }
  On(const On&) = delete;
  On& operator=(const On&) = delete;
  ~On() { ::setenv("TMPDIR", before_.c_str(), 1); }

 private:
  std::string before_;
};

}  // namespace

TEST_CASE("a program that is not there did not start: lost, with program, error and node") {
  Allocation allocation;
  const Assign assign = assign_program(allocation, {"/no/such/program"});
  allocation.start();
  const Ended ended = allocation.wait_ended(assign.attempt);
  CHECK(ended.ending.outcome == Outcome::lost);
  CHECK(ended.ending.start_error == ENOENT);
  CHECK(ended.ending.cause ==
      "rank 0 did not start: cannot start /no/such/program: No such file or directory on "
      "local");
}

TEST_CASE("so is one that may not be run, or is no program, or has too many arguments") {
  Allocation allocation;
  const std::string file = (allocation.paths().dir / "program").string();
  std::ofstream(file) << "\x7f"
                      << "ELF";
  ::chmod(file.c_str(), 0644);
  const Assign denied = assign_program(allocation, {file});
  const Assign large = assign_program(allocation, {"/bin/true", std::string(300'000, 'x')});
  allocation.start();
  CHECK(allocation.wait_ended(denied.attempt).ending.start_error == EACCES);
  CHECK(allocation.wait_ended(large.attempt).ending.start_error == E2BIG);
}

TEST_CASE("a program's own exit with 127 is a crash: it has run") {
  Allocation allocation;
  const Assign assign = allocation.assign({"exit=127"});
  allocation.start();
  const Ended ended = allocation.wait_ended(assign.attempt);
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.start_error == 0);
}

TEST_CASE("a lead whose programs do not start gives the rest back and leaves") {
  Allocation allocation;
  for (int i = 0; i < 5; ++i)
    assign_program(allocation, {"/no/such/program"});
  allocation.start();
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.bye().starts_with("no program could be started: "));
  CHECK(allocation.ended(3));
  CHECK_FALSE(allocation.ended(4));
  CHECK(allocation.revoked() == std::vector<AttemptId>{4, 5});
}

TEST_CASE("what fails while the disk is full is lost, and the next one waits for space") {
  const test::SmallDisk disk("4m");
  if (!disk.mounted()) {
    MESSAGE("skipped: mounting needs root");
    return;
  }
  const On on(disk);
  Allocation allocation;
  allocation.environment["TMPDIR"] = "/tmp";
  allocation.fail_at("lead.ended:wait-for-file,lead.shut:wait-for-file");
  const std::string flag = "/tmp/" + allocation.spec.token;
  const Assign first = allocation.assign({"steps", "until=" + flag, "exit=16"});
  const Assign second = allocation.assign({"steps", "result"});
  allocation.start();
  allocation.wait_steps(first, 2);
  disk.fill();
  std::ofstream(flag).put('\n');
  allocation.wait_at("lead.ended");
  allocation.go_on("lead.ended");
  allocation.wait_at("lead.shut");
  CHECK(allocation.marked().empty());
  disk.empty();
  allocation.go_on("lead.shut");
  const Ended ended = allocation.wait_ended(first.attempt);
  CHECK(ended.ending.outcome == Outcome::lost);
  CHECK(ended.ending.cause.starts_with("no file could be written: the disk of "));
  CHECK(ended.ending.also.find("exited with 16") != std::string::npos);
  CHECK(allocation.wait_ended(second.attempt).ending.outcome == Outcome::completed);
  ::unlink(flag.c_str());
}

TEST_CASE("a line that a full or broken disk does not take is written later, and none is lost") {
  for (const char* point : {"rundir.append:3:enospc", "rundir.append_sync:2:eio"}) {
    CAPTURE(point);
    Allocation allocation;
    allocation.fail_at(point);
    const Assign first = allocation.assign({"steps", "result"});
    const Assign second = allocation.assign({"result"});
    allocation.start();
    for (const Assign& attempt : {first, second})
      REQUIRE(test::wait_until([&] { return has_ended(allocation, attempt.attempt); }));
    allocation.tell(Drain{});
    CHECK(allocation.wait_exit() == 0);
    std::int64_t next = 1;
    for (const FromLead& line : allocation.lines()) {
      if (line.n < next) continue;  // not synced at first: said twice
      CHECK(line.n == next++);
    }
    CHECK(allocation.bye() == "drained");
  }
}

TEST_CASE("an attempt that a full disk does not take as a pack stays as it is, and counts") {
  Allocation allocation;
  allocation.fail_at("rundir.pack_file:2:enospc");
  const Assign assign = allocation.assign({"steps", "result"});
  allocation.start();
  const Ended ended = allocation.wait_ended(assign.attempt);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.pack.empty());
  CHECK(std::filesystem::exists(assign.dir));
  CHECK(!std::filesystem::exists(AttemptPaths{assign.dir}.pack()));
}

TEST_CASE("out of memory on a full disk is still out of memory") {
  const test::SmallDisk disk("4m");
  if (!disk.mounted()) {
    MESSAGE("skipped: mounting needs root");
    return;
  }
  const On on(disk);
  Allocation allocation;
  allocation.environment["TMPDIR"] = "/tmp";
  allocation.fail_at("lead.ended:wait-for-file");
  const std::string flag = "/tmp/" + allocation.spec.token;
  const Assign assign = allocation.assign({"steps", "until=" + flag, "exit=11"});
  allocation.start();
  allocation.wait_steps(assign, 2);
  disk.fill();
  std::ofstream(flag).put('\n');
  allocation.wait_at("lead.ended");
  disk.empty();
  allocation.go_on("lead.ended");
  CHECK(allocation.wait_ended(assign.attempt).ending.outcome == Outcome::oom);
  ::unlink(flag.c_str());
}

TEST_CASE("an attempt whose folder is deleted while it runs is lost, not crashed") {
  Allocation allocation;
  const std::string flag = "/tmp/" + allocation.spec.token;
  const Assign assign = allocation.assign({"steps", "until=" + flag, "exit=16"});
  allocation.start();
  allocation.wait_steps(assign, 2);
  std::filesystem::remove_all(assign.dir);
  std::ofstream(flag).put('\n');
  const Ended ended = allocation.wait_ended(assign.attempt);
  CHECK(ended.ending.outcome == Outcome::lost);
  CHECK(ended.ending.cause.find("is gone") != std::string::npos);
  ::unlink(flag.c_str());
}

TEST_CASE("a rank dumps no core, and no file of its grows beyond the limit") {
  Allocation allocation;
  allocation.every.limits.file_limit_bytes = 1 << 20;
  const Assign assign = assign_program(
      allocation, {"/bin/sh", "-c", "ulimit -Sc; ulimit -Sf; head -c 9000000 /dev/zero >big"});
  allocation.start();
  (void)allocation.wait_ended(assign.attempt);
  const auto files = list_attempt_files(AttemptPaths{assign.dir});
  REQUIRE(files);
  std::uint64_t big = 0;
  std::string log;
  for (const AttemptFile& file : *files) {
    if (file.name == "rank.0.out") log = AttemptFileReader::open(file)->read(0, 100).value();
    if (file.name == "big") big = file.size;
  }
  CHECK(log.starts_with("0\n2048\n"));
  CHECK(big > 0);
  CHECK(big <= 1 << 20);
}

TEST_CASE("a rank that prints without end is ended, and the cause says how much") {
  Allocation allocation;
  allocation.every.limits.log_limit_bytes = 1'000'000;
  const Assign assign = assign_program(
      allocation, {"/bin/sh", "-c", "head -c 2000000 /dev/zero; exec tail -f /dev/null"});
  allocation.start();
  const Ended ended = allocation.wait_ended(assign.attempt);
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.cause.starts_with("rank 0 has printed "));
  CHECK(ended.ending.cause.find("watch.log_limit is 1000000") != std::string::npos);
}
