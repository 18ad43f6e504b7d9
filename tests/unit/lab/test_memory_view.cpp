// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/memory_view.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

MemoryReport report() {
  MemoryScore score;
  score.model = "small";
  score.peak = {3, 0.064, 0.2};
  score.good = 3;
  score.oom = 10;
  score.caught = 9;
  score.missed = 1;
  auto total = score;
  total.model.clear();
  return {{score}, total};
}

}  // namespace

TEST_CASE("a person reads errors in per cent and a program shares") {
  const auto table = memory_report_text(report(), {.format = Format::table});
  CHECK(table.find("6.4 %") != std::string::npos);
  CHECK(table.find("all") != std::string::npos);
  const auto json = memory_report_text(report(), {.format = Format::json});
  CHECK(json.find("\"peak_error_median\":0.064") != std::string::npos);
  CHECK(json.find("\"allocated_error_median\":null") != std::string::npos);
  CHECK(json.rfind("{\"models\":[", 0) == 0);
  CHECK(json.find("\"total\":{\"model\":\"all\"") != std::string::npos);
  CHECK(json.find("\"caught\":9") != std::string::npos);
  CHECK(memory_report_text(report(), {.format = Format::csv})
            .find("small,3,3,0.064,0.2,0,,,0,0,10,9,1,0") != std::string::npos);
}
