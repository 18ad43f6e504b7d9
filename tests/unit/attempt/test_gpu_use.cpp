// SPDX-License-Identifier: Apache-2.0
#include "attempt/gpu_use.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t slack = 1024 * mib;

GpuFindings judge(
    GpuBaseline& baseline, std::int64_t used_mib, std::vector<GpuHolder> holders = {}) {
  return baseline.judge({{0, used_mib * mib, std::move(holders)}}, slack);
}

}  // namespace

TEST_CASE("GPU memory above the least that was ever in use is held") {
  GpuBaseline baseline;
  CHECK(judge(baseline, 600).held.empty());
  CHECK(judge(baseline, 1600).held.empty());
  CHECK(
      judge(baseline, 1700).held == "1700 MiB of GPU 0 are in use, but only 600 MiB were earlier");
  CHECK(judge(baseline, 5).held.empty());
  CHECK(!judge(baseline, 1100).held.empty());
}

TEST_CASE("a node that is unwell from the beginning has no baseline of its own") {
  GpuBaseline baseline;
  CHECK(judge(baseline, 40'000).held ==
      "40000 MiB of GPU 0 are in use, but only 1024 MiB were earlier");
  CHECK(judge(baseline, 700).held.empty());
}

TEST_CASE("what somebody else holds has not been left") {
  GpuBaseline baseline;
  const auto found = judge(baseline, 40'000, {{7, 39'000 * mib, "python train.py"}});
  CHECK(found.held.empty());
  CHECK(found.others == "process 7 holds 39000 MiB of GPU 0: 'python train.py'");
  SUBCASE("and may be all of it where it does not tell") {
    const auto silent = judge(baseline, 40'000, {{7, std::nullopt, "python"}});
    CHECK(silent.held.empty());
    CHECK(silent.others == "process 7 holds an unknown amount of GPU 0: 'python'");
  }
  SUBCASE("but not more than that") {
    CHECK(!judge(baseline, 50'000, {{7, 39'000 * mib, "python"}}).held.empty());
  }
}

TEST_CASE("a process that is not seen here explains nothing and disturbs nobody") {
  GpuBaseline baseline;
  const auto found = judge(baseline, 9000, {{7, 8000 * mib, ""}});
  CHECK(found.held ==
      "9000 MiB of GPU 0 are in use, but only 1024 MiB were earlier, by processes that cannot be "
      "inspected here: 7");
  CHECK(found.others.empty());
}

TEST_CASE("who only watches a GPU does not compute there") {
  GpuBaseline baseline;
  CHECK(judge(baseline, 30, {{7, 30 * mib, "watcher"}}).others.empty());
}

TEST_CASE("each GPU is judged for itself") {
  GpuBaseline baseline;
  const auto found =
      baseline.judge({{0, 100 * mib, {}}, {3, 9000 * mib, {}}, {4, 8000 * mib, {}}}, slack);
  CHECK(found.held ==
      "9000 MiB of GPU 3 are in use, but only 1024 MiB were earlier; 8000 MiB of GPU 4 are in use, "
      "but only 1024 MiB were earlier");
}
