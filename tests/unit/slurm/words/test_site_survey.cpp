// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/site_survey.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep::slurm;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Machine machine() {
  return {.kind = "aarch64",
      .cpus = 72,
      .memory_kib = 480L << 20,
      .gpus = {"NVIDIA GH200 480GB"},
      .containers = {"enroot"},
      .shared = {"/scratch (lustre)"},
      .sees_home = true};
}

Cluster cluster() {
  return {.name = "alps",
      .version = "24.05.4",
      .login_host = "login1",
      .partitions = {{"cpu", true, true, 40, "1-00:00:00", 128, 256000, ""},
          {"gpu", false, true, 16, "12:00:00", 96, 1000000, "gpu:h100:8"},
          {"old", false, false, 4, "infinite", 32, 64000, "gpu:4"}},
      .associations = {{"lab", "", "normal,high"}, {"course", "gpu", "normal"}}};
}

}  // namespace

TEST_CASE("partitions are read from sinfo, groups of unequal nodes as one") {
  const auto groups = parse_partitions(
      "main*|up|4|infinite|16|32000|gpu:8(S:0-1)|idle\n"
      "main*|up|2|infinite|16|32000|gpu:8(S:0-1)|idle~\n"
      "main*|up|2|infinite|32+|16000+|(null)|idle\n"
      "short|drain|8|1:00|16|32000|(null)|mix\n");
  REQUIRE(groups);
  CHECK_FALSE(parse_partitions("nonsense\n"));
  CHECK_FALSE(parse_partitions("*|up|6|infinite|16|32000|(null)|idle\n"));
  CHECK_FALSE(parse_partitions("main|up|6|infinite|16|32000|(null)\n"));
  CHECK_FALSE(parse_partitions("main|up|many|infinite|16|32000|(null)|idle\n"));
  const auto partitions = joined(*groups);
  REQUIRE(partitions.size() == 2);
  CHECK(
      partitions[0] == Partition{"main", true, true, 8, "infinite", 16, 16000, "gpu:8(S:0-1)", 6});
  CHECK(partitions[1] == Partition{"short", false, false, 8, "1:00", 16, 32000, ""});
}

TEST_CASE("GPUs of a node's generic resources") {
  CHECK(gpus_of("gpu:h100:8(S:0-1),nvme:1") == 8);
  CHECK(gpus_of("nvme:1,gpu:4") == 4);
  CHECK(gpus_of("gpu") == 1);
  CHECK(gpus_of("nvme:2") == 0);
  CHECK(gpus_of("") == 0);
}

TEST_CASE("times and sizes as Slurm writes them") {
  CHECK(seconds_of("infinite") == 0);
  CHECK(seconds_of("n/a") == 0);
  CHECK(seconds_of("1:00") == 60);
  CHECK(seconds_of("12:00:00") == 12 * 3600);
  CHECK(seconds_of("1-12:30:00") == 36.5 * 3600);
  CHECK(mebibytes_of("512") == 512);
  CHECK(mebibytes_of("64G") == 65536);
  CHECK(mebibytes_of("2048K") == 2);
  CHECK(mebibytes_of("1T") == 1 << 20);
  CHECK(mebibytes_of("") == 0);
}

TEST_CASE("accounts are read from sacctmgr") {
  CHECK(parse_associations("lab||normal,high|\ncourse|gpu|normal|\nbroken\n") ==
      std::vector<Association>{{"lab", "", "normal,high"}, {"course", "gpu", "normal"}});
}

TEST_CASE("the partition with GPUs goes before a default without, one that is down is the last") {
  Cluster asked = cluster();
  CHECK(partition_to_use(asked)->name == "gpu");
  asked.partitions.erase(asked.partitions.begin() + 1);
  CHECK(partition_to_use(asked)->name == "cpu");
  asked.partitions.clear();
  CHECK(partition_to_use(asked) == nullptr);
}

TEST_CASE("a machine's answer has to be complete") {
  const std::string answer =
      "machine=aarch64\ncpus=72\nmemory_kib=503316480\ngpu=NVIDIA GH200 480GB\n"
      "container=enroot\nshared=/scratch (lustre)\nhome=seen\ncomplete=\n";
  CHECK(parse_machine(answer) == machine());
  CHECK_FALSE(parse_machine(answer.substr(0, answer.find("complete"))).has_value());
  CHECK_FALSE(parse_machine("").has_value());
}

TEST_CASE("the site file says what was found and what is chosen") {
  Cluster asked = cluster();
  asked.node = machine();
  const std::string text = site_file_text(asked);
  CHECK(has(text, "'alps' (Slurm 24.05.4), as found on login1"));
  CHECK(has(text, "\nbackend: slurm\n"));
  CHECK(has(text, "\n  partition: \"gpu\""));
  CHECK(has(text, "\n  account: \"lab\""));
  CHECK(has(text, "# yours: course, lab"));
  CHECK(has(text, "# yours: high, normal"));
  CHECK(has(text, "NVIDIA GH200 480GB"));
  CHECK(has(text, "/scratch (lustre)"));
  CHECK(has(text, "It sees the folder of the database."));
  CHECK_FALSE(has(text, "gpus-per-node: false"));

  asked.partitions.resize(1);
  asked.associations.clear();
  asked.node->sees_home = false;
  const std::string without = site_file_text(asked);
  CHECK(has(without, "\n  gpus-per-node: false"));
  CHECK(has(without, "\n  # account: NAME"));
  CHECK(has(without, "does NOT see the folder"));
}
