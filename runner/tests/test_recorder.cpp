// SPDX-License-Identifier: Apache-2.0
// Who is named where all members of a group but one wait in a collective.
#include "launch.hpp"
#include "measurement/recorder.hpp"
#include "measurement/recorder_report.hpp"
#include "parallel/groups.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace shardbench;

namespace {

/// Ranks that wait for `absent` in its group of that name, and are named. All other ranks have no
/// operation under way.
std::vector<i64> named_for(const Layout& layout, const std::string& name, i64 absent) {
  const ScratchFolder folder;
  const Group group{name, 7, members_of(layout, absent, name)};
  std::vector<std::unique_ptr<FlightRecorder>> recorders;
  for (i64 rank = 0; rank < layout.world(); ++rank)
    recorders.push_back(std::make_unique<FlightRecorder>(folder.path(), "run", rank, layout));
  for (const i64 member : group.members) {
    if (member == absent) continue;
    FlightRecorder& recorder = *recorders[static_cast<std::size_t>(member)];
    recorder.waiting(recorder.entered(group, Operation::all_reduce, 0, 64, -1));
  }
  // Silence is not what names anybody here: all of them have beaten at one moment.
  for (i64 rank = 0; rank < layout.world(); ++rank) {
    std::fstream file(folder.file("rank." + std::to_string(rank)),
        std::ios::in | std::ios::out | std::ios::binary);
    constexpr double beat_s = 1e9;
    file.seekp(offsetof(RecorderHeader, beat_s));
    file.write(reinterpret_cast<const char*>(&beat_s), sizeof beat_s);
  }
  return read_recorders(folder.path()).guilty;
}

}  // namespace

TEST_CASE("a rank that its group waits for is named, whatever the group") {
  Layout layout;
  layout.dp = 4;
  layout.cp = 2;
  layout.tp = 2;
  layout.pp = 2;
  layout.ep = 4;
  for (const char* order : {"tp-dp-pp", "dp-tp-pp", "pp-dp-tp", "tp-cp-pp-dp", "dp-pp-cp-tp"}) {
    layout.rank_order = *rank_order_of(order);
    for (const i64 replicas : {1, 2})
      for (const char* name : {"tp", "dp", "pp", "cp", "shard", "replicate", "ep", "edp"}) {
        layout.dp_replicate = replicas;
        layout.ep = replicas == 1 ? 4 : 1;
        const i64 absent = 13;
        if (members_of(layout, absent, name).size() == 1) continue;
        CAPTURE(order);
        CAPTURE(name);
        CAPTURE(replicas);
        CHECK(named_for(layout, name, absent) == std::vector<i64>{absent});
      }
  }
}

TEST_CASE("a file that is no recorder's, or torn, is taken for none") {
  const ScratchFolder folder;
  Layout layout;
  layout.dp = 2;
  { const FlightRecorder recorder(folder.path(), "run", 1, layout); }
  const std::string path = folder.file("rank.1");
  REQUIRE(read_recorder_file(path));
  const std::string whole = read_file(path);
  // Each number of the header in turn is what no runner writes there.
  for (std::size_t at = 0; at + sizeof(i64) <= sizeof(RecorderHeader); at += sizeof(i64))
    for (const i64 value : {i64{-1}, i64{0}, std::numeric_limits<i64>::max()}) {
      std::string torn = whole;
      std::memcpy(torn.data() + at, &value, sizeof value);
      std::ofstream(path, std::ios::binary) << torn;
      // Texts and times may be anything; no reader falls over them.
      (void)recorder_report_json(read_recorders(folder.path()));
      const bool degree = at >= offsetof(RecorderHeader, layout) &&
          at < offsetof(RecorderHeader, layout) + 6 * sizeof(i64);
      CAPTURE(at);
      if (degree) CHECK_FALSE(read_recorder_file(path));
    }
}
