// SPDX-License-Identifier: Apache-2.0
#include "plan/lane_order.hpp"

#include <algorithm>

namespace shardsweep {
namespace {

// The finalizer of SplitMix64 [Steele, Lea, Flood, OOPSLA 2014].
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31U);
}

}  // namespace

void LaneHash::add(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  high = mixed(high ^ bits);
  low = mixed(low + bits * 0x9e3779b97f4a7c15ULL + 1);
}

void LaneHash::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  for (const char c : text)
    add(std::int64_t{c});
}

std::vector<LaneRange> order_lanes(std::vector<LaneEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const LaneEntry& a, const LaneEntry& b) {
    return std::tie(a.lane, a.micro_batch, a.grad_accum, a.repeat, a.index) <
        std::tie(b.lane, b.micro_batch, b.grad_accum, b.repeat, b.index);
  });
  std::vector<LaneRange> lanes;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& each = entries[i];
    if (i == 0 || each.lane != entries[i - 1].lane) lanes.push_back({i, 0, each.value, each.index});
    auto& lane = lanes.back();
    ++lane.count;
    lane.value = std::max(lane.value, each.value);
    lane.index = std::min(lane.index, each.index);
  }
  std::sort(lanes.begin(), lanes.end(), [&](const LaneRange& a, const LaneRange& b) {
    const auto& one = entries[a.first];
    const auto& other = entries[b.first];
    return std::tuple(one.nodes, one.gpus, -a.value, a.index) <
        std::tuple(other.nodes, other.gpus, -b.value, b.index);
  });
  return lanes;
}

}  // namespace shardsweep
