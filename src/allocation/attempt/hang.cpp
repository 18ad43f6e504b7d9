// SPDX-License-Identifier: Apache-2.0
// Decision: One node suspects a hang, the lead asks all nodes, and only a common answer ends
// the attempt. That makes a limit of seconds safe. The daemon takes no part: it only notices a
// lead that is silent.
#include "attempt/hang.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

// An answer takes milliseconds; a node that owes one for longer is asked again.
constexpr double patience_s = 1;
constexpr std::size_t shown_ranks = 8;

std::string ranks_on_nodes(const std::vector<std::int32_t>& ranks, std::int32_t ranks_per_node,
    const std::map<std::int32_t, std::string>& nodes) {
  std::string text = (ranks.size() == 1 ? "rank " : "ranks ") + list_of_ranks(ranks);
  std::vector<std::string> names;
  for (const std::int32_t rank : ranks) {
    const auto node = nodes.find(rank / std::max(ranks_per_node, 1));
    if (node == nodes.end()) continue;
    if (std::find(names.begin(), names.end(), node->second) == names.end())
      names.push_back(node->second);
  }
  if (names.empty() || names.size() > shown_ranks) return text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? " on " : ", ") + names[i];
  return text;
}

}  // namespace

std::string list_of_ranks(const std::vector<std::int32_t>& ranks) {
  const auto text_of = [](std::int32_t rank) { return std::to_string(rank); };
  return join_first(ranks, shown_ranks, ", ", text_of);
}

bool HangQuestion::suspect(const Suspect& suspicion, double now_s) {
  if (asked_ && now_s - asked_at_s_ < patience_s) return false;
  if (now_s < ask_again_at_s_) return false;
  asked_ = suspicion;
  asked_at_s_ = now_s;
  still_s_.clear();
  return true;
}

void HangQuestion::answer(const std::string& node, const NoProgress& still) {
  if (asked_ && asked_->attempt == still.attempt) still_s_[node] = still.still_s;
}

std::optional<std::string> HangQuestion::verdict(int nodes, double now_s) {
  if (!asked_ || static_cast<int>(still_s_.size()) < nodes) return std::nullopt;
  const Suspect suspicion = *std::exchange(asked_, std::nullopt);
  for (const auto& [node, still_s] : still_s_) {
    if (still_s < 0 || still_s >= suspicion.limit_s) continue;
    ask_again_at_s_ = std::max(ask_again_at_s_, now_s + suspicion.limit_s - still_s);
  }
  if (now_s < ask_again_at_s_) return std::nullopt;
  return suspicion.why;
}

std::string accusation(const RecorderReading& reading, std::int32_t ranks_per_node,
    const std::map<std::int32_t, std::string>& nodes) {
  if (reading.guilty.empty()) return "";
  std::string text = ranks_on_nodes(reading.guilty, ranks_per_node, nodes);
  if (!reading.why.empty()) text += ": " + reading.why;
  const auto awaited =
      std::find_if(reading.waits.begin(), reading.waits.end(), [&](const auto& wait) {
        return std::find(wait.never_came.begin(), wait.never_came.end(), reading.guilty.front()) !=
            wait.never_came.end();
      });
  if (awaited == reading.waits.end()) return text;
  return text +
      fmt::format(" ({} {} in {} {} {}, which it never entered)", list_of_ranks(awaited->waiting),
          awaited->waiting.size() == 1 ? "waits" : "wait", awaited->group, awaited->operation,
          awaited->sequence);
}

}  // namespace shardsweep
