// SPDX-License-Identifier: Apache-2.0
// A baseline is a file that git diffs well, and comes back as it was.
#include "cli/commands/baseline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace shardsweep;

namespace {

Table kept_layouts() {
  return {{"model", "layout", "tokens_per_s_per_gpu", "runner_version", "repeats", "nvls"},
      {{"tiny", "dp1 tp1", 1234.5678901234567, "1.\"2\"", std::int64_t{3}, Value()},
          {"tiny", "dp2 tp1", 5.0, "ü", std::int64_t{1}, "on"}}};
}

std::string why(const std::string& text) {
  const auto read = baseline_from(text, "b.jsonl");
  REQUIRE_FALSE(read);
  return read.error().what;
}

}  // namespace

TEST_CASE("a baseline comes back as it was kept") {
  const auto text = baseline_text(kept_layouts());
  const auto back = baseline_from(text, "b.jsonl");
  REQUIRE(back);
  CHECK(back->columns == kept_layouts().columns);
  CHECK(back->rows == kept_layouts().rows);
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK(text.find("null") == std::string::npos);
}

TEST_CASE("what is no baseline is refused with its line") {
  CHECK(why("").find("b.jsonl:1: the file is not a baseline") == 0);
  CHECK(why("[1]\n").find("is not a baseline") != std::string::npos);
  CHECK(why("{\"shardsweep_baseline\":2,\"columns\":[]}\n").find("A newer shardsweep") !=
      std::string::npos);
  CHECK(why("{\"shardsweep_baseline\":1,\"columns\":[\"layout\"]}\n")
            .find("the column 'tokens_per_s_per_gpu' is missing") != std::string::npos);
  const auto text = baseline_text(kept_layouts());
  CHECK(why(text + "nothing\n").find("b.jsonl:4: the line is not a JSON object") == 0);
  CHECK(
      why(text + "{\"speed\":1}\n").find("'speed' is not a column of line 1") != std::string::npos);
  CHECK(why(text + "{\"model\":[1]}\n").find("'model' must be a number or a text") !=
      std::string::npos);
}
