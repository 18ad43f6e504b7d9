// SPDX-License-Identifier: Apache-2.0
// What is read of a runner's records beside its metrics.
#include <shardsweep/records.hpp>

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

OwnWork own_work(const std::string& keys) {
  const std::string line =
      R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":1)" + keys + "}\n";
  const auto summary = summarise_records(line, "n");
  REQUIRE(summary.result);
  return summary.own_work;
}

}  // namespace

TEST_CASE("what each rank needed for its own work is read where it is told") {
  const auto told = own_work(R"(,"busy_ms_by_rank":[1.5,2,0.25e1],"stage_by_rank":[0,0,1])");
  CHECK(told.busy_ms == std::vector<double>{1.5, 2, 2.5});
  CHECK(told.stages == std::vector<std::int32_t>{0, 0, 1});
  CHECK(own_work("").busy_ms.empty());
}

TEST_CASE("times that are none are as good as not told") {
  for (const char* times : {"3", "[1,\"2\"]", "[1,null]", "[-1]", "[1e300]", "{\"0\":1}"}) {
    CAPTURE(times);
    CHECK(own_work(std::string(",\"busy_ms_by_rank\":") + times).busy_ms.empty());
  }
}
