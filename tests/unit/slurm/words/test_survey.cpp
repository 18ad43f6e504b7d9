// SPDX-License-Identifier: Apache-2.0
// What a site gives to whom: texts as Slurm 22.05 prints them.
#include "slurm/words/survey.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;
using namespace shardsweep::slurm;

TEST_CASE("partitions and their sizes, and which one is the default") {
  SiteFacts facts;
  REQUIRE(
      read_partitions("main*|up|6|infinite|16|32000|gpu:8(S:0-1)|idle\n"
                      "main*|up|2|infinite|32+|16000+|(null)|alloc\n"
                      "gpu|up|120|1-12:00:00|96|1000000|gpu:h100:8|mix\n",
          facts));
  CHECK(facts.default_partition == "main");
  CHECK(facts.partitions_known);
  CHECK(facts.partitions.at("main") == PartitionFacts{8, 0, {{6, 8, 32000, 6}, {2, 0, 16000}}});
  CHECK(facts.partitions.at("gpu") == PartitionFacts{120, 0, {{120, 8, 1000000}}, 36 * 3600});
  SUBCASE("nodes of a partition that is down are not idle") {
    REQUIRE(read_partitions("main*|down|6|infinite|16|32000|gpu:8|idle\n", facts));
    CHECK(facts.partitions.at("main").alike == std::vector<NodesAlike>{{6, 8, 32000, 0}});
  }
  SUBCASE("garbage changes nothing") {
    const SiteFacts before = facts;
    CHECK_FALSE(read_partitions(
        "main*|up|9|1:00|1|1|(null)|idle\nslurm_load_partitions: Unable to contact\n", facts));
    CHECK(facts == before);
  }
}

TEST_CASE("who waits for nodes, and is not us") {
  SiteFacts facts;
  REQUIRE(
      read_partitions("main*|up|8|1:00|1|1|(null)|idle\nshort|up|8|1:00|1|1|(null)|idle\n", facts));
  REQUIRE(
      read_waiting("1000|main|Resources\n"
                   "1001|main|Resources\n"
                   "1002|main,short|Priority\n"
                   "1003|main|Dependency\n"
                   "1004|main|QOSMaxJobsPerUserLimit\n"
                   "1005|main|BeginTime\n",
          1000, facts));
  CHECK(facts.others_known);
  CHECK(facts.partitions.at("main").others_waiting == 2);
  CHECK(facts.partitions.at("short").others_waiting == 1);
  REQUIRE(read_waiting("", 1000, facts));
  CHECK(facts.partitions.at("main").others_waiting == 0);
  CHECK_FALSE(read_waiting("nobody|main|Resources\n", 1000, facts));
}

TEST_CASE("how many jobs an association may have") {
  SiteFacts facts;
  REQUIRE(read_accounts("lab|lab|5|normal\nlab|other||\n", facts));
  CHECK(facts.default_account == "lab");
  CHECK(facts.accounts.at("lab") == AccountFacts{5, "normal"});
  CHECK(facts.accounts.at("other") == AccountFacts{std::nullopt, ""});
  SUBCASE("the largest where one has a row per partition") {
    REQUIRE(read_accounts("lab|lab|5|a\nlab|lab|7|a\n", facts));
    CHECK(facts.accounts.at("lab").most_jobs == 7);
    REQUIRE(read_accounts("lab|lab|5|a\nlab|lab||a\nlab|lab|6|a\n", facts));
    CHECK_FALSE(facts.accounts.at("lab").most_jobs);
  }
  SUBCASE("and none where there is no such user") {
    REQUIRE(read_accounts("", facts));
    CHECK(facts.accounts.empty());
  }
}

TEST_CASE("the smallest of a QOS's limits") {
  SiteFacts facts;
  REQUIRE(read_qos("normal|||\nlong|5||\nshared|50|20|30\n", facts));
  CHECK(facts.most_jobs_by_qos == std::map<std::string, std::int64_t>{{"long", 5}, {"shared", 20}});
  CHECK_FALSE(read_qos("normal|many||\n", facts));
}
