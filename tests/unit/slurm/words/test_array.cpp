// SPDX-License-Identifier: Apache-2.0
// Allocations as elements of a job array: names, ids, command and script.
#include "slurm/words/array.hpp"
#include "slurm/words/job.hpp"
#include "slurm/words/look.hpp"
#include "slurm/words/submission.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <variant>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::slurm;

namespace {

AllocationRequest element(std::int64_t index) {
  const std::string token = element_token("3f9a01ab", index);
  AllocationRequest request;
  request.token = token;
  request.job_name = "s.1-n2_" + token;
  request.dir = "/home/a b/" + token;
  request.script = request.dir / "job.sbatch";
  return request;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string line(const std::string& id, const std::string& name) {
  return id + separator + "RUNNING" + separator + "None" + separator + "n1" + separator + name +
      separator + "\n";
}

}  // namespace

TEST_CASE("an element is known by what stands behind its array's name") {
  const auto known = element_in("s.1-n2_3f9a01ab.12");
  REQUIRE(known);
  CHECK(known->array == "s.1-n2_3f9a01ab");
  CHECK(known->index == 12);
  // A job of its own, whatever its sweep is called.
  for (const char* name : {"s-n2_3f9a01ab", "s.1-n2_3f9a01ab", "", ".4", "a.-1", "a."})
    CHECK_FALSE_MESSAGE(element_in(name), name);
}

TEST_CASE("Slurm's name and id together name the allocation, and back") {
  CHECK(allocation_name("s-n2_3f", "12_4") == "s-n2_3f.4");
  CHECK(allocation_name("s-n2_3f", "12") == "s-n2_3f");
  // Elements that wait on one line are not told apart: it is about none of them.
  CHECK(allocation_name("s-n2_3f", "12_[3-9%2]") == "s-n2_3f");
  CHECK(slurm_name("s-n2_3f.4", "12_4") == "s-n2_3f");
  CHECK(slurm_name("s-n2_3f.4", "13") == "s-n2_3f.4");  // submitted by itself
  CHECK(slurm_name("s-n2_3f", "12") == "s-n2_3f");
}

TEST_CASE("a line of accounting that stands for several elements is about each of them") {
  using Ids = std::vector<std::string>;
  CHECK(element_ids("12_[0-2,5]") == Ids{"12_0", "12_1", "12_2", "12_5"});
  CHECK(element_ids("12_[3-4%2]") == Ids{"12_3", "12_4"});
  CHECK(element_ids("12") == Ids{"12"});
  CHECK(element_ids("12_7") == Ids{"12_7"});
  for (const char* odd : {"12_[", "12_[]", "12_[a]", "12_[3-1]", "12_[0-999999999]", "12_[1,]"})
    CHECK(element_ids(odd) == Ids{odd});
  const auto jobs = parse_accounting(
      "12_[0-1]\x1f"
      "CANCELLED by 1000\x1fNone\x1fNone assigned\x1f"
      "0:0\x1fs_3f\n");
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 2);
  CHECK((*jobs)[1].name == "s_3f.1");
  CHECK((*jobs)[1].state == "CANCELLED by 1000");
}

TEST_CASE("each element is found in the queue, with the state that is its own") {
  const auto jobs =
      parse_queue(line("12_0", "s-n2_3f") + line("12_10", "s-n2_3f") + line("13", "s-n2_3e"));
  REQUIRE(jobs);
  LookContext context{.own_uid = 1000, .now_s = 100, .settle_s = 10};
  MissedJobs missed;
  const std::vector<AllocationHandle> handles{
      {.token = "3f.10", .job_name = "s-n2_3f.10"}, {.token = "3f.1", .job_name = "s-n2_3f.1"}};
  const LookResult result = conclude(handles, *jobs, context, missed);
  REQUIRE(result.events.size() == 2);
  REQUIRE(std::holds_alternative<JobSeen>(result.events[0]));
  CHECK(std::get<JobSeen>(result.events[0]).job_id == "12_10");
  CHECK(std::holds_alternative<JobMissed>(result.events[1]));
  CHECK(result.cancel.empty());
}

TEST_CASE("one command submits the elements that are asked for, and no others") {
  auto first = element(3);
  first.strict = true;
  const auto command = array_command({first, element(5)}, "/home/a b/array.sbatch");
  for (const char* word :
      {"--array=3,5", "--job-name=s.1-n2_3f9a01ab", "--parsable", "--no-requeue", "--hold",
          "--chdir=/home/a b", "--output=/home/a b/3f9a01ab.%a/lead.log"}) {
    CHECK_MESSAGE(has(command, word), word);
  }
  CHECK(command.back() == "/home/a b/array.sbatch");
}

TEST_CASE("its answer is each element's: an id of its own, or the same doubt") {
  const auto accepted = read_array_submission("3f.5", 0, "77\n", "");
  REQUIRE(std::holds_alternative<SubmitAccepted>(accepted));
  CHECK(std::get<SubmitAccepted>(accepted).job_id == "77_5");
  CHECK(std::holds_alternative<SubmitUnknown>(
      read_array_submission("3f.5", 1, "", "sbatch: error: Socket timed out")));
}

TEST_CASE("the script has the options of one and goes on with each element's own") {
  const std::string script = array_script(
      "#!/bin/bash -l\n#SBATCH --nodes=2\n\n# A lane.\n"
      "set -eu\n#SBATCH --not-an-option\n",
      std::vector<ElementScript>{{3, "/home/a b/job"}, {5, "/home/c$d/job"}});
  CHECK(script ==
      "#!/bin/bash -l\n#SBATCH --nodes=2\n\n# A lane.\n"
      "# A job array: each element is an allocation of its own.\n"
      "case $SLURM_ARRAY_TASK_ID in\n"
      "3) exec /bin/bash -l '/home/a b/job' ;;\n"
      "5) exec /bin/bash -l '/home/c$d/job' ;;\n"
      "esac\n"
      "echo \"no allocation has the index $SLURM_ARRAY_TASK_ID\" >&2\n"
      "exit 1\n");
}

TEST_CASE("a script that is all options, or nothing, ends where it ends") {
  for (const char* text : {"#!/bin/sh", "#!/bin/sh\n", ""}) {
    const std::string script = array_script(text, {});
    CHECK_MESSAGE(script.starts_with(text), text);
    CHECK(script.find("case $SLURM_ARRAY_TASK_ID in\nesac\n") != std::string::npos);
  }
}
