// SPDX-License-Identifier: Apache-2.0
// What it costs the host to issue an operation that NCCL takes soon: calls per second.
#include "base/clock.hpp"
#include "device/cpu_device.hpp"
#include "nccl/nccl_communicator.hpp"
#include "recording_nccl.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

using namespace shardbench;

int main() {
  constexpr int batches = 20;
  constexpr int calls = 200;
  constexpr double least_per_s = 20000;  // 10 us of sleep before each poll gave 5,000
  RecordingNccl nccl;
  const NcclTable table = RecordingNccl::table();
  const auto device = make_cpu_device(Dtype::fp32);
  RecordingStream stream;
  NcclWorld world(table,
      {[](const Group&, const NcclUniqueId& own) { return own; }, [] { sleep_ms(1); }, 60.0,
          NcclOrder::by_nccl});
  nccl.stay_in_progress(3);
  stream.done = std::numeric_limits<u64>::max();
  NcclCommunicator group(world, Group{"dp", 1, {0, 1}}, 0, stream, *device);
  std::vector<float> values(64, 1.0F);
  double best_per_s = 0;
  for (int batch = 0; batch < batches; ++batch) {
    const TimePoint start = now();
    for (int i = 0; i < calls; ++i)
      group.all_reduce(values.data(), 8, Dtype::fp32, Reduction::sum);
    best_per_s = std::max(best_per_s, calls / seconds_since(start));
  }
  std::printf(
      "collectives issued per second on one rank: %.0f (at least %.0f)\n", best_per_s, least_per_s);
  return best_per_s > least_per_s ? 0 : 1;
}
