// SPDX-License-Identifier: Apache-2.0
#include "sweep/axis_setting.hpp"
#include "sweep/layout_text.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace shardsweep;

namespace {

/// "tp 4, recompute full"; a fault's text in brackets.
std::string read(std::string_view text) {
  const auto settings = read_layout_settings(text);
  if (!settings) return "[" + settings.error().what + "]";
  std::string all;
  for (const auto& one : *settings) {
    REQUIRE(one.values.size() == 1);
    all += (all.empty() ? "" : ", ") + std::string(one.axis->name) + " " +
        axis_text(*one.axis, one.values.front());
  }
  return all;
}

}  // namespace

TEST_CASE("settings are names, aliases and short names with a value") {
  CHECK(read("").empty());
  CHECK(read("tp=4 pp=2") == "tp 4, pp 2");
  CHECK(read(" tp=4,recompute=full ") == "tp 4, recompute full");
  CHECK(read("mb=2 ga=8 z=1") == "micro_batch 2, grad_accum 8, zero 1");
  CHECK(read("tensor_parallel_size=4") == "tp 4");
  CHECK(read("--tensor-model-parallel-size 8 --sequence-parallel --recompute-granularity=full") ==
      "tp 8, sequence_parallel true, recompute full");
  CHECK(read("overlap=false sequence_parallel=1") == "overlap false, sequence_parallel true");
}

TEST_CASE("settings are read in the words in which a page shows them") {
  CHECK(read("tp 16") == "tp 16");
  CHECK(read("ZeRO 0") == "zero 0");
  CHECK(read("z0 tp8 pp32") == "zero 0, tp 8, pp 32");
  CHECK(read("dp 4 × tp 8 × pp 2, micro batch 2, ZeRO 1, full recompute, no overlap") ==
      "dp 4, tp 8, pp 2, micro_batch 2, zero 1, recompute full, overlap false");
  CHECK(read("cp 1 recompute none, sequence parallel") ==
      "cp 1, recompute none, sequence_parallel true");
}

TEST_CASE("a layout as it is shown is read to the same layout") {
  for (const auto& axis : axes()) {
    if (!axis.of_layout()) continue;
    Point point;
    const auto other = axis.default_value == axis.minimum ? axis.minimum + 1 : axis.minimum;
    axis.set(point, other);
    const auto settings = read_layout_settings(layout_text(point));
    INFO(layout_text(point));
    REQUIRE(settings);
    Point same;
    for (const auto& one : *settings)
      one.axis->set(same, one.values.front());
    CHECK(same == point);
  }
}

TEST_CASE("a mistake names what there is") {
  CHECK(read("tp=3x") == "[tp is a whole number from 1 to 1048576, not '3x']");
  CHECK(read("tp=0").find("from 1 to") != std::string::npos);
  CHECK(read("recompute=some")
            .starts_with("[recompute is not 'some'; it is one of: none, selective, full, "));
  CHECK(read("overlap=maybe") == "[overlap is true or false, not 'maybe']");
  CHECK(read("micro_bach=2").find("micro_batch") != std::string::npos);
  CHECK(read("tp=2 tp=4") == "[tp is set twice]");
  CHECK(read("seq_len=4096").find("not part of a layout") != std::string::npos);
  CHECK(read("fast").find("does not set an axis") != std::string::npos);
  CHECK(read("dp 4 tp") == "[tp has no value; write for example tp=1]");
  CHECK(
      read("micro") == "['micro' does not set an axis; write for example tp=4 or recompute=full]");
}
